// `marsit`: Adam's directions in signs, over a ring. Internal to replica/methods/. Pure. Thread:
// any.

#ifndef SHOAL_REPLICA_METHODS_MARSIT_METHOD_H_
#define SHOAL_REPLICA_METHODS_MARSIT_METHOD_H_

#include "replica/methods/method_entry.h"

namespace shoal::replica {

const MethodEntry& MarsitEntry();

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_MARSIT_METHOD_H_
