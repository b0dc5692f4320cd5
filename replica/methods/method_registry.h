// The list of replica methods. Internal to replica/methods/; from outside: ParseReplicaMethod
// (replica_method.h), which is defined here. Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_METHOD_REGISTRY_H_
#define SHOAL_REPLICA_METHODS_METHOD_REGISTRY_H_

#include <string_view>

#include "replica/methods/method_entry.h"

namespace shoal::replica {

// The entry of this name, or null.
const MethodEntry* FindMethod(std::string_view name);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_METHOD_REGISTRY_H_
