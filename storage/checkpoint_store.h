// CheckpointStore: a peer's own checkpoints: files of one step in one folder, manifest last.
//
// Layout: <path>/step-<12 digits>/<name>, then manifest.json {format, run, step, files: name, size,
// BLAKE2b}. A folder without a valid manifest is an unfinished checkpoint and is ignored, then
// deleted. Thread: store.

#ifndef SHOAL_STORAGE_CHECKPOINT_STORE_H_
#define SHOAL_STORAGE_CHECKPOINT_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "storage/content_store.h"

namespace shoal::storage {

struct Checkpoint {
  RunId run;
  std::uint64_t step = 0;  // steps applied
  std::string folder;      // holds the files
  std::vector<ArtefactRef> files;
};

class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;

  // Calls `write` with a fresh folder; on success hashes its files, writes the manifest last and
  // deletes all but the newest `keep` checkpoints of the run. On failure nothing is left.
  virtual Result<Checkpoint> Save(RunId run, std::uint64_t step,
                                  const std::function<Status(const std::string& folder)>& write,
                                  int keep) = 0;
  // Complete checkpoints of a run, oldest first; hashes are not re-read.
  virtual Result<std::vector<Checkpoint>> List(RunId run) = 0;
  // The checkpoint of exactly this step, its files verified against the manifest.
  virtual Result<Checkpoint> Load(RunId run, std::uint64_t step) = 0;
};

Result<std::unique_ptr<CheckpointStore>> OpenCheckpointStore(const std::string& path);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_CHECKPOINT_STORE_H_
