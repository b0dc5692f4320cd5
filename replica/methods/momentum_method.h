// `qadam` and `onebit`: momenta in bits, behind a warm-up. Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_MOMENTUM_METHOD_H_
#define SHOAL_REPLICA_METHODS_MOMENTUM_METHOD_H_

#include <string>

#include "replica/methods/method_entry.h"
#include "replica/methods/warm_up.h"

namespace shoal::replica {

struct MomentumOptions {
  std::string exchange;  // the spec without what follows
  WarmUp warm_up;
  bool refresh = false;  // updates the variance after the warm-up, too, more and more seldom

  std::string Spec() const;
};

// Of a method of this kind; anything else is a bug.
const MomentumOptions& MomentumOptionsOf(const ReplicaMethod& method);

const MethodEntry& QAdamEntry();
const MethodEntry& OneBitEntry();

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_MOMENTUM_METHOD_H_
