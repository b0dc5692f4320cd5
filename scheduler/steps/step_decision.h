// StepDecision: what kind of step one is. Pure.

#ifndef SHOAL_SCHEDULER_STEPS_STEP_DECISION_H_
#define SHOAL_SCHEDULER_STEPS_STEP_DECISION_H_

#include <cstdint>

namespace shoal::scheduler {

struct StepFacts {
  std::uint64_t applied = 0;  // steps, with this one
  std::uint64_t steps = 0;    // of the run
  std::uint32_t pipelines = 1;
  std::uint64_t checkpoint_every = 1;
  std::uint64_t checkpoint_asked = 0;  // steps applied at the newest one asked for
  bool checkpoints_pending = false;    // as many as may be
  bool pausing = false;                // a pause waits for a checkpoint that was not asked for yet
  std::uint64_t weight_check_every = 1;
  bool weight_check_asked = false;
  std::uint32_t local_steps = 0;  // of the replica method, between pipelines; 0: none
};

struct StepDecision {
  bool sync = true;  // the pipelines end the step with the same parameters
  bool checkpoint = false;
  bool check_weights = false;  // stage groups compare their weights after it
};

// Replicas are equal, so that one can speak for all in a checkpoint, after sync steps only. Sync
// steps are every local_steps-th step of the run, its last, and one that a pause waits for. A
// checkpoint that is due in between waits for the next. Weights are compared after sync steps only,
// too.
StepDecision DecideStep(const StepFacts& facts);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STEPS_STEP_DECISION_H_
