#include "daemon/stage_setup.h"

#include <algorithm>
#include <utility>

#include "daemon/stage_messages.h"
#include "replica/methods/replica_method.h"

namespace shoal::daemon {
namespace {

constexpr char kStateFolder[] = "/stage-state";  // beside the checkpoints

net::LinkTarget TargetOf(const control::v1::Plan& plan, std::uint32_t pipeline, std::uint32_t stage,
                         std::string channel) {
  net::LinkTarget target;
  for (const control::v1::Position& position : plan.positions()) {
    if (position.pipeline() != pipeline || position.stage() != stage) continue;
    target.peer = ToPeerId(position.peer());
    target.addresses.assign(position.addresses().begin(), position.addresses().end());
    target.run = RunId{plan.config().run()};
    target.generation = plan.generation();
    target.channel = std::move(channel);
    break;
  }
  return target;
}

}  // namespace

Result<model::StageOptions> StageOptionsOf(const control::v1::Plan& plan,
                                           const control::v1::Position& own,
                                           const DaemonConfig& daemon) {
  model::StageOptions options;
  const control::v1::RunConfig& run = plan.config();
  options.range = {own.first_layer(), own.last_layer()};
  options.device = daemon.device;
  options.threads = static_cast<int>(daemon.threads);
  options.compute = run.compute();
  options.dropout = run.dropout();
  options.fresh_masks = run.dropout_masks() == "fresh";
  options.seed = run.seed();
  options.recompute = run.recompute();
  options.optimizer = {run.beta1(), run.beta2(), run.epsilon(), run.weight_decay(),
                       run.clip_norm()};
  // A single pipeline has nobody to share with, whatever the method.
  SHOAL_ASSIGN_OR_RETURN(
      const auto method,
      replica::ParseReplicaMethod(run.pipelines() > 1 ? run.replica_method() : "average"));
  if (method.traits.shards_moments) {
    options.held =
        method.traits.shards_parameters ? model::ZeroMode::kZero3 : model::ZeroMode::kZero1;
    options.state_folder = daemon.directory + kStateFolder;
  }
  return options;
}

Result<pipeline::RunnerConfig> RunnerConfigOf(const control::v1::Plan& plan,
                                              const control::v1::Position& own,
                                              const model::ModelSpec& model,
                                              const DaemonConfig& daemon) {
  const control::v1::RunConfig& run = plan.config();
  pipeline::RunnerConfig config;
  config.run = RunId{run.run()};
  config.seed = run.seed();
  config.steps = run.steps();
  config.generation = plan.generation();
  config.stage = own.stage();
  config.stages = run.stages();
  config.pipeline = own.pipeline();
  config.pipelines = run.pipelines();
  config.micro_batch_rows = run.micro_batch_rows();
  config.row_tokens = run.row_tokens();
  config.hidden = model.hidden;
  config.forward_codec = run.forward_codec();
  config.backward_codec = run.backward_codec();
  config.replica_method = run.replica_method();
  config.lans = LansOf(plan, config.stage);
  config.sharing = model::SharingStages(model.shared_by(), run.stages());
  if (std::ranges::find(config.sharing, config.stage) == config.sharing.end()) {
    config.sharing.clear();
  }
  config.shared_lans = SharedLansOf(plan, config.sharing);
  SHOAL_ASSIGN_OR_RETURN(config.schedule, pipeline::ParseSchedulePolicy(run.schedule()));
  config.in_flight_max = run.in_flight_max();
  config.activation_memory_bytes = daemon.activation_bytes;
  // A quarter of the store's memory, for two boundaries.
  config.prefetch_bytes = daemon.store_memory_bytes / 8;
  config.resume_step = plan.resume_step();
  config.spot_checks = run.spot_checks();
  for (std::uint32_t pipeline = 0; pipeline < config.pipelines; ++pipeline) {
    if (!IsWhole(plan, pipeline)) config.with_gaps.push_back(pipeline);
  }
  config.holders = HoldersOf(plan, config.stage);
  config.shadows = ShadowsOf(plan, config.stage);
  if (own.shadow() && config.holders.empty()) {
    return InvalidArgument("the plan names nobody who holds stage " + std::to_string(config.stage));
  }
  return config;
}

Status CheckData(const pipeline::RunnerConfig& config, const dataset::PreparedData* data,
                 std::uint32_t vocabulary) {
  // All stages have it where rows are segmented.
  const bool needs_data = config.stage == 0 || config.stage + 1 == config.stages || data != nullptr;
  if (needs_data && data == nullptr) {
    return InvalidArgument("the plan gives this stage no data");
  }
  if (needs_data && data->info().row_tokens != config.row_tokens) {
    return InvalidArgument("the data's rows have " + std::to_string(data->info().row_tokens) +
                           " tokens, the run's have " + std::to_string(config.row_tokens));
  }
  if (needs_data && data->info().vocabulary > vocabulary) {
    return InvalidArgument("the data was prepared with another tokenizer: it has token ids up to " +
                           std::to_string(data->info().vocabulary - 1) + ", the model knows " +
                           std::to_string(vocabulary) + " tokens");
  }
  return Status::Ok();
}

pipeline::LinkTargets LinkTargetsOf(const control::v1::Plan& plan, const control::v1::Position& own,
                                    const std::vector<std::uint32_t>& sharing) {
  pipeline::LinkTargets targets;
  const std::uint32_t pipeline = own.pipeline();
  const std::uint32_t stage = own.stage();
  const std::uint32_t last = plan.config().stages() - 1;
  const std::string p = std::to_string(pipeline);
  const bool whole = IsWhole(plan, pipeline);
  if (whole && stage < last) {
    targets.next =
        TargetOf(plan, pipeline, stage + 1, "boundary/" + p + "/" + std::to_string(stage));
  }
  if (whole && stage > 0) {
    targets.previous =
        TargetOf(plan, pipeline, stage - 1, "boundary/" + p + "/" + std::to_string(stage - 1));
  }
  const auto name = [](std::uint32_t at_stage, std::uint32_t of_pipeline) {
    return std::to_string(at_stage) + "." + std::to_string(of_pipeline);
  };
  for (const std::uint32_t other_stage : sharing) {
    for (std::uint32_t other = 0; other < plan.config().pipelines(); ++other) {
      if (other_stage == stage) {
        targets.shared.emplace_back();
        continue;
      }
      const std::string a = name(stage, pipeline), b = name(other_stage, other);
      targets.shared.push_back(TargetOf(
          plan, other, other_stage, "shared/" + (stage < other_stage ? a + "-" + b : b + "-" + a)));
    }
  }
  for (std::uint32_t other = 0; other < plan.config().pipelines(); ++other) {
    const std::string pair =
        std::to_string(std::min(other, pipeline)) + "-" + std::to_string(std::max(other, pipeline));
    targets.group.push_back(
        TargetOf(plan, other, stage, "group/" + std::to_string(stage) + "/" + pair));
  }
  return targets;
}

std::optional<pipeline::SpotOrder> SpotOrderOf(const control::v1::Plan& plan,
                                               const control::v1::Position& own,
                                               const control::v1::SpotCheck& check) {
  const std::uint32_t stages = plan.config().stages(), stage = check.stage();
  const bool first = stage == 0, last = stage + 1 == stages;
  if (stage >= stages || check.pipeline() >= plan.config().pipelines()) return std::nullopt;
  if (!IsWhole(plan, check.pipeline()) || !IsWhole(plan, own.pipeline())) return std::nullopt;
  pipeline::SpotOrder order;
  order.step = check.step();
  order.place = check.place();
  order.micro_batch = ToMicroBatchPlan(check.micro_batch());
  const auto samples = order.micro_batch.samples.size();
  if (samples == 0 || samples > plan.config().micro_batch_rows()) return std::nullopt;
  const auto target = [&](std::uint32_t pipeline, std::uint32_t at, bool input,
                          std::uint32_t checker) {
    return TargetOf(plan, pipeline, at,
                    "spot/" + std::to_string(check.step()) + (input ? "/input/" : "/output/") +
                        std::to_string(checker));
  };
  const bool input = !first && own.stage() + 1 == stage;
  if (own.pipeline() == check.pipeline() && (input || (!last && own.stage() == stage + 1))) {
    order.role = input ? pipeline::SpotRole::kInputWitness : pipeline::SpotRole::kOutputWitness;
    for (const std::uint32_t checker : check.checkers()) {
      if (checker >= plan.config().pipelines()) return std::nullopt;
      order.checkers.push_back(target(checker, stage, input, checker));
    }
    return order;
  }
  const auto& checkers = check.checkers();
  if (own.stage() != stage || own.pipeline() == check.pipeline() ||
      std::find(checkers.begin(), checkers.end(), own.pipeline()) == checkers.end()) {
    return std::nullopt;
  }
  order.role = pipeline::SpotRole::kChecker;
  if (!first) order.input = target(check.pipeline(), stage - 1, true, own.pipeline());
  if (!last) order.output = target(check.pipeline(), stage + 1, false, own.pipeline());
  return order;
}

}  // namespace shoal::daemon
