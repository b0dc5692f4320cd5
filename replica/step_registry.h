// The step that carries out each replica method. Thread: control.

#ifndef SHOAL_REPLICA_STEP_REGISTRY_H_
#define SHOAL_REPLICA_STEP_REGISTRY_H_

#include <memory>
#include <string_view>

#include "common/status.h"
#include "replica/replica_step.h"

namespace shoal::replica {

using StepFactory = Result<std::unique_ptr<ReplicaStep>> (*)(ReplicaContext context);

// Of the method of this name (replica/methods/method_registry.h) without local steps, or null.
StepFactory FindStep(std::string_view method);

// Errors are those of the factories.
Result<std::unique_ptr<ReplicaStep>> NewReplicaStep(ReplicaContext context);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_STEP_REGISTRY_H_
