// What a StageRunner refuses: configurations that it is made of, and orders of the scheduler. Pure.

#ifndef SHOAL_PIPELINE_RUNNER_RUNNER_CHECKS_H_
#define SHOAL_PIPELINE_RUNNER_RUNNER_CHECKS_H_

#include "common/status.h"
#include "compression/api/codec.h"
#include "pipeline/core/runner_types.h"

namespace shoal::pipeline {

// Invalid argument unless it is a position in a plan, or has a size out of range.
Status CheckRunnerConfig(const RunnerConfig& config);
// Error if codecs, store, data or sizes do not fit each other. Pointers that must not be null are
// checked as our own bugs.
Status CheckRunnerResources(const RunnerConfig& config, const RunnerResources& resources,
                            const compression::MessageCodec& forward,
                            const compression::MessageCodec& backward);
// Invalid argument if a neighbour, a member of the stage group or one that shares tensors is
// missing.
Status CheckTargets(const RunnerConfig& config, const LinkTargets& targets);
// Invalid argument if it is not the plan of `next_step`, or not one of this run.
Status CheckPlan(const RunnerConfig& config, const StepPlan& plan, std::uint64_t next_step);
// Invalid argument if peers have left that the plan does not have, or this one; or of a pipeline
// that is whole, and the plan is no amendment.
Status CheckLost(const RunnerConfig& config, const StepPlan& plan);
// Invalid argument if the order is not for the running `step`, or cannot be carried out.
Status CheckApply(const replica::ApplyOrder& order, std::uint64_t step);
// Invalid argument if the order is not for the running `step` or names pipelines that do not exist.
// With `local_norms` also if it lacks what clipping by the pipelines' own norms needs.
Status CheckReduce(const RunnerConfig& config, const replica::ReduceOrder& order,
                   std::uint64_t step, bool local_norms);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_RUNNER_RUNNER_CHECKS_H_
