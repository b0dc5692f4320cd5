#include "storage/delta/delta_store.h"

#include <set>

namespace shoal::storage {

int WorthOf(BoundarySide side) {
  switch (side) {
    case BoundarySide::kResidual: return 0;
    case BoundarySide::kGradientSender:
    case BoundarySide::kGradientReceiver: return kWorthOfGradients;
    case BoundarySide::kSender:
    case BoundarySide::kReceiver: break;
  }
  return 2;
}

Status DeltaStore::Commit(const BoundaryEnd& end, std::span<const DeltaUpdate> updates,
                          std::vector<SegmentId>* evicted) {
  std::set<std::uint64_t> versions;
  for (const DeltaUpdate& update : updates) {
    SHOAL_RETURN_IF_ERROR(Stage(end, update));
    versions.insert(update.record.version);
  }
  for (const std::uint64_t version : versions) {
    SHOAL_RETURN_IF_ERROR(CommitStaged(end, version, evicted));
  }
  return Status::Ok();
}

}  // namespace shoal::storage
