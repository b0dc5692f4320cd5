#include <utility>

#include "replica/collective/power_sgd_exchange.h"
#include "replica/methods/power_sgd_method.h"
#include "replica/methods/stage_selection.h"
#include "replica/replica_step.h"

namespace shoal::replica {

Result<std::unique_ptr<collective::Exchange>> NewGroupExchange(
    const Member& member, const ReplicaMethod& method, const ParameterGroup& part,
    const GroupExchangeOptions& options) {
  collective::GroupChannel* const channel =
      options.channel != nullptr ? options.channel : part.channel;
  Executor* const control = member.control;
  Executor* const compute = options.compute != nullptr ? options.compute : member.compute;
  const MemberConfig& config = member.config;
  collective::ExchangeConfig exchange;
  exchange.codec = method.codec;
  exchange.error_feedback = method.feedback;
  exchange.row = kReplicaRow;
  exchange.seed = SeedOf(config.seed, options.number);
  exchange.epoch = config.generation;
  exchange.early_bytes_max += 2 * sizeof(float) * part.values;
  exchange.reuse_memory = options.reuse_memory;
  SHOAL_ASSIGN_OR_RETURN(auto direct,
                         collective::NewDirectExchange(exchange, channel, control, compute));
  // The embedding has an exchange that is exact: its gradient is no low-rank matrix, but rows.
  const PowerSgdOptions* const factors = PowerSgdOptionsOf(method);
  if (factors == nullptr || part.embedding) return direct;
  SHOAL_ASSIGN_OR_RETURN(const StageSelection selection,
                         ParseStageSelection(factors->stages, config.stages));
  if (!selection.automatic && !selection.chosen[config.stage]) return direct;
  std::vector<std::vector<std::size_t>> shapes;
  for (const model::TensorLayout& tensor : part.tensors) shapes.push_back(tensor.shape);
  return collective::NewPowerSgdExchange(
      {*factors, config.seed, static_cast<std::uint32_t>(config.generation), channel->rank(),
       shapes, options.rounds_per_step, options.reuse_memory},
      std::move(direct), control, compute);
}

}  // namespace shoal::replica
