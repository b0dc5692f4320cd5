// BrokenPipelines: pipelines of a plan that lost a member in the midst of a step whose others go
// on. Members that go together are heard of one after the other: once no more come, these leave the
// plan, the pipelines that are whole do the part of theirs in the step, too, and who is left of
// theirs follows. Or the generation ends, where who is left makes more pipelines, with which the
// step ends sooner though it begins anew. Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_BROKEN_PIPELINES_H_
#define SHOAL_SCHEDULER_SWARM_BROKEN_PIPELINES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/ids.h"
#include "scheduler/config/position.h"
#include "scheduler/config/run_config.h"
#include "scheduler/swarm/applied_checks.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/swarm_plan.h"
#include "scheduler/swarm/training_steps.h"

namespace shoal::scheduler {

class BrokenPipelines {
 public:
  // All outlive it.
  BrokenPipelines(const RunConfig& config, const RunHistory& history, SwarmPlan* plan,
                  Lifecycle* lifecycle, AppliedChecks* applied, TrainingSteps* steps,
                  Reaction* reaction);

  bool MayGoOnWithout(const PeerId& peer) const;
  // A member of the plan has given the generation up: when others go on, it does not. `halted`: it
  // only does nothing more for its pipeline, and follows if that is broken. True: that others go on
  // is about to be decided.
  bool CannotGoOn(const PeerId& peer, bool halted);
  // A member of the plan is lost, or cannot go on. False: the generation has to end for it.
  bool Take(const PeerId& peer, const std::string& cause);
  // With any event.
  void Look();
  void GenerationEnded() {
    lost_.clear();
    given_up_.clear();
  }

 private:
  // Where these are, and who goes with them.
  std::set<Position> PositionsOf(const std::set<PeerId>& peers) const;
  bool MayGoOnWithout(const std::set<Position>& lost) const;
  // Pipelines that are left, and those that a plan in place has of who is left.
  bool EndsSoonerAnew(const std::set<Position>& lost) const;
  void LeaveOut(const std::set<Position>& lost);

  const RunConfig& config_;
  const RunHistory& history_;
  SwarmPlan& plan_;
  Lifecycle& lifecycle_;
  AppliedChecks& applied_;
  TrainingSteps& steps_;
  Reaction& reaction_;

  std::set<PeerId> lost_;  // what that means is not decided
  // Who is lost as soon as somebody is. Who has halted: unless its pipeline is broken by others.
  std::map<PeerId, bool> given_up_;
  PeerId last_;  // of those who are lost
  std::string cause_;
  TimePoint since_{};                        // the last one
  std::optional<std::uint64_t> began_anew_;  // the last step that was to end sooner so
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_BROKEN_PIPELINES_H_
