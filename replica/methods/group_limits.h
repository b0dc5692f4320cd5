// Limits of the groups that exchange gradients.

#ifndef SHOAL_REPLICA_METHODS_GROUP_LIMITS_H_
#define SHOAL_REPLICA_METHODS_GROUP_LIMITS_H_

#include <cstdint>

namespace shoal::replica {

// Pipelines of a run, and so members of a stage group.
inline constexpr std::uint32_t kPipelinesMax = 64;

// How often the micro-batches of a step may be dealt out again, before it begins anew.
inline constexpr std::uint32_t kAmendmentsMax = 7;

// Members of any group: that of a tied embedding has the first and the last stage of each pipeline,
// that of a table which all layers use has all stages.
inline constexpr std::uint32_t kGroupMembersMax = 2 * kPipelinesMax;

// Members of a ring: a message names its contributors by the bits of a 64-bit number.
inline constexpr std::uint32_t kRingMembersMax = 64;

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_METHODS_GROUP_LIMITS_H_
