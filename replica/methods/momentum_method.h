// `qadam` and `onebit`: momenta in bits, behind a warm-up. Internal to replica/methods/. Pure.
// Thread: any.

#ifndef SHOAL_REPLICA_METHODS_MOMENTUM_METHOD_H_
#define SHOAL_REPLICA_METHODS_MOMENTUM_METHOD_H_

#include "replica/methods/method_entry.h"

namespace shoal::replica {

const MethodEntry& QAdamEntry();
const MethodEntry& OneBitEntry();

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_MOMENTUM_METHOD_H_
