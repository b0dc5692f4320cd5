#include <utility>

#include "replica/methods/method_entry.h"
#include "replica/replica_step.h"
#include "replica/step_registry.h"

namespace shoal::replica {

Result<std::unique_ptr<collective::Exchange>> NewGroupExchange(
    const Member& member, const ReplicaMethod& method, const ParameterGroup& part,
    const GroupExchangeOptions& options) {
  GroupExchangeOptions given = options;
  if (given.channel == nullptr) given.channel = part.channel;
  if (given.compute == nullptr) given.compute = member.compute;
  const MemberConfig& config = member.config;
  collective::ExchangeConfig exchange;
  exchange.codec = method.codec;
  exchange.error_feedback = method.feedback;
  exchange.row = kReplicaRow;
  exchange.seed = SeedOf(config.seed, options.number);
  exchange.epoch = config.generation;
  exchange.early_bytes_max += 2 * sizeof(float) * part.values;
  exchange.reuse_memory = options.reuse_memory;
  const MethodStep* const step = FindStep(method.entry->name);
  const bool alone = step == nullptr || step->exchange == nullptr;
  const auto make = [&] {
    return collective::NewDirectExchange(exchange, given.channel, member.control, given.compute);
  };
  if (given.home != nullptr && !given.home->on_host() && alone) {
    exchange.home = given.home;
    auto there = make();
    if (there.ok() || there.status().code() != StatusCode::kUnimplemented) return there;
    exchange.home = compression::HostValues();
  }
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<collective::Exchange> direct, make());
  if (alone) return direct;
  return step->exchange(member, method, part, given, std::move(direct));
}

}  // namespace shoal::replica
