// Regroup: a plan from peers that are bound to a stage: those that hold it, and those that only
// have to get its state. A pure function.
//
// Who is left over when there are no more whole pipelines goes to pipelines with gaps, stages at
// which nobody is: they train nothing, but their peers follow the steps of their stage groups. So a
// stage has more copies, and whoever comes for a gap makes a whole pipeline at once.

#ifndef SHOAL_SCHEDULER_PLAN_REGROUP_H_
#define SHOAL_SCHEDULER_PLAN_REGROUP_H_

#include <cstdint>
#include <optional>
#include <set>
#include <span>
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

// Whether a stage of the pipeline, whose peers these are, has nobody.
bool HasGap(std::span<const PeerId> pipeline);

// Of a plan's `hosts`, by pipeline, then stage: pipelines without a gap.
std::uint32_t WholePipelines(std::span<const PeerId> hosts, std::uint32_t stages);

struct Regrouped {
  PlacementPlan positions;   // zeros: a gap
  std::set<PeerId> shadows;  // of the positions: who is not in step

  // Pipelines without a gap whose peers are all in step, in order.
  std::vector<std::uint32_t> Counting() const;
  // Those without a gap.
  std::size_t Whole() const;
};

// As many whole pipelines as can be filled, up to `pipelines_max` with those that have gaps; first
// as many as can be of peers in step alone. Peers that were in one pipeline stay together, and
// pipelines keep their order, where that costs none. Nothing: a stage has nobody in step.
std::optional<Regrouped> Regroup(const std::vector<BoundPeer>& peers, std::uint32_t stages,
                                 std::uint32_t pipelines_max);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_PLAN_REGROUP_H_
