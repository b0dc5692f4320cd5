// `powersgd`: gradients as factors. Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_POWER_SGD_METHOD_H_
#define SHOAL_REPLICA_METHODS_POWER_SGD_METHOD_H_

#include "replica/methods/method_entry.h"
#include "replica/methods/power_sgd_options.h"

namespace shoal::replica {

// Of a method of this kind; anything else is a bug.
const PowerSgdOptions& PowerSgdOptionsOf(const ReplicaMethod& method);

const MethodEntry& PowerSgdEntry();

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_POWER_SGD_METHOD_H_
