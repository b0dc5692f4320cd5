// Makes copies of checkpoints for the mirror from what the run's folder has.

#ifndef SHOAL_SCHEDULER_SERVER_CHECKPOINT_COPIES_H_
#define SHOAL_SCHEDULER_SERVER_CHECKPOINT_COPIES_H_

#include <string>
#include <vector>

#include "common/status.h"
#include "scheduler/history/artefact_map.h"
#include "scheduler/mirror/checkpoint_upload.h"
#include "scheduler/mirror/stored_run.h"
#include "scheduler/server/run_store.h"
#include "storage/files/content_store.h"

namespace shoal::scheduler {

std::vector<storage::ArtefactRef> FilesOf(const ArtefactMap& artefacts);

// Of `run`, all but whose history and origin are known: the history as far as it is stored, and the
// folder's origin are added. Its blobs are pinned; the caller unpins FilesToPin(copy). Not found: a
// file is not here, whole; nothing is pinned then. Blocks on disk. Thread: store.
Result<CheckpointCopy> MakeCheckpointCopy(const std::string& directory, StoredRun run,
                                          RunStore* disk);
std::vector<storage::ContentHash> FilesToPin(const StoredRun& run);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_CHECKPOINT_COPIES_H_
