// Regroup: a plan of whole pipelines from peers that are bound to a stage: those that hold it, and
// those that only have to get its state. A pure function.

#ifndef SHOAL_SCHEDULER_PLAN_REGROUP_H_
#define SHOAL_SCHEDULER_PLAN_REGROUP_H_

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "common/ids.h"
#include "scheduler/plan/placement.h"

namespace shoal::scheduler {

struct BoundPeer {
  PeerId peer;
  std::uint32_t stage = 0;
  std::optional<std::uint32_t> pipeline;  // in the plan before
  bool in_step = false;                   // holds the state of its stage
  std::uint64_t joined = 0;               // order of joining
};

struct Regrouped {
  PlacementPlan positions;
  std::set<PeerId> shadows;  // of the positions: who is not in step

  // Pipelines whose peers are all in step, in order.
  std::vector<std::uint32_t> Counting() const;
};

// As many pipelines as can be filled, up to `pipelines_max`; first as many as can be of peers in
// step alone. Peers that were in one pipeline stay together, and pipelines keep their order, where
// that costs none. Nothing: a stage has nobody in step.
std::optional<Regrouped> Regroup(const std::vector<BoundPeer>& peers, std::uint32_t stages,
                                 std::uint32_t pipelines_max);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_PLAN_REGROUP_H_
