// What a runner reports of a step that it has computed, and what it waits for before the first.
// Thread: control.

#ifndef SHOAL_PIPELINE_RUNNER_STEP_REPORT_H_
#define SHOAL_PIPELINE_RUNNER_STEP_REPORT_H_

#include <cstdint>
#include <string>

#include "common/units.h"
#include "pipeline/boundary/boundary.h"
#include "pipeline/compute/step_compute.h"
#include "pipeline/compute/step_evaluation.h"
#include "pipeline/core/lifecycle.h"
#include "pipeline/core/runner_types.h"
#include "replica/group_links.h"

namespace shoal::pipeline {

// `previous`, `next`: null where there is no such stage.
StepReady ReadyOf(const StepPlan& plan, double squared_norm, const StepCompute& compute,
                  const StepEvaluation& evaluation, Boundary* previous, Boundary* next,
                  bool spot_checks);

// `peer` becomes who is waited for; null: nobody else. `group`: null if the stage has none.
std::string AwaitedAtLinkUp(const Boundary* previous, const Boundary* next,
                            const replica::GroupLinks* group, const PeerId** peer);

// For the log: the generation failed in this step.
void LogFailure(const RunnerConfig& config, std::uint64_t step, const Status& status);

// Why a step failed in which nothing happened any more.
std::string StallText(Duration idle, RunnerState state, std::uint64_t step,
                      const std::string& awaited);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_RUNNER_STEP_REPORT_H_
