#include "scheduler/mirror/run_restore.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "common/file.h"
#include "common/units.h"
#include "scheduler/config/run_config.h"
#include "scheduler/history/stored_event.h"
#include "scheduler/mirror/checkpoint_upload.h"
#include "storage/checkpoints/event_log.h"
#include "storage/files/content_store.h"

namespace shoal::scheduler {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPieceBytes = 8 << 20;  // of one request
constexpr std::uint64_t kHistoryBytesMax = std::uint64_t{1} << 30;
constexpr std::uint64_t kOriginBytesMax = 256 << 20;  // of one file
constexpr int kTries = 2;  // of a blob: its bytes may have been damaged on the way

// Whether the copy, and not the way to it, is what fails.
bool IsDamage(const Status& status) {
  return status.code() == StatusCode::kDataLoss || status.code() == StatusCode::kNotFound;
}

Status CheckNew(const std::string& directory) {
  for (const char* name : {"run.toml", "events", "identity.key", "join_secret"}) {
    std::error_code error;
    if (!fs::exists(directory + "/" + name, error)) continue;
    return AlreadyExists(directory + " has a run already (" + name +
                         "); give --dir a folder that is new");
  }
  return Status::Ok();
}

class Restore {
 public:
  Restore(const RestoreRequest& request, net::ObjectStore* store, storage::ContentStore* content)
      : request_(request), store_(*store), content_(*content) {}

  // One checkpoint, whole or not at all.
  Status From(const StoredRun& run, const std::function<void(const std::string&)>& say);

 private:
  Status Fetch(const storage::ArtefactRef& blob);
  Status FetchOnce(const storage::ArtefactRef& blob);
  Status ReadConfig(const StoredRun& run);
  Result<std::vector<std::string>> ReadHistory(const StoredRun& run) const;
  Status WriteOrigin(const StoredRun& run) const;
  Status WriteRun(const std::vector<std::string>& history) const;

  const RestoreRequest& request_;
  net::ObjectStore& store_;
  storage::ContentStore& content_;
  RunConfig config_;
};

Status Restore::FetchOnce(const storage::ArtefactRef& blob) {
  const std::string key = BlobKey(blob.hash);
  std::uint64_t have = content_.PartialSize(blob.hash);
  if (have > blob.size) {
    SHOAL_RETURN_IF_ERROR(content_.Remove(blob.hash));
    have = 0;
  }
  while (have < blob.size) {
    const auto want =
        static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, blob.size - have));
    SHOAL_ASSIGN_OR_RETURN(const std::string piece, store_.Get(key, have, want));
    if (piece.size() != want) return DataLoss(store_.address() + "/" + key + " is too short");
    SHOAL_RETURN_IF_ERROR(content_.AppendPartial(blob.hash, have, std::as_bytes(std::span(piece))));
    have += piece.size();
  }
  return content_.FinishPartial(blob.hash, blob.size);
}

Status Restore::Fetch(const storage::ArtefactRef& blob) {
  if (content_.Has(blob.hash)) return Status::Ok();
  Status status;
  for (int tried = 0; tried < kTries; ++tried) {
    status = FetchOnce(blob);
    if (status.code() != StatusCode::kDataLoss) break;
  }
  // So that the same bytes, should they be trained again, are not taken to be there.
  if (status.code() == StatusCode::kDataLoss) (void)store_.Delete(BlobKey(blob.hash));
  return status.WithContext(blob.name);
}

// Foreign text: read as any run.toml is, and written anew.
Status Restore::ReadConfig(const StoredRun& run) {
  const std::string path = request_.directory + "/run.toml.restoring";
  SHOAL_RETURN_IF_ERROR(WriteFileAtomic(path, run.config, 0600));
  auto config = ReadRunConfig(path);
  std::error_code error;
  fs::remove(path, error);
  if (!config.ok()) return DataLoss("the copy's run.toml: " + config.status().message());
  config_ = *std::move(config);
  config_.directory = request_.directory;
  config_.store = store_.address();
  config_.store_endpoint = request_.endpoint;
  config_.store_region = request_.region;
  config_.store_plain_http = request_.plain_http;
  config_.etcd.clear();  // the history is in the folder
  config_.etcd_login = {};
  config_.log_to.clear();  // paths of the other machine
  return Status::Ok();
}

// The history and the manifest must tell of the same run and checkpoint.
Result<std::vector<std::string>> Restore::ReadHistory(const StoredRun& run) const {
  const std::string name = "the copy's history";
  if (run.events.size > kHistoryBytesMax) return DataLoss(name + " is too large");
  SHOAL_ASSIGN_OR_RETURN(
      const std::string text,
      content_.Read(run.events.hash, 0, static_cast<std::size_t>(run.events.size)));
  std::vector<std::string> events;
  std::optional<RunId> began;
  std::optional<CheckpointMade> made;
  std::uint64_t generation = run.generation;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) return DataLoss(name + " ends in the midst of an event");
    std::string event = text.substr(at, end - at);
    at = end + 1;
    const auto decoded = DecodeEvent(event);
    if (!decoded.ok()) return DataLoss(name + ": " + decoded.status().message());
    if (const auto* const first = std::get_if<RunBegan>(&*decoded)) began = first->run;
    if (const auto* const plan = std::get_if<PlanMade>(&*decoded)) {
      generation = std::max(generation, plan->generation);
    }
    if (const auto* const checkpoint = std::get_if<CheckpointMade>(&*decoded)) made = *checkpoint;
    events.push_back(std::move(event));
  }
  if (!began || *began != run.run) return DataLoss(name + " is that of another run");
  if (!made || made->step != run.step) return DataLoss(name + " ends with another checkpoint");
  std::set<storage::ContentHash> stored;
  for (const storage::ArtefactRef& file : run.checkpoint) stored.insert(file.hash);
  for (const control::v1::ArtefactRef& file : made->files) {
    storage::ContentHash hash;
    std::copy_n(file.hash().begin(), hash.digest.size(), hash.digest.begin());
    if (!stored.contains(hash)) return DataLoss(name + " has files that the copy has not");
  }
  events.push_back(StampEvent(EncodeEvent(RunRestored{run.step, generation + kGenerationsLeftOut}),
                              request_.now_ms));
  return events;
}

Status Restore::WriteOrigin(const StoredRun& run) const {
  const std::string folder = request_.directory + "/origin";
  SHOAL_RETURN_IF_ERROR(MakeDirectories(folder + "/model", 0700));
  for (const storage::ArtefactRef& file : run.origin) {
    if (file.size > kOriginBytesMax) return DataLoss(file.name + " is too large");
    SHOAL_ASSIGN_OR_RETURN(const std::string bytes,
                           content_.Read(file.hash, 0, static_cast<std::size_t>(file.size)));
    SHOAL_RETURN_IF_ERROR(WriteFileAtomic(folder + "/" + file.name, bytes));
  }
  return Status::Ok();
}

// The history appears when all that it names is there; run.toml, by which people start, is last.
Status Restore::WriteRun(const std::vector<std::string>& history) const {
  const std::string events = request_.directory + "/events", made = events + ".restoring";
  std::error_code error;
  fs::remove_all(made, error);
  SHOAL_RETURN_IF_ERROR(storage::WriteRocksEventLog(made, history));
  fs::rename(made, events, error);
  if (error) return FromErrno(error.value(), "rename " + made);
  return WriteFileAtomic(request_.directory + "/run.toml", FormatRunConfig(config_), 0600);
}

Status Restore::From(const StoredRun& run, const std::function<void(const std::string&)>& say) {
  SHOAL_RETURN_IF_ERROR(ReadConfig(run));
  SHOAL_RETURN_IF_ERROR(Fetch(run.events));
  SHOAL_ASSIGN_OR_RETURN(const std::vector<std::string> history, ReadHistory(run));
  const std::vector<storage::ArtefactRef> blobs = run.Blobs();
  std::uint64_t bytes = 0;
  for (const storage::ArtefactRef& blob : blobs) bytes += blob.size;
  say("fetching the checkpoint of step " + std::to_string(run.step) + ", " +
      std::to_string(blobs.size()) + " files, " + FormatBytes(bytes) + ", from " +
      store_.address());
  for (const storage::ArtefactRef& blob : blobs) SHOAL_RETURN_IF_ERROR(Fetch(blob));
  SHOAL_RETURN_IF_ERROR(WriteOrigin(run));
  return WriteRun(history);
}

}  // namespace

Result<StoredRun> RestoreRun(const RestoreRequest& request, net::ObjectStore* store,
                             const std::function<void(const std::string&)>& say) {
  SHOAL_RETURN_IF_ERROR(CheckNew(request.directory));
  SHOAL_ASSIGN_OR_RETURN(const auto names, ListManifests(store));
  if (names.empty()) return NotFound(store->address() + " holds no checkpoint of a run");
  SHOAL_RETURN_IF_ERROR(MakeOwnFolder(request.directory));
  SHOAL_ASSIGN_OR_RETURN(const auto content,
                         storage::OpenFileContentStore(request.directory + "/artefacts"));
  Restore restore(request, store, content.get());
  Status last;
  for (const ManifestName& name : names) {
    const auto run = ReadManifest(store, name);
    last = run.ok() ? restore.From(*run, say) : run.status();
    if (last.ok()) return *run;
    if (!IsDamage(last)) return last;
    say("the checkpoint of step " + std::to_string(name.step) +
        " cannot be taken: " + last.message());
  }
  return NotFound(store->address() + " holds no checkpoint that is whole: " + last.message());
}

}  // namespace shoal::scheduler
