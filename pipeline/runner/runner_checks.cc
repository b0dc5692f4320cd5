#include "pipeline/runner/runner_checks.h"

#include <string>

namespace shoal::pipeline {

Status CheckRunnerConfig(const RunnerConfig& c) {
  if (c.stages == 0 || c.stage >= c.stages || c.pipelines == 0 || c.pipelines > 64 ||
      c.pipeline >= c.pipelines) {
    return InvalidArgument("stage " + std::to_string(c.stage) + " of " + std::to_string(c.stages) +
                           " in pipeline " + std::to_string(c.pipeline) + " of " +
                           std::to_string(c.pipelines) + " (64 at most) is no place in a plan");
  }
  constexpr std::uint32_t kMost = 1u << 20;
  if (c.micro_batch_rows == 0 || c.row_tokens == 0 || c.hidden == 0 || c.micro_batch_rows > kMost ||
      c.row_tokens > kMost || c.hidden > kMost) {
    return InvalidArgument("rows, tokens per row and hidden size must be 1 to 1048576");
  }
  if (c.stall_timeout <= Duration::zero()) return InvalidArgument("the stall timeout must be > 0");
  return Status::Ok();
}

Status CheckRunnerResources(const RunnerConfig& config, const RunnerResources& d,
                            const compression::MessageCodec& forward,
                            const compression::MessageCodec& backward) {
  SHOAL_CHECK(d.control && d.compute && d.codec && d.store && d.hub && d.model);
  SHOAL_RETURN_IF_ERROR(compression::CheckDirections(forward, backward));
  const bool keeps = forward.keeps_m() || backward.keeps_residual();
  if (config.stages > 1 && keeps && d.delta_store == nullptr) {
    return FailedPrecondition("codec " + (forward.keeps_m() ? forward : backward).spec() +
                              " needs a delta store");
  }
  const compression::SampleShape shape{config.row_tokens, config.hidden};
  const std::size_t rows = config.micro_batch_rows;
  if (forward.EncodedBytesMax(shape, rows) > UINT32_MAX ||
      backward.EncodedBytesMax(shape, rows) > UINT32_MAX) {
    return InvalidArgument("a micro-batch of " + std::to_string(rows) + " x " +
                           std::to_string(config.row_tokens) + " x " +
                           std::to_string(config.hidden) + " values does not fit a frame");
  }
  const bool reads = config.stage == 0 || config.stage + 1 == config.stages;
  if (!reads) return Status::Ok();
  if (d.data == nullptr) return FailedPrecondition("first and last stage need the prepared data");
  if (d.data->info().row_tokens == config.row_tokens) return Status::Ok();
  return InvalidArgument("the data has rows of " + std::to_string(d.data->info().row_tokens) +
                         " tokens, the run wants " + std::to_string(config.row_tokens) +
                         "; prepare the data with --row " + std::to_string(config.row_tokens));
}

}  // namespace shoal::pipeline
