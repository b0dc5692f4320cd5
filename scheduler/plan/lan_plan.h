// Which members of a group share a LAN, from the round-trip times that they measured. Pure; thread:
// control.

#ifndef SHOAL_SCHEDULER_PLAN_LAN_PLAN_H_
#define SHOAL_SCHEDULER_PLAN_LAN_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "scheduler/config/run_config.h"
#include "scheduler/plan/placement.h"

namespace shoal::scheduler {

// Two members that both measured less than this are near: a wire or a good radio, not a line to
// another house.
inline constexpr double kLanNearMs = 2;
// Between any two members of a LAN it is less than this, so that a chain of near ones ends.
inline constexpr double kLanWidthMs = 4;

// By member: the number of its LAN, from 1 in the order of their first members; 0: it shares none.
// `ms`: members x members, row by row, [i][j] as i measured it; negative or NaN: not known, which
// counts as far. A pair is near by the larger of its two times. Near pairs are joined from the
// nearest on, and with them their LANs, if all members are then within the width of each other.
std::vector<std::uint32_t> LansByRoundTrip(std::span<const double> ms, std::size_t members);

// What members said, by direction. The least counts: a busy machine only adds.
class RoundTripBook {
 public:
  // 0 or more.
  void Add(const PeerId& from, const PeerId& to, double ms);
  // A peer may be elsewhere, or is gone.
  void Forget(const PeerId& peer);
  // Negative: not known.
  double Of(const PeerId& from, const PeerId& to) const;
  std::size_t size() const { return ms_.size(); }

 private:
  std::map<std::pair<PeerId, PeerId>, double> ms_;
};

// The LANs of a plan, as its positions say them.
struct PlanLans {
  std::vector<std::vector<std::uint32_t>> stages;  // by stage and pipeline
  std::vector<std::uint32_t> shared;  // of stages that share tensors, by stage and pipeline
  bool operator==(const PlanLans&) const = default;
};

// By the run's replica method: none (empty), those that it names, or those measured.
PlanLans LansOfPlan(const RunConfig& config, const PlacementPlan& plan, const RoundTripBook& book);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_PLAN_LAN_PLAN_H_
