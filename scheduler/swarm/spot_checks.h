// SpotChecks: draws micro-batches that other members of the stage group compute again, tells those
// who take part, and judges what they find. Thread: control.
//
// Who is checked learns of it by the verdict alone. One of two checkers' words, or a neighbour's,
// is no fault; a pair of members that keep contradicting each other holds the run.

#ifndef SHOAL_SCHEDULER_SWARM_SPOT_CHECKS_H_
#define SHOAL_SCHEDULER_SWARM_SPOT_CHECKS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/steps/spot_verdict.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/member_faults.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/swarm_plan.h"

namespace shoal::scheduler {

inline constexpr std::size_t kSpotCheckersMax = 2;  // of a check
inline constexpr std::uint32_t kSpotContradictionsMax =
    3;  // of a pair, within kFaultAge; then the run is held

class SpotChecks {
 public:
  // All outlive it.
  SpotChecks(const RunConfig& config, const SwarmPlan& plan, const RunHistory& history,
             Lifecycle* lifecycle, MemberFaults* faults, Reaction* reaction);

  void BeginGeneration() { pending_.clear(); }
  // A plan that goes out next, for the first time: who takes part in a check of it is told now.
  void OnStepPlan(const control::v1::StepPlan& plan);
  // Reports of members of the plan.
  void OnReady(const Member& member, const control::v1::StepReady& ready);
  void OnChecked(const Member& member, const control::v1::SpotChecked& checked);
  // Pipelines have got gaps: the step in progress, and those that are planned behind it, are dealt
  // out again.
  void GoOnWithout();
  // Checks whose step is over for long are judged. With any event.
  void Look();
  // The organiser ordered to resume: earlier contradictions count no more.
  void Forgive() { contradictions_.clear(); }

  const SpotCounts& counts() const { return counts_; }

 private:
  struct Pending {
    std::uint64_t step = 0;
    std::uint32_t pipeline = 0, stage = 0, place = 0;
    PeerId peer;  // who is checked
    std::vector<PeerId> checkers;
    std::vector<std::optional<control::v1::SpotChecked>> reports;  // by checker
    std::optional<SpotClaim> claim;
    bool silent = false;  // its report has no digests, or they are of something else
  };
  std::optional<Pending> Draw(const control::v1::StepPlan& plan);
  void Tell(const Pending& check, const control::v1::MicroBatchPlan& micro_batch);
  void JudgeComplete();
  void Judge(const Pending& check);
  void Fault(const Pending& check, const std::string& what);
  void Contradiction(const Pending& check, const Member* other, const std::string& what);
  std::uint64_t Below(std::uint64_t most) { return random_() % most; }

  const RunConfig& config_;
  const SwarmPlan& plan_;
  const RunHistory& history_;
  Lifecycle& lifecycle_;
  MemberFaults& faults_;
  Reaction& reaction_;
  std::mt19937_64 random_;
  std::deque<Pending> pending_;  // by step, one each at most
  struct Pair {
    TimePoint since{};
    std::uint32_t times = 0;
  };
  std::map<std::pair<PeerId, PeerId>, Pair> contradictions_;  // the lower key first
  SpotCounts counts_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_SPOT_CHECKS_H_
