#include "replica/factor_exchange.h"

#include <utility>
#include <vector>

#include "replica/collective/power_sgd_exchange.h"
#include "replica/methods/power_sgd_method.h"
#include "replica/methods/stage_selection.h"

namespace shoal::replica {

Result<std::unique_ptr<collective::Exchange>> NewFactorExchange(
    const Member& member, const ReplicaMethod& method, const ParameterGroup& part,
    const GroupExchangeOptions& options, std::unique_ptr<collective::Exchange> exact) {
  // A shared table's gradient is no low-rank matrix, but rows.
  if (part.shared()) return exact;
  const MemberConfig& config = member.config;
  const PowerSgdOptions& factors = PowerSgdOptionsOf(method);
  SHOAL_ASSIGN_OR_RETURN(const StageSelection selection,
                         ParseStageSelection(factors.stages, config.stages));
  if (!selection.automatic && !selection.chosen[config.stage]) return exact;
  std::vector<std::vector<std::size_t>> shapes;
  for (const model::TensorLayout& tensor : part.tensors) shapes.push_back(tensor.shape);
  return collective::NewPowerSgdExchange(
      {factors, config.seed, static_cast<std::uint32_t>(config.generation), options.channel->rank(),
       shapes, options.rounds_per_step, options.reuse_memory},
      std::move(exact), member.control, options.compute);
}

}  // namespace shoal::replica
