// `qsdp`: optimizer state in shards. Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_QSDP_METHOD_H_
#define SHOAL_REPLICA_METHODS_QSDP_METHOD_H_

#include "replica/methods/method_entry.h"
#include "replica/methods/qsdp_options.h"

namespace shoal::replica {

// Of a method of this kind; anything else is a bug.
const QsdpOptions& QsdpOptionsOf(const ReplicaMethod& method);

const MethodEntry& QsdpEntry();

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_QSDP_METHOD_H_
