// The list of replica methods. From outside replica/: ParseReplicaMethod
// (replica_method.h), which is defined here, as are the functions of ReplicaMethod. Pure. Thread:
// any.

#ifndef SHOAL_REPLICA_METHODS_METHOD_REGISTRY_H_
#define SHOAL_REPLICA_METHODS_METHOD_REGISTRY_H_

#include <string_view>
#include <vector>

#include "replica/methods/method_entry.h"

namespace shoal::replica {

// All, in the order in which errors list them.
std::vector<const MethodEntry*> Methods();
// The entry of this name, or null.
const MethodEntry* FindMethod(std::string_view name);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_METHOD_REGISTRY_H_
