// The codecs of a peer's boundaries, for values where its model has them.

#ifndef SHOAL_PIPELINE_RUNNER_RUNNER_CODECS_H_
#define SHOAL_PIPELINE_RUNNER_RUNNER_CODECS_H_

#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "compression/api/value_home.h"
#include "pipeline/boundary/boundary.h"
#include "pipeline/core/runner_types.h"

namespace shoal::pipeline {

struct RunnerCodecs {
  std::shared_ptr<const compression::ValueHome> home;
  std::shared_ptr<const compression::MessageCodec> forward, backward, evaluation;
  std::vector<std::string> on_host;  // as RunnerStats has it
};

// `home`: null for the host. An error: a codec of the run is not known here.
Result<RunnerCodecs> MakeRunnerCodecs(const RunnerConfig& config,
                                      std::shared_ptr<const compression::ValueHome> home);

BoundaryConfig BoundaryConfigOf(const RunnerConfig& config, const RunnerCodecs& codecs);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_RUNNER_RUNNER_CODECS_H_
