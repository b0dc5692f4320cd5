// DiskKeeper: looks every minute, and when the quota changes, whether the peer's folder keeps to
// what its owner grants it of the disk.

#ifndef SHOAL_DAEMON_ARTEFACTS_DISK_KEEPER_H_
#define SHOAL_DAEMON_ARTEFACTS_DISK_KEEPER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/executor.h"
#include "daemon/artefacts/disk_quota.h"
#include "storage/files/free_space.h"

namespace shoal::daemon {

inline constexpr Duration kDiskLookEvery = std::chrono::minutes(1);

// The stores of a peer, and the folder that they are in. They outlive the store executor's tasks.
struct KeptStores {
  std::string folder;
  storage::ContentStore* content = nullptr;
  storage::DeltaStore* deltas = nullptr;
  storage::CheckpointStore* checkpoints = nullptr;
};

// Thread: control.
class DiskKeeper {
 public:
  DiskKeeper(Executor* control, Executor* store, KeptStores stores)
      : control_(control),
        store_(store),
        space_(control, store, stores.folder),
        stores_(std::move(stores)),
        lives_(std::make_shared<bool>(true)) {}
  ~DiskKeeper() { *lives_ = false; }

  // Of the file system that holds the folder; none: not known yet.
  const std::optional<std::uint64_t>& free_bytes() const {
    SHOAL_ASSERT_ON(*control_);
    return space_.bytes();
  }
  // Once a second or so.
  void LookForSpace() {
    SHOAL_ASSERT_ON(*control_);
    space_.Look();
  }

  // Whether to call Keep now: a minute later, at once if the quota is another, the peer got idle,
  // or there is more to drop. 0: no quota; then it is due once, where there was one.
  bool Due(std::uint64_t bytes_max, bool idle) const;
  void Keep(DiskOrder order);
  // "disk 12.0 GiB of 20.0 GiB"; empty: no quota.
  const std::string& text() const {
    SHOAL_ASSERT_ON(*control_);
    return text_;
  }

 private:
  void OnKept(const DiskOrder& order, const DiskUse& use);

  Executor* const control_;
  Executor* const store_;
  storage::FreeSpace space_;
  const KeptStores stores_;
  const std::shared_ptr<bool> lives_;  // what is posted asks
  bool keeps_ = false, idle_ = false, more_ = false;
  std::uint64_t bytes_max_ = 0;
  TimePoint kept_at_{};
  std::string text_;
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_ARTEFACTS_DISK_KEEPER_H_
