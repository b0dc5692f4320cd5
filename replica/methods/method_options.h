// Options that several replica methods have. Internal to replica/methods/. Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_METHOD_OPTIONS_H_
#define SHOAL_REPLICA_METHODS_METHOD_OPTIONS_H_

#include <any>
#include <string>

#include "common/status.h"
#include "compression/api/codec.h"
#include "replica/methods/replica_method.h"

namespace shoal::replica {

// In decimals, without an exponent.
std::string Decimal(double value);
// The options of a method of this kind; anything else is a bug.
template <typename Options>
const Options& OptionsOf(const ReplicaMethod& method) {
  const auto* const options = std::any_cast<Options>(&method.options);
  SHOAL_CHECK(options != nullptr);
  return *options;
}

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_METHOD_OPTIONS_H_
