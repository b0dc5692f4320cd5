// BrokenPipelines: pipelines of a plan that lost a member in the midst of a step whose others go
// on. Members that go together are heard of one after the other: once no more come, these leave the
// plan, the pipelines that are whole do the part of theirs in the step, too, and who is left of
// theirs follows. Or the generation ends, where who is left makes more pipelines, with which the
// step ends sooner though it begins anew. Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_BROKEN_PIPELINES_H_
#define SHOAL_SCHEDULER_SWARM_BROKEN_PIPELINES_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "common/ids.h"
#include "scheduler/config/run_config.h"
#include "scheduler/plan/placement.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/swarm_plan.h"
#include "scheduler/swarm/training_steps.h"

namespace shoal::scheduler {

class BrokenPipelines {
 public:
  // All outlive it. `initial`: artefacts of the fresh model.
  BrokenPipelines(const RunConfig& config, const RunHistory& history, Members* members, SwarmPlan* plan,
                  Lifecycle* lifecycle, TrainingSteps* steps, Reaction* reaction);

  bool MayGoOnWithout(const PeerId& peer) const;
  // A member of the plan has given the generation up: when others go on, it does not. True: that
  // they do is about to be decided.
  bool CannotGoOn(const PeerId& peer);
  // A member of the plan is lost, or cannot go on. False: the generation has to end for it.
  bool Take(const PeerId& peer, const std::string& cause);
  // With any event.
  void Look();
  void GenerationEnded() {
    lost_.clear();
    given_up_.clear();
    began_anew_ = history_.step();
  }

 private:
  // Where these are, and who has given up.
  std::set<Position> PositionsOf(const std::set<PeerId>& peers) const;
  bool MayGoOnWithout(const std::set<Position>& lost) const;
  // Pipelines that are left, and those that a plan in place has of who is left.
  bool EndsSoonerAnew(const std::set<Position>& lost) const;
  void LeaveOut(const std::set<Position>& lost);

  const RunConfig& config_;
  const RunHistory& history_;
  Members& members_;
  SwarmPlan& plan_;
  Lifecycle& lifecycle_;
  TrainingSteps& steps_;
  Reaction& reaction_;

  std::set<PeerId> lost_;      // what that means is not decided
  std::set<PeerId> given_up_;  // who is as soon as somebody is
  PeerId last_;                // of them
  std::string cause_;
  TimePoint since_{};  // the last one
  std::optional<std::uint64_t> began_anew_;  // the step that the newest generation ended in
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_BROKEN_PIPELINES_H_
