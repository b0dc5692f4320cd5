#include "pipeline/runner/step_report.h"

namespace shoal::pipeline {

StepReady ReadyOf(const StepPlan& plan, double squared_norm, const StepCompute& compute,
                  const StepEvaluation& evaluation, Boundary* previous, Boundary* next,
                  bool spot_checks) {
  StepReady ready;
  ready.step = plan.step;
  ready.amendment = plan.amendment;
  ready.squared_norm = squared_norm;
  ready.micro_batches = static_cast<std::uint32_t>(plan.micro_batches.size());
  ready.labels = compute.loss().labels;
  ready.loss_sum = compute.loss().sum;
  ready.times = compute.times();
  ready.evaluation = evaluation.loss();
  if (!spot_checks) return ready;
  if (previous != nullptr) ready.input_digests = previous->in().log().digests();
  if (next != nullptr) ready.output_digests = next->out().log().digests();
  if (next == nullptr) ready.losses = compute.losses();
  return ready;
}

std::string AwaitedAtLinkUp(const Boundary* previous, const Boundary* next,
                            const replica::GroupLinks* group, const PeerId** peer) {
  for (const Boundary* boundary : {previous, next}) {
    if (boundary == nullptr || boundary->up()) continue;
    return *peer = &boundary->peer(), boundary->Missing();
  }
  return group != nullptr && !group->up() ? group->Missing(peer) : "this peer's model";
}

std::string StallText(Duration idle, RunnerState state, std::uint64_t step,
                      const std::string& awaited) {
  return "nothing happened for " + FormatDuration(idle) + " while " +
         std::string(RunnerStateName(state)) + " in step " + std::to_string(step) +
         ": waiting for " + awaited;
}

}  // namespace shoal::pipeline
