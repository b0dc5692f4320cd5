// The step that carries out each replica method. Thread: control.

#ifndef SHOAL_REPLICA_STEP_REGISTRY_H_
#define SHOAL_REPLICA_STEP_REGISTRY_H_

#include <memory>
#include <string_view>

#include "common/status.h"
#include "replica/replica_step.h"

namespace shoal::replica {

using StepFactory = Result<std::unique_ptr<ReplicaStep>> (*)(ReplicaContext context);
// What sums a part's vectors over its group, by `direct`, which sums what the method's codec makes
// of them. `options` name channel and compute.
using PartExchange = Result<std::unique_ptr<collective::Exchange>> (*)(
    const Member& member, const ReplicaMethod& method, const ParameterGroup& part,
    const GroupExchangeOptions& options, std::unique_ptr<collective::Exchange> direct);

struct MethodStep {
  std::string_view method;
  StepFactory step = nullptr;       // without local steps
  PartExchange exchange = nullptr;  // null: the direct one
};

// Of the method of this name (replica/methods/method_registry.h), or null.
const MethodStep* FindStep(std::string_view method);

// Errors are those of the factories.
Result<std::unique_ptr<ReplicaStep>> NewReplicaStep(ReplicaContext context);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_STEP_REGISTRY_H_
