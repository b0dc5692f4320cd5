// `average` and `cocktail`: sums of what a codec makes of gradients. Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_AVERAGE_METHOD_H_
#define SHOAL_REPLICA_METHODS_AVERAGE_METHOD_H_

#include "replica/methods/method_entry.h"

namespace shoal::replica {

const MethodEntry& AverageEntry();
const MethodEntry& CocktailEntry();

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_AVERAGE_METHOD_H_
