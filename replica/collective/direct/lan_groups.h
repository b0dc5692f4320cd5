// Which members of a stage group are near each other, and who speaks for them.
//
// Pure. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_DIRECT_LAN_GROUPS_H_
#define SHOAL_REPLICA_COLLECTIVE_DIRECT_LAN_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/status.h"
#include "replica/collective/shard_layout.h"

namespace shoal::collective {

// By member: the number of its LAN. Numbers are 0, 1, ... in the order of their first members.
using LanGroups = std::vector<std::size_t>;

// The partition of `ids`, which may be any, with its numbers in order.
LanGroups NumberedGroups(std::span<const std::size_t> ids);
// Of a group with so many members of each pipeline, those of one end after those of another:
// members of pipelines that have the same id are one LAN. Ends of a pipeline whose id no other one
// has share none, since nobody said so.
LanGroups GroupsOfPipelines(std::span<const std::size_t> ids, std::size_t ends);

// By LAN: the first member with a weight, or, where all only listen, the first.
std::vector<std::size_t> LanLeaders(std::span<const std::size_t> groups,
                                    std::span<const std::uint64_t> weights);

// The shard of each member in a round of a hierarchical exchange: as Shards (shard_layout.h) among
// the leaders of LANs with a weight, nothing for the others.
std::vector<ValueRange> HierarchicalShards(std::size_t values, std::span<const std::size_t> groups,
                                           std::span<const std::uint64_t> weights,
                                           std::span<const double> shares, std::size_t row);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_DIRECT_LAN_GROUPS_H_
