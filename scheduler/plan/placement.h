// Placement: who hosts what. A pure function of peers, measured links, the run's needs and the
// previous plan. It goes by memory and order of joining and does not look at links.

#ifndef SHOAL_SCHEDULER_PLAN_PLACEMENT_H_
#define SHOAL_SCHEDULER_PLAN_PLACEMENT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "scheduler/config/position.h"

namespace shoal::scheduler {

struct PlacementPeer {
  PeerId peer;
  std::uint64_t joined = 0;        // order of joining
  std::uint64_t memory_bytes = 0;  // 0: unknown
};

// Directed, measured; absent pairs are unknown.
struct PlacementLink {
  PeerId from, to;
  double latency_ms = 0;
  double bits_per_second = 0;
};

struct PlacementRun {
  std::uint32_t stages = 1;
  std::uint32_t pipelines = 1;
  std::vector<std::uint64_t> stage_bytes;  // memory a stage needs; empty: unknown
};

// plan[pipeline][stage]
using PlacementPlan = std::vector<std::vector<PeerId>>;

// Nothing if there are not enough peers. Peers keep the position they have in `previous` (their m
// and weights are there); free positions are filled in order of joining.
std::optional<PlacementPlan> Place(const std::vector<PlacementPeer>& peers,
                                   const std::vector<PlacementLink>& links, const PlacementRun& run,
                                   const PlacementPlan* previous);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_PLAN_PLACEMENT_H_
