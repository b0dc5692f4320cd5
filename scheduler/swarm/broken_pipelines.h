// BrokenPipelines: pipelines of a plan that lost a member in the midst of a step whose others go
// on. Members that go together are heard of one after the other: once no more come, the pipelines
// leave the plan, and those that are left do their part of the step, too. Or the generation ends,
// where what is left of them makes a pipeline. Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_BROKEN_PIPELINES_H_
#define SHOAL_SCHEDULER_SWARM_BROKEN_PIPELINES_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "common/ids.h"
#include "scheduler/config/run_config.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/swarm_plan.h"
#include "scheduler/swarm/training_steps.h"

namespace shoal::scheduler {

class BrokenPipelines {
 public:
  // All outlive it. `initial`: artefacts of the fresh model.
  BrokenPipelines(const RunConfig& config, const ArtefactMap& initial, const RunHistory& history,
                  Members* members, SwarmPlan* plan, Lifecycle* lifecycle, TrainingSteps* steps,
                  Reaction* reaction);

  bool MayGoOnWithout(const PeerId& peer) const;
  // A member of the plan has given the generation up: when others go on, its pipeline does not.
  // True: that they do is about to be decided.
  bool CannotGoOn(const PeerId& peer);
  // A member of the plan is lost, or cannot go on. False: the generation has to end for it.
  bool Take(const PeerId& peer, const std::string& cause);
  // With any event.
  void Look();
  void GenerationEnded() {
    broken_.clear();
    given_up_.clear();
    begins_anew_ = history_.step();
  }

 private:
  std::set<std::uint32_t> BrokenWith(const PeerId& peer) const;
  bool AwaitsAPipeline() const;
  bool OthersMakeAPipeline() const;
  bool HasCopiesToKeep() const;
  void LeaveOut();

  const RunConfig& config_;
  const ArtefactMap& initial_;
  const RunHistory& history_;
  Members& members_;
  SwarmPlan& plan_;
  Lifecycle& lifecycle_;
  TrainingSteps& steps_;
  Reaction& reaction_;

  std::set<std::uint32_t> broken_;    // pipelines
  std::set<std::uint32_t> given_up_;  // that are broken as soon as one is
  std::set<PeerId> lost_;             // who broke them
  PeerId last_;                       // of them
  std::string cause_;
  TimePoint since_{};                         // the last one
  std::optional<std::uint64_t> begins_anew_;  // the step that the newest generation ended in
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_BROKEN_PIPELINES_H_
