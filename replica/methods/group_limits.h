// Limits of a stage group, the same for every method.

#ifndef SHOAL_REPLICA_METHODS_GROUP_LIMITS_H_
#define SHOAL_REPLICA_METHODS_GROUP_LIMITS_H_

#include <cstdint>

namespace shoal::replica {

// Pipelines of a run, and so members of a stage group: an exchange draws its random numbers by
// pairs of them.
inline constexpr std::uint32_t kPipelinesMax = 64;

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_GROUP_LIMITS_H_
