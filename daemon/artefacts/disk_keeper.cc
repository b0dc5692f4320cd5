#include "daemon/artefacts/disk_keeper.h"

#include <utility>

#include "common/log.h"
#include "common/units.h"

namespace shoal::daemon {

bool DiskKeeper::Due(std::uint64_t bytes_max, bool idle) const {
  SHOAL_ASSERT_ON(*control_);
  if (keeps_) return false;
  if (bytes_max != bytes_max_) return true;
  if (bytes_max > 0 && idle && (!idle_ || more_)) return true;
  return bytes_max > 0 && control_->clock().Now() - kept_at_ >= kDiskLookEvery;
}

void DiskKeeper::Keep(DiskOrder order) {
  SHOAL_ASSERT_ON(*control_);
  keeps_ = true;
  kept_at_ = control_->clock().Now();
  bytes_max_ = order.bytes_max;
  idle_ = order.idle;
  store_->Post("disk.keep", [this, lives = lives_, stores = stores_, control = control_,
                             order = std::move(order)] {
    const DiskUse use =
        KeepDiskQuota(stores.folder, order, stores.content, stores.deltas, stores.checkpoints);
    control->Post("disk.kept", [this, lives, order, use] {
      if (*lives) OnKept(order, use);
    });
  });
}

void DiskKeeper::OnKept(const DiskOrder& order, const DiskUse& use) {
  const std::uint64_t bytes_max = order.bytes_max;
  keeps_ = false;
  more_ = use.more_to_drop;
  text_.clear();
  if (bytes_max == 0) return;
  text_ = "disk " + FormatBytes(use.bytes) + " of " + FormatBytes(bytes_max);
  if (use.bytes <= bytes_max) return;
  text_ += use.kept_bytes > bytes_max
               ? ": weights, data and checkpoints of the run need " + FormatBytes(use.kept_bytes)
           : order.idle ? ": m shrinks"
                        : ": m shrinks as the run comes to its samples";
  SHOAL_LOG(kWarning, "daemon", "disk.over", {"text", text_});
}

}  // namespace shoal::daemon
