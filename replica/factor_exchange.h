// The exchange of a part by factors of its matrices, for stages that the method chooses. Thread:
// control.

#ifndef SHOAL_REPLICA_FACTOR_EXCHANGE_H_
#define SHOAL_REPLICA_FACTOR_EXCHANGE_H_

#include <memory>

#include "common/status.h"
#include "replica/replica_step.h"

namespace shoal::replica {

// PartExchange of `powersgd` (step_registry.h).
Result<std::unique_ptr<collective::Exchange>> NewFactorExchange(
    const Member& member, const ReplicaMethod& method, const ParameterGroup& part,
    const GroupExchangeOptions& options, std::unique_ptr<collective::Exchange> exact);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_FACTOR_EXCHANGE_H_
