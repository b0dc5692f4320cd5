// What a peer's folder may take of the disk, and what goes first where that is less than it takes.
// Blocks on disk; thread: store.

#ifndef SHOAL_DAEMON_ARTEFACTS_DISK_QUOTA_H_
#define SHOAL_DAEMON_ARTEFACTS_DISK_QUOTA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "storage/checkpoints/checkpoint_store.h"
#include "storage/delta/delta_store.h"
#include "storage/files/content_store.h"

namespace shoal::daemon {

struct DiskOrder {
  std::uint64_t bytes_max = 0;  // of the folder; 0: no quota
  storage::StoreSpace space = storage::StoreSpace::kDefault;
  std::optional<RunId> run;  // that the peer takes part in; none: all runs stay
  // That its stage needs; none: that is not known, and all of them stay.
  std::optional<std::vector<storage::ContentHash>> blobs;
  bool idle = false;  // the peer has no stage, whose m this is
};

struct DiskUse {
  std::uint64_t bytes = 0;       // of the folder
  std::uint64_t kept_bytes = 0;  // of that, all but m
  bool more_to_drop = false;     // of m, by the next call
};

// What files below a folder take of the disk, those with several names once. Thread: any.
std::uint64_t BytesBelow(const std::string& folder);

// Where the folder takes more than the quota there go, until it does not: a damaged delta store set
// aside; other runs, the oldest first, their checkpoints with their m; blobs that neither the stage
// nor the run's checkpoints need. Then m of the run gets a lower quota: as its samples come up,
// some become first visits. Of an idle peer some of what is above goes with each call: residuals,
// m of gradients, then that of activations, the last segments first, as at the other ends. The
// run's checkpoints, weights and data stay.
DiskUse KeepDiskQuota(const std::string& folder, const DiskOrder& order,
                      storage::ContentStore* content, storage::DeltaStore* deltas,
                      storage::CheckpointStore* checkpoints);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_ARTEFACTS_DISK_QUOTA_H_
