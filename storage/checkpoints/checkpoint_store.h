// CheckpointStore: a peer's own checkpoints: files of one step in one folder, manifest last.
//
// Layout: <path>/<run>/step-<12 digits>/<name>, then manifest.json {format, run, step, files: name,
// size, BLAKE2b}. A folder without a valid manifest is an unfinished checkpoint and is ignored,
// then deleted. Thread: one at a time.
//
// A peer takes part in one run after the other. Each save keeps the checkpoints of the run that is
// saved and of the kOtherRunsKept runs saved last before it. Where the disk is full, checkpoints of
// other runs go first, the oldest run before the others.

#ifndef SHOAL_STORAGE_CHECKPOINTS_CHECKPOINT_STORE_H_
#define SHOAL_STORAGE_CHECKPOINTS_CHECKPOINT_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "storage/files/content_store.h"

namespace shoal::storage {

struct Checkpoint {
  RunId run;
  std::uint64_t step = 0;  // steps applied
  std::string folder;      // holds the files
  std::vector<ArtefactRef> files;
};

inline constexpr std::size_t kOtherRunsKept = 2;

// What is kept of a run.
struct StoredRun {
  RunId run;
  std::uint64_t newest_step = 0;
  std::size_t checkpoints = 0;
  std::uint64_t bytes = 0;
};

class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;

  // Calls `write` with a fresh folder. On success hashes its files and writes the manifest last.
  // Then deletes all but the newest `keep` checkpoints of the run, and other runs by the rule
  // above. On failure nothing is left; `write` is called again where the disk was full and another
  // run could go.
  virtual Result<Checkpoint> Save(RunId run, std::uint64_t step,
                                  const std::function<Status(const std::string& folder)>& write,
                                  int keep) = 0;
  // Complete checkpoints of a run, oldest first; hashes are not re-read.
  virtual Result<std::vector<Checkpoint>> List(RunId run) = 0;
  // The checkpoint of exactly this step, its files verified against the manifest.
  virtual Result<Checkpoint> Load(RunId run, std::uint64_t step) = 0;
  // Runs with complete checkpoints, the one saved last first.
  virtual std::vector<StoredRun> Runs() const = 0;
  // Deletes all checkpoints of a run; not found if there are none.
  virtual Status DropRun(RunId run) = 0;
};

Result<std::unique_ptr<CheckpointStore>> OpenCheckpointStore(const std::string& path);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_CHECKPOINTS_CHECKPOINT_STORE_H_
