#include "scheduler/server/run_store.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "scheduler/server/artefact_ref.h"
#include "scheduler/server/run_artefacts.h"

namespace shoal::scheduler {
namespace {

constexpr std::size_t kReadBytesMax = 1 << 20;

constexpr const char* kHowToForget =
    "; put the folder back from a copy, or start anew from the model's weights with "
    "--forget-history, which sets the old history and artefacts aside";

Result<storage::ContentHash> ParseHash(const std::string& bytes) {
  storage::ContentHash hash;
  if (bytes.size() != hash.digest.size()) {
    return InvalidArgument("a hash has 32 bytes, this one " + std::to_string(bytes.size()));
  }
  std::copy(bytes.begin(), bytes.end(), hash.digest.begin());
  return hash;
}

std::string RawBytes(const storage::ContentHash& hash) {
  return std::string(reinterpret_cast<const char*>(hash.digest.data()), hash.digest.size());
}

}  // namespace

RunStore::RunStore(std::unique_ptr<storage::EventLog> log,
                   std::unique_ptr<storage::ContentStore> content)
    : log_(std::move(log)), content_(std::move(content)), bytes_(content_->bytes()) {}

Result<std::unique_ptr<RunStore>> RunStore::Open(const std::string& directory) {
  SHOAL_RETURN_IF_ERROR(MakeOwnFolder(directory));
  auto log = storage::OpenRocksEventLog(directory + "/events");
  if (log.status().code() == StatusCode::kDataLoss) {
    return DataLoss("the history of this run is damaged: " + log.status().message() + kHowToForget);
  }
  if (!log.ok()) return log.status();
  SHOAL_ASSIGN_OR_RETURN(auto content, storage::OpenFileContentStore(directory + "/artefacts"));
  return std::make_unique<RunStore>(*std::move(log), std::move(content));
}

Result<std::string> RunStore::SetAside(const std::string& directory) {
  namespace fs = std::filesystem;
  const std::string parts[] = {"/events", "/artefacts", "/origin", "/history.etcd"};
  std::error_code error;
  const bool any = std::any_of(std::begin(parts), std::end(parts), [&](const std::string& part) {
    return fs::exists(directory + part, error);
  });
  if (!any) return std::string();
  // A scheduler that runs holds the lock of its log; a damaged log is what this is for.
  const Status opened = storage::OpenRocksEventLog(directory + "/events").status();
  if (opened.code() == StatusCode::kUnavailable) return opened;
  std::string aside;
  for (int number = 1; aside.empty() || fs::exists(aside, error); ++number) {
    aside = directory + "/set-aside-" + std::to_string(number);
  }
  SHOAL_RETURN_IF_ERROR(MakeDirectories(aside, 0700));
  for (const std::string& part : parts) {
    fs::rename(directory + part, aside + part, error);
    if (error && error != std::errc::no_such_file_or_directory) {
      return FromErrno(error.value(), "move " + directory + part + " to " + aside);
    }
  }
  return aside;
}

bool RunStore::HasOrMakes(const storage::ContentHash& hash) {
  if (content_->Has(hash)) return true;
  if (!repair_.make_again) return false;
  const Status made = repair_.make_again(hash);
  if (made.ok()) {
    SHOAL_LOG(kInfo, "scheduler", "artefact.made_again", {"hash", hash.ToHex()});
  } else if (made.code() != StatusCode::kNotFound) {
    SHOAL_LOG(kWarning, "scheduler", "artefact.not_made_again", {"hash", hash.ToHex()},
              {"reason", made.message()});
  }
  return made.ok() && content_->Has(hash);
}

void RunStore::Here(const storage::ContentHash& hash) {
  const auto wanted = wanted_.extract(hash);
  if (wanted.empty()) return;
  kept_[hash] = wanted.mapped();  // others may be sending it, too
  if (repair_.on_here) repair_.on_here(RawBytes(hash));
}

void RunStore::Want(const std::vector<control::v1::ArtefactRef>& files) {
  for (const control::v1::ArtefactRef& file : files) {
    const storage::ContentHash hash = FromProto(file).hash;
    wanted_[hash] = file.size();
    if (HasOrMakes(hash)) Here(hash);
  }
}

std::vector<std::string> RunStore::FindLost(const std::vector<control::v1::ArtefactRef>& files) {
  std::vector<std::string> lost;
  for (const control::v1::ArtefactRef& file : files) {
    if (!HasOrMakes(FromProto(file).hash)) lost.push_back(file.hash());
  }
  return lost;
}

Result<std::string> RunStore::Read(const std::string& hash, std::uint64_t offset,
                                   std::size_t size) {
  SHOAL_ASSIGN_OR_RETURN(const storage::ContentHash parsed, ParseHash(hash));
  if (!HasOrMakes(parsed)) {
    if (repair_.on_lost) repair_.on_lost(hash);
    return NotFound("the scheduler has no whole artefact " + parsed.ToHex() +
                    "; if the run needs it, its peers are asked for it");
  }
  return content_->Read(parsed, offset, std::min(size, kReadBytesMax));
}

// Bytes that are not those of the hash are a fault of who sent them.
Status RunStore::Kept(const storage::ContentHash& hash, Status status) const {
  const bool disk = !status.ok() && status.code() != StatusCode::kDataLoss;
  if (disk && repair_.on_not_kept) repair_.on_not_kept(RawBytes(hash), status);
  return status;
}

Status RunStore::CheckUpload(const std::string& hash, std::uint64_t size,
                             storage::ContentHash* out) const {
  SHOAL_ASSIGN_OR_RETURN(*out, ParseHash(hash));
  for (const auto* needed : {&wanted_, &kept_}) {
    const auto found = needed->find(*out);
    if (found == needed->end()) continue;
    if (size == found->second) return Status::Ok();
    return InvalidArgument("the artefact that the run needs has " + std::to_string(found->second) +
                           " bytes, not " + std::to_string(size));
  }
  return PermissionDenied("the run does not need the artefact " + out->ToHex() +
                          ", or does not any more");
}

Result<std::uint64_t> RunStore::UploadOffset(const std::string& hash, std::uint64_t size) {
  storage::ContentHash parsed;
  SHOAL_RETURN_IF_ERROR(CheckUpload(hash, size, &parsed));
  if (!content_->Has(parsed)) {
    const std::uint64_t have = content_->PartialSize(parsed);
    if (have < size) return have;
    // All came before the scheduler ended, and nobody has looked at it; a wrong one goes.
    const Status finished = content_->FinishPartial(parsed, size);
    if (finished.code() == StatusCode::kDataLoss) return 0;
    SHOAL_RETURN_IF_ERROR(Kept(parsed, finished));
    bytes_ = bytes_ + size;
  }
  Here(parsed);
  return size;
}

Result<std::uint64_t> RunStore::Write(const std::string& hash, std::uint64_t size,
                                      std::uint64_t offset, const std::string& data) {
  storage::ContentHash parsed;
  SHOAL_RETURN_IF_ERROR(CheckUpload(hash, size, &parsed));
  if (content_->Has(parsed)) return size;
  if (data.size() > size || offset > size - data.size()) {
    return InvalidArgument("an upload is longer than announced");
  }
  const std::uint64_t have = content_->PartialSize(parsed);
  // Two peers may send the same blob: what is here already counts, the hash is checked at the end.
  if (offset + data.size() <= have && have < size) return have;
  if (offset != have) {
    return OutOfRange("the upload continues at byte " + std::to_string(offset) + ", expected " +
                      std::to_string(have));
  }
  SHOAL_RETURN_IF_ERROR(
      Kept(parsed, content_->AppendPartial(parsed, offset, std::as_bytes(std::span(data)))));
  if (offset + data.size() == size) {
    SHOAL_RETURN_IF_ERROR(Kept(parsed, content_->FinishPartial(parsed, size)));
    bytes_ = bytes_ + size;
    Here(parsed);
  }
  return offset + data.size();
}

Status RunStore::Prune(const std::vector<control::v1::ArtefactRef>& kept) {
  std::set<storage::ContentHash> hashes;
  kept_.clear();
  for (const control::v1::ArtefactRef& file : kept) {
    const storage::ContentHash hash = FromProto(file).hash;
    kept_[hash] = file.size();
    hashes.insert(hash);
  }
  std::erase_if(wanted_, [this](const auto& wanted) { return !kept_.contains(wanted.first); });
  for (const auto& [hash, times] : pinned_) hashes.insert(hash);
  const std::vector<storage::ContentHash> list(hashes.begin(), hashes.end());
  SHOAL_RETURN_IF_ERROR(content_->KeepOnly(list));
  bytes_ = content_->bytes();
  return Status::Ok();
}

void RunStore::Pin(const std::vector<storage::ContentHash>& hashes) {
  for (const storage::ContentHash& hash : hashes) ++pinned_[hash];
}

void RunStore::Unpin(const std::vector<storage::ContentHash>& hashes) {
  for (const storage::ContentHash& hash : hashes) {
    const auto found = pinned_.find(hash);
    if (found != pinned_.end() && --found->second == 0) pinned_.erase(found);
  }
}

}  // namespace shoal::scheduler
