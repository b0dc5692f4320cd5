#include "pipeline/runner/step_report.h"

#include "common/log.h"

namespace shoal::pipeline {

StepReady ReadyOf(const StepPlan& plan, double squared_norm, const StepCompute& compute,
                  const StepEvaluation& evaluation, Boundary* previous, Boundary* next,
                  bool spot_checks) {
  StepReady ready = compute.Ready();
  ready.step = plan.step;
  ready.amendment = plan.amendment;
  ready.squared_norm = squared_norm;
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

void LogFailure(const RunnerConfig& config, std::uint64_t step, const Status& status) {
  SHOAL_LOG(kWarning, "pipeline", "generation.failed", {"generation", config.generation},
            {"step", step}, {"stage", config.stage}, {"pipeline", config.pipeline},
            {"reason", status.message()});
}

std::string StallText(Duration idle, RunnerState state, std::uint64_t step,
                      const std::string& awaited) {
  return "nothing happened for " + FormatDuration(idle) + " while " +
         std::string(RunnerStateName(state)) + " in step " + std::to_string(step) +
         ": waiting for " + awaited;
}

}  // namespace shoal::pipeline
