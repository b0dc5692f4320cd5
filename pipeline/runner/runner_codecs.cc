#include "pipeline/runner/runner_codecs.h"

#include <string_view>
#include <utility>

#include "pipeline/boundary/evaluation_link.h"

namespace shoal::pipeline {

Result<RunnerCodecs> MakeRunnerCodecs(const RunnerConfig& config,
                                      std::shared_ptr<const compression::ValueHome> home) {
  RunnerCodecs codecs;
  codecs.home = home != nullptr ? std::move(home) : compression::HostValues();
  const auto make =
      [&](std::string_view spec) -> Result<std::shared_ptr<const compression::MessageCodec>> {
    SHOAL_ASSIGN_OR_RETURN(compression::HomeCodec made, codecs.home->NewCodec(spec, config.hidden));
    if (!made.on_host_because.empty()) {
      codecs.on_host.push_back(made.on_host_because +
                               ": its values cross the bus as fp32 and are coded on the host");
    }
    return std::move(made.codec);
  };
  SHOAL_ASSIGN_OR_RETURN(codecs.forward, make(config.forward_codec));
  SHOAL_ASSIGN_OR_RETURN(codecs.backward, make(config.backward_codec));
  SHOAL_ASSIGN_OR_RETURN(codecs.evaluation, make(kEvaluationCodec));
  return codecs;
}

BoundaryConfig BoundaryConfigOf(const RunnerConfig& config, const RunnerCodecs& codecs) {
  return {.run = config.run,
          .stage = config.stage,
          .stages = config.stages,
          .seed = config.seed,
          .first_step = config.resume_step,
          .extends = config.pipelines > 1,
          .micro_batch_rows = config.micro_batch_rows,
          .sample = {config.row_tokens, config.hidden},
          .segment_bytes_min = config.segment_bytes_min,
          .prefetch_bytes = config.prefetch_bytes,
          .spot_checks = config.spot_checks,
          .home = codecs.home,
          .forward_codec = codecs.forward,
          .backward_codec = codecs.backward};
}

}  // namespace shoal::pipeline
