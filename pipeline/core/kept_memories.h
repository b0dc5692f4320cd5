// KeptMemories: what a peer remembers of what it sent, from one generation to the next, as long as
// it keeps its stage. It is the sender's own, so nobody else need have it. All of it belongs to
// weights after so many steps. Thread: control.

#ifndef SHOAL_PIPELINE_CORE_KEPT_MEMORIES_H_
#define SHOAL_PIPELINE_CORE_KEPT_MEMORIES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "common/ids.h"
#include "compression/api/stateful_codec.h"
#include "compression/codecs/aqsgd/delta_guard.h"
#include "replica/state/error_keeper.h"

namespace shoal::pipeline {

// Of one end of a boundary.
struct KeptBoundary {
  PeerId peer;  // at the other end
  compression::DeltaGuard guard;
  std::shared_ptr<const compression::LowRankState> gradients;  // null: the codec has no state
};

class KeptMemories {
 public:
  // The stage holds so many applied steps. What was kept after others is gone.
  void At(std::uint64_t steps) {
    errors_.At(steps);
    if (steps != steps_) boundaries_.clear();
    steps_ = steps;
  }
  replica::ErrorKeeper* errors() { return &errors_; }
  // By boundary, and whether the peer is its lower end.
  using End = std::pair<std::uint32_t, bool>;
  // Of a boundary with this peer; null: nothing was kept.
  const KeptBoundary* Find(End end, const PeerId& peer) const {
    const auto found = boundaries_.find(end);
    return found != boundaries_.end() && found->second.peer == peer ? &found->second : nullptr;
  }
  void Keep(End end, KeptBoundary kept) { boundaries_[end] = std::move(kept); }

 private:
  std::uint64_t steps_ = 0;
  replica::ErrorKeeper errors_;
  std::map<End, KeptBoundary> boundaries_;
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_KEPT_MEMORIES_H_
