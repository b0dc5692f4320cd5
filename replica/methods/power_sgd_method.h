// `powersgd`: gradients as factors. Internal to replica/methods/. Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_POWER_SGD_METHOD_H_
#define SHOAL_REPLICA_METHODS_POWER_SGD_METHOD_H_

#include "replica/methods/method_entry.h"

namespace shoal::replica {

const MethodEntry& PowerSgdEntry();

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_POWER_SGD_METHOD_H_
