// CheckpointUpload: brings a run's newest checkpoint into an object store, and what is needed to go
// on from it on another machine; what is there already is not sent again.
//
// The manifest is written last, so it names only what is whole. The two newest are kept; then older
// ones go, and blobs that none names. Blocks on network and disk. Thread: mirror.

#ifndef SHOAL_SCHEDULER_MIRROR_CHECKPOINT_UPLOAD_H_
#define SHOAL_SCHEDULER_MIRROR_CHECKPOINT_UPLOAD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "net/objects/object_store.h"
#include "scheduler/mirror/stored_run.h"
#include "storage/files/content_store.h"

namespace shoal::scheduler {

constexpr std::size_t kStoredCheckpoints = 2;

// What is to be stored.
struct CheckpointCopy {
  StoredRun run;                                      // its `events` are those below
  std::string events;                                 // the history, an event a line
  std::map<storage::ContentHash, std::string> files;  // where the other blobs lie
};

class CheckpointUpload {
 public:
  // `store` outlives it.
  explicit CheckpointUpload(net::ObjectStore* store) : store_(*store) {}

  // Whether the store can be used for `run`. Failed precondition: it holds another run, or another
  // scheduler went on with this one, above `generation`.
  Status Check(const RunId& run, std::uint64_t generation);

  struct Outcome {
    bool stored = false;           // the checkpoint is whole there
    std::uint64_t sent_bytes = 0;  // of what was not there
    Status status;                 // not ok: it is not, or old ones could not be deleted
  };
  Outcome Store(const CheckpointCopy& copy);

 private:
  Status PutBlobs(const CheckpointCopy& copy, std::uint64_t* sent);
  Status DeleteOld();
  // Names in the store, the newest first.
  Result<std::vector<ManifestName>> Manifests();
  Result<StoredRun> Read(const ManifestName& name);

  net::ObjectStore& store_;
  std::set<storage::ContentHash> there_;     // blobs that are known to be in the store
  std::map<ManifestName, StoredRun> known_;  // manifests that were read or written
};

// The manifest under `name`: not found, data loss, or unimplemented as ParseStoredRun says.
Result<StoredRun> ReadManifest(net::ObjectStore* store, const ManifestName& name);
// All names of manifests in the store, the newest first.
Result<std::vector<ManifestName>> ListManifests(net::ObjectStore* store);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_MIRROR_CHECKPOINT_UPLOAD_H_
