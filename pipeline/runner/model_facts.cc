#include "pipeline/runner/model_facts.h"

#include <algorithm>

#include "common/units.h"

namespace shoal::pipeline {
namespace {

replica::UnitFacts UnitsOf(const model::StageModel& model, std::uint32_t rows,
                           std::uint32_t tokens) {
  replica::UnitFacts facts;
  facts.units = model.units();
  for (std::size_t pass = 0; pass < model::kPasses; ++pass) {
    facts.uses[pass] = model.unit_uses(static_cast<model::Pass>(pass), rows, tokens);
  }
  facts.bf16 = model.options().compute == "bf16";
  return facts;
}

}  // namespace

Activity ActivityOf(model::Pass pass) {
  switch (pass) {
    case model::Pass::kForward: return Activity::kForward;
    case model::Pass::kBackwardInput: return Activity::kBackwardInput;
    case model::Pass::kBackwardWeights: break;
  }
  return Activity::kBackwardWeights;
}

std::string ExchangeOnHostText(const RunnerConfig& config, const ModelFacts& facts) {
  std::uint64_t bytes = 0;
  for (const model::TensorLayout& tensor : config.pipelines > 1 ? facts.layout : facts.shared) {
    bytes += tensor.size * sizeof(float);
  }
  return "replica method " + config.replica_method + " works on the host: " + FormatBytes(bytes) +
         " of gradients cross the bus in each step, and their sums back";
}

replica::StateTransfer::Options TransferOptionsOf(const RunnerConfig& config,
                                                  const ModelFacts& facts) {
  replica::StateTransfer::Options options;
  options.holders.assign(config.holders.begin(), config.holders.end());
  options.shadows = std::max(config.shadows, 1u);  // holders rest by it, so it is never 0
  options.shadow = std::ranges::find(config.holders, config.pipeline) == config.holders.end();
  for (const model::TensorLayout& tensor : facts.layout) options.state_size += tensor.size;
  options.chunk_values_max = config.state_chunk_values;
  if (options.shadow) {
    options.missing = config.missing.value_or(replica::MissingValues(options.state_size));
  }
  return options;
}

ModelFacts FactsOf(const model::StageModel& model, std::uint32_t rows, std::uint32_t tokens) {
  const auto layout = model.layout();
  return {model.MicroBatchBytes(rows, tokens),
          model.PendingWeightsBytes(rows, tokens),
          {layout.begin(), layout.end()},
          model.shared_tensors(),
          model.weight_parts(),
          UnitsOf(model, rows, tokens)};
}

Result<replica::ReplicaContext> ReplicaContextOf(const RunnerConfig& config,
                                                 const ModelFacts& facts, replica::Member* member,
                                                 const replica::GroupLinks* group) {
  if (!facts.shared.empty() && (group == nullptr || group->shared_group() == nullptr)) {
    return FailedPrecondition(
        "this stage holds tensors that others share, but the plan names no peers of these");
  }
  replica::ReplicaContext context;
  // A single pipeline has nothing to agree on but the copies of what stages share.
  const bool one = config.pipelines == 1;
  auto method = replica::ParseReplicaMethod(config.replica_method);
  const bool alone = one && method.ok() && !method->alone.empty();
  if (one) method = replica::ParseReplicaMethod(alone ? method->alone : "average");
  if (!method.ok()) return method.status();
  if (!config.with_gaps.empty() && !method->traits.follows_steps) {
    return InvalidArgument("the plan lacks a stage of pipeline " +
                           std::to_string(config.with_gaps.front()) + ", and replica method " +
                           config.replica_method + " needs every member");
  }
  context.method = *std::move(method);
  context.member = member;
  context.links = group;
  context.parts = replica::MakeParameterGroups(group, alone, facts.layout, facts.shared);
  if (group != nullptr || alone) {
    context.final_after = replica::FinalAfter(facts.layout, facts.weight_parts);
  }
  context.layout = facts.layout;
  context.units = facts.units;
  return context;
}

}  // namespace shoal::pipeline
