#include "scheduler/steps/step_decision.h"

namespace shoal::scheduler {

StepDecision DecideStep(const StepFacts& facts) {
  const bool now = facts.applied >= facts.steps || facts.pausing;
  const bool due = facts.applied - facts.checkpoint_asked >= facts.checkpoint_every &&
                   !facts.checkpoints_pending;
  StepDecision decision;
  decision.sync = now || facts.local_steps == 0 || facts.applied % facts.local_steps == 0;
  decision.checkpoint = now || (due && decision.sync);
  // Between the exchanges of local steps replicas differ by design, so each exchange is checked.
  decision.check_weights = facts.pipelines > 1 && decision.sync &&
                           (decision.checkpoint || facts.weight_check_asked ||
                            facts.applied % facts.weight_check_every == 0 || facts.local_steps > 0);
  return decision;
}

}  // namespace shoal::scheduler
