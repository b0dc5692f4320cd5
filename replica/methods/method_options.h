// Options that several replica methods have. Internal to replica/methods/. Pure. Thread: any.

#ifndef SHOAL_REPLICA_METHODS_METHOD_OPTIONS_H_
#define SHOAL_REPLICA_METHODS_METHOD_OPTIONS_H_

#include <any>
#include <string>

#include "replica/methods/replica_method.h"

namespace shoal::replica {

inline constexpr char kExactCodec[] = "raw:dtype=fp32";

// In decimals, without an exponent.
std::string Decimal(double value);
// The options of a method, or null where the method has options of another type.
template <typename Options>
const Options* OptionsOf(const ReplicaMethod& method) {
  return std::any_cast<Options>(&method.options);
}

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_METHOD_OPTIONS_H_
