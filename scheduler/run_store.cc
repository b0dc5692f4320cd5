#include "scheduler/run_store.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/file.h"
#include "scheduler/run_artefacts.h"

namespace shoal::scheduler {
namespace {

constexpr std::size_t kReadBytesMax = 1 << 20;
// Blobs that unfinished checkpoints may hold until the next prune.
constexpr std::size_t kUploadsMax = 100000;

Result<storage::ContentHash> ParseHash(const std::string& bytes) {
  storage::ContentHash hash;
  if (bytes.size() != hash.digest.size()) {
    return InvalidArgument("a hash has 32 bytes, this one " + std::to_string(bytes.size()));
  }
  std::copy(bytes.begin(), bytes.end(), hash.digest.begin());
  return hash;
}

}  // namespace

RunStore::RunStore(std::unique_ptr<storage::EventLog> log,
                   std::unique_ptr<storage::ContentStore> content)
    : log_(std::move(log)), content_(std::move(content)), bytes_(content_->bytes()) {}

Result<std::unique_ptr<RunStore>> RunStore::Open(const std::string& directory) {
  SHOAL_RETURN_IF_ERROR(MakeDirectories(directory, 0700));
  SHOAL_ASSIGN_OR_RETURN(auto log, storage::OpenRocksEventLog(directory + "/events"));
  SHOAL_ASSIGN_OR_RETURN(auto content, storage::OpenFileContentStore(directory + "/artefacts"));
  return std::make_unique<RunStore>(std::move(log), std::move(content));
}

Result<std::string> RunStore::Read(const std::string& hash, std::uint64_t offset,
                                   std::size_t size) {
  SHOAL_ASSIGN_OR_RETURN(const storage::ContentHash parsed, ParseHash(hash));
  return content_->Read(parsed, offset, std::min(size, kReadBytesMax));
}

Status RunStore::CheckUpload(const std::string& hash, std::uint64_t size,
                             storage::ContentHash* out) {
  SHOAL_ASSIGN_OR_RETURN(*out, ParseHash(hash));
  if (size == 0 || size > upload_limit_) {
    return ResourceExhausted("an upload of " + std::to_string(size) +
                             " bytes is refused; this run takes 1 to " +
                             std::to_string(upload_limit_));
  }
  if (uploads_.size() >= kUploadsMax && !uploads_.contains(*out)) {
    return ResourceExhausted("too many uploads since the last complete checkpoint");
  }
  return Status::Ok();
}

Result<std::uint64_t> RunStore::UploadOffset(const std::string& hash, std::uint64_t size) {
  storage::ContentHash parsed;
  SHOAL_RETURN_IF_ERROR(CheckUpload(hash, size, &parsed));
  uploads_.insert(parsed);
  return content_->Has(parsed) ? size : content_->PartialSize(parsed);
}

Result<std::uint64_t> RunStore::Write(const std::string& hash, std::uint64_t size,
                                      std::uint64_t offset, const std::string& data) {
  storage::ContentHash parsed;
  SHOAL_RETURN_IF_ERROR(CheckUpload(hash, size, &parsed));
  uploads_.insert(parsed);
  if (content_->Has(parsed)) return size;
  if (data.size() > size || offset > size - data.size()) {
    return InvalidArgument("an upload is longer than it said");
  }
  const std::uint64_t have = content_->PartialSize(parsed);
  // Two peers may send the same blob: what is here already counts, the hash is checked at the end.
  if (offset + data.size() <= have && have < size) return have;
  if (offset != have) {
    return OutOfRange("the upload continues at byte " + std::to_string(offset) + ", expected " +
                      std::to_string(have));
  }
  SHOAL_RETURN_IF_ERROR(content_->AppendPartial(parsed, offset, std::as_bytes(std::span(data))));
  if (offset + data.size() == size) {
    SHOAL_RETURN_IF_ERROR(content_->FinishPartial(parsed, size));
    bytes_ = bytes_ + size;
  }
  return offset + data.size();
}

Status RunStore::CheckUploaded(const control::v1::CheckpointDone& done) {
  for (const control::v1::ArtefactRef& file : done.files()) {
    SHOAL_ASSIGN_OR_RETURN(const storage::ContentHash hash, ParseHash(file.hash()));
    if (!content_->Has(hash)) return NotFound(file.name() + " was not uploaded whole");
  }
  return Status::Ok();
}

Status RunStore::Prune(const std::vector<control::v1::ArtefactRef>& kept) {
  std::set<storage::ContentHash> hashes = std::exchange(uploads_, {});
  for (const control::v1::ArtefactRef& file : kept) hashes.insert(FromProto(file).hash);
  const std::vector<storage::ContentHash> list(hashes.begin(), hashes.end());
  SHOAL_RETURN_IF_ERROR(content_->KeepOnly(list));
  bytes_ = content_->bytes();
  return Status::Ok();
}

}  // namespace shoal::scheduler
