// What a peer keeps on its disk once a stage has saved a checkpoint, and what goes.
// Blocks on disk; thread: store.

#ifndef SHOAL_DAEMON_ARTEFACTS_KEPT_CHECKPOINT_H_
#define SHOAL_DAEMON_ARTEFACTS_KEPT_CHECKPOINT_H_

#include <string>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "storage/delta/delta_store.h"
#include "storage/files/content_store.h"

namespace shoal::daemon {

struct KeptCheckpoint {
  std::vector<std::string> paths;           // files of the new one, which become blobs
  std::vector<storage::ContentHash> blobs;  // all that stay
  std::vector<RunId> runs;                  // that have checkpoints here
};

// m of a run lives as long as its checkpoints: m of another run is forgotten. A delta store that
// cannot write is no failure: it says so in the status.
Status KeepCheckpoint(const KeptCheckpoint& kept, storage::ContentStore* content,
                      storage::DeltaStore* deltas);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_ARTEFACTS_KEPT_CHECKPOINT_H_
