// What NewStageRunner refuses. Pure.

#ifndef SHOAL_PIPELINE_RUNNER_RUNNER_CHECKS_H_
#define SHOAL_PIPELINE_RUNNER_RUNNER_CHECKS_H_

#include "common/status.h"
#include "compression/api/codec.h"
#include "pipeline/core/runner_types.h"

namespace shoal::pipeline {

// Invalid argument if it is no place in a plan, or has a size out of range.
Status CheckRunnerConfig(const RunnerConfig& config);
// Error if codecs, store, data or sizes do not fit each other. Pointers that must not be null are
// checked as our own bugs.
Status CheckRunnerResources(const RunnerConfig& config, const RunnerResources& resources,
                            const compression::MessageCodec& forward,
                            const compression::MessageCodec& backward);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_RUNNER_RUNNER_CHECKS_H_
