#include "scheduler/server/upload_book.h"

#include <algorithm>
#include <utility>

namespace shoal::scheduler {

void UploadBook::Reset(UploadBounds bounds) {
  bounds_ = std::move(bounds);
  uploads_.clear();
}

void UploadBook::Forget(const storage::ContentHash& hash) {
  for (auto& [peer, uploads] : uploads_) {
    std::erase_if(uploads, [&](const Upload& upload) { return upload.hash == hash; });
  }
}

bool UploadBook::Held(const storage::ContentHash& hash) const {
  return std::any_of(uploads_.begin(), uploads_.end(), [&](const auto& entry) {
    return std::any_of(entry.second.begin(), entry.second.end(),
                       [&](const Upload& upload) { return upload.hash == hash; });
  });
}

Result<std::vector<storage::ContentHash>> UploadBook::Enter(const PeerId& peer,
                                                            const storage::ContentHash& hash,
                                                            std::uint64_t size) {
  const auto bound = bounds_.find(peer);
  if (bound == bounds_.end()) {
    return PermissionDenied("peer " + peer.ToShort() +
                            " has no stage in the plan, so it has nothing to upload");
  }
  if (size > bound->second.bytes || bound->second.files == 0) {
    return ResourceExhausted("an upload of " + std::to_string(size) +
                             " bytes is refused; the checkpoints of this stage take at most " +
                             std::to_string(bound->second.bytes));
  }
  std::deque<Upload>& uploads = uploads_[peer];
  const auto known = std::find_if(uploads.begin(), uploads.end(),
                                  [&](const Upload& upload) { return upload.hash == hash; });
  if (known != uploads.end()) {
    if (known->size == size) return std::vector<storage::ContentHash>{};
    return InvalidArgument("an upload changed its announced size");
  }
  std::uint64_t bytes = size;
  for (const Upload& upload : uploads) bytes += upload.size;
  std::vector<storage::ContentHash> gone;
  while (uploads.size() >= bound->second.files || bytes > bound->second.bytes) {
    const Upload oldest = uploads.front();
    uploads.pop_front();
    bytes -= oldest.size;
    if (!Held(oldest.hash)) gone.push_back(oldest.hash);
  }
  uploads.push_back({hash, size});
  return gone;
}

}  // namespace shoal::scheduler
