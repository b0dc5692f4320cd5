#include "pipeline/runner/runner_checks.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "replica/methods/group_limits.h"

namespace shoal::pipeline {
namespace {

bool HasPeer(const net::LinkTarget& target) { return target.peer != PeerId{}; }

Status CheckHolders(const RunnerConfig& config) {
  std::vector<bool> named(config.pipelines);
  for (const std::uint32_t pipeline : config.holders) {
    if (pipeline >= config.pipelines || named[pipeline]) {
      return InvalidArgument(
          "the plan says of pipeline " + std::to_string(pipeline) +
          ", which does not exist or was named already, that it holds the stage");
    }
    named[pipeline] = true;
  }
  return Status::Ok();
}

}  // namespace

Status CheckRunnerConfig(const RunnerConfig& c) {
  if (c.stages == 0 || c.stage >= c.stages || c.pipelines == 0 ||
      c.pipelines > replica::kPipelinesMax || c.pipeline >= c.pipelines) {
    return InvalidArgument(
        "stage " + std::to_string(c.stage) + " of " + std::to_string(c.stages) + " in pipeline " +
        std::to_string(c.pipeline) + " of " + std::to_string(c.pipelines) + " (" +
        std::to_string(replica::kPipelinesMax) + " at most) is no position in a plan");
  }
  constexpr std::uint32_t kMost = 1u << 20;
  if (c.micro_batch_rows == 0 || c.row_tokens == 0 || c.hidden == 0 || c.micro_batch_rows > kMost ||
      c.row_tokens > kMost || c.hidden > kMost) {
    return InvalidArgument("rows, tokens per row and hidden size must be 1 to 1048576");
  }
  SHOAL_RETURN_IF_ERROR(CheckNesting(c.timeouts));
  return CheckHolders(c);
}

Status CheckRunnerResources(const RunnerConfig& config, const RunnerResources& d,
                            const compression::MessageCodec& forward,
                            const compression::MessageCodec& backward) {
  SHOAL_CHECK(d.control && d.compute && d.codec && d.store && d.hub && d.model);
  SHOAL_RETURN_IF_ERROR(compression::CheckDirections(forward, backward));
  const bool keeps = forward.keeps_m() || backward.keeps_m() || backward.keeps_residual();
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

Status CheckTargets(const RunnerConfig& config, const LinkTargets& targets) {
  const bool whole = !config.HasGap(config.pipeline);
  if (whole && config.stage + 1 < config.stages && !HasPeer(targets.next)) {
    return InvalidArgument("the plan names no peer for the next stage");
  }
  if (whole && config.stage > 0 && !HasPeer(targets.previous)) {
    return InvalidArgument("the plan names no peer for the stage before");
  }
  if (config.pipelines > 1 && targets.group.size() != config.pipelines) {
    return InvalidArgument("the plan names " + std::to_string(targets.group.size()) +
                           " members of the stage group instead of " +
                           std::to_string(config.pipelines));
  }
  const std::size_t sharing = config.sharing.size() * config.pipelines;
  if (targets.shared.size() != sharing) {
    return InvalidArgument("the plan names " + std::to_string(targets.shared.size()) +
                           " peers that share tensors of the stage instead of " +
                           std::to_string(sharing));
  }
  return Status::Ok();
}

Status CheckPlan(const RunnerConfig& config, const StepPlan& plan, std::uint64_t next_step) {
  const std::string what = "the plan of step " + std::to_string(plan.step);
  if (plan.step != next_step) {
    return InvalidArgument(what + " came where that of step " + std::to_string(next_step) +
                           " is next");
  }
  if (plan.micro_batches.size() > kMicroBatchesMax || plan.evaluation.size() > kMicroBatchesMax) {
    return InvalidArgument(what + " has too many micro-batches");
  }
  for (const std::uint32_t pipeline : plan.counting) {
    if (pipeline < config.pipelines) continue;
    return InvalidArgument(what + " has micro-batches for pipeline " + std::to_string(pipeline) +
                           ", which does not exist");
  }
  const bool evaluates = config.HasGap(config.pipeline) && !plan.evaluation.empty();
  for (const std::uint32_t pipeline : config.with_gaps) {
    const bool counts = plan.counting.empty() || std::ranges::count(plan.counting, pipeline) > 0;
    if (!counts && !evaluates) continue;
    return InvalidArgument(what + " has micro-batches for pipeline " + std::to_string(pipeline) +
                           ", which lacks a stage");
  }
  const std::size_t lines = plan.group_lines.size(), shared = plan.shared_lines.size();
  if ((lines > 0 && lines != config.pipelines) ||
      (shared > 0 && shared != config.sharing.size() * config.pipelines)) {
    return InvalidArgument(what + " has lines of another number of peers");
  }
  for (const auto* micro_batches : {&plan.micro_batches, &plan.evaluation}) {
    for (const MicroBatchPlan& micro_batch : *micro_batches) {
      if (!micro_batch.samples.empty() && micro_batch.samples.size() <= config.micro_batch_rows) {
        continue;
      }
      return InvalidArgument(what + " has a micro-batch of " +
                             std::to_string(micro_batch.samples.size()) + " rows; 1 to " +
                             std::to_string(config.micro_batch_rows) + " are allowed");
    }
  }
  return Status::Ok();
}

Status CheckLost(const RunnerConfig& config, const StepPlan& plan) {
  for (const Position& at : plan.lost) {
    const bool own = at.pipeline == config.pipeline && at.stage == config.stage;
    if (plan.amendment == 0 && !config.HasGap(at.pipeline)) {
      return InvalidArgument("peers of pipeline " + std::to_string(at.pipeline) +
                             ", which is whole, have left as if they only followed");
    }
    if (at.pipeline < config.pipelines && at.stage < config.stages && !own) continue;
    return InvalidArgument("the plan of step " + std::to_string(plan.step) + " says that stage " +
                           std::to_string(at.stage) + " of pipeline " +
                           std::to_string(at.pipeline) + " has left, which " +
                           (own ? "is this peer" : "does not exist"));
  }
  return Status::Ok();
}

Status CheckReduce(const RunnerConfig& config, const replica::ReduceOrder& order,
                   std::uint64_t step, bool local_norms) {
  std::vector<bool> counts(config.pipelines);
  for (const std::uint32_t pipeline : order.pipelines) {
    if (pipeline >= config.pipelines || counts[pipeline] || config.HasGap(pipeline)) {
      return InvalidArgument("Reduce names pipeline " + std::to_string(pipeline) +
                             ", which does not exist, lacks a stage or was named already");
    }
    counts[pipeline] = true;
  }
  if (order.step != step || order.pipelines.empty()) {
    return InvalidArgument("Reduce for step " + std::to_string(order.step) +
                           " is out of place in step " + std::to_string(step));
  }
  const auto finite = [](double value) { return std::isfinite(value) && value >= 0; };
  if (local_norms && (order.labels == 0 || !finite(order.learning_rate) ||
                      order.local_norms.size() != config.pipelines ||
                      order.local_labels.size() != config.pipelines ||
                      !std::all_of(order.local_norms.begin(), order.local_norms.end(), finite))) {
    return InvalidArgument("Reduce for step " + std::to_string(order.step) +
                           " lacks learning rate, labels or gradient norms of the pipelines");
  }
  return Status::Ok();
}

Status CheckApply(const replica::ApplyOrder& order, std::uint64_t step) {
  const bool has_norm = std::isfinite(order.global_norm) || order.skip;
  if (order.step == step && order.labels > 0 && has_norm && std::isfinite(order.learning_rate)) {
    return Status::Ok();
  }
  return InvalidArgument("Apply for step " + std::to_string(order.step) + " with " +
                         std::to_string(order.labels) + " labels and gradient norm " +
                         std::to_string(order.global_norm) + " cannot be carried out in step " +
                         std::to_string(step));
}

}  // namespace shoal::pipeline
