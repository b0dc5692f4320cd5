// UploadBook: who may upload how much of checkpoints, and who has uploaded what.
//
// Only members with a stage upload. Each may hold some checkpoints' files of its stage; of more the
// oldest go, since a checkpoint that was given up leaves files behind. Pure; thread: store.

#ifndef SHOAL_SCHEDULER_SERVER_UPLOAD_BOOK_H_
#define SHOAL_SCHEDULER_SERVER_UPLOAD_BOOK_H_

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "storage/files/content_store.h"

namespace shoal::scheduler {

// Of one member, in files and bytes, finished or not.
struct UploadBound {
  std::size_t files = 0;
  std::uint64_t bytes = 0;
};
using UploadBounds = std::map<PeerId, UploadBound>;

class UploadBook {
 public:
  // Of a new plan; what the members before it uploaded is forgotten.
  void Reset(UploadBounds bounds);
  // Files that are now kept for the run's sake belong to nobody.
  void Forget(const storage::ContentHash& hash);

  // Enters an upload, or its bytes so far. Returns what goes for it, that no other member holds.
  Result<std::vector<storage::ContentHash>> Enter(const PeerId& peer,
                                                  const storage::ContentHash& hash,
                                                  std::uint64_t size);

 private:
  struct Upload {
    storage::ContentHash hash;
    std::uint64_t size = 0;
  };
  bool Held(const storage::ContentHash& hash) const;

  UploadBounds bounds_;
  std::map<PeerId, std::deque<Upload>> uploads_;  // the oldest first
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_UPLOAD_BOOK_H_
