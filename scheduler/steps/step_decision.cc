#include "scheduler/steps/step_decision.h"

namespace shoal::scheduler {

StepDecision DecideStep(const StepFacts& facts) {
  const bool now = facts.applied >= facts.steps || facts.pausing;
  const bool due = facts.applied - facts.checkpoint_asked >= facts.checkpoint_every &&
                   !facts.checkpoints_pending;
  StepDecision decision;
  decision.sync = now || facts.local_steps == 0 || facts.applied % facts.local_steps == 0;
  decision.checkpoint = now || (due && decision.sync);
  return decision;
}

}  // namespace shoal::scheduler
