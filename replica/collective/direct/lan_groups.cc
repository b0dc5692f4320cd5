#include "replica/collective/direct/lan_groups.h"

#include <algorithm>
#include <map>

namespace shoal::collective {

LanGroups NumberedGroups(std::span<const std::size_t> ids) {
  std::map<std::size_t, std::size_t> numbers;
  LanGroups groups;
  for (const std::size_t id : ids) {
    groups.push_back(numbers.try_emplace(id, numbers.size()).first->second);
  }
  return groups;
}

LanGroups GroupsOfPipelines(std::span<const std::size_t> ids, std::size_t ends) {
  // Of LANs first, of members after them.
  const std::size_t most = ids.empty() ? 0 : *std::max_element(ids.begin(), ids.end());
  std::vector<std::size_t> members;
  for (std::size_t end = 0; end < ends; ++end) {
    for (const std::size_t id : ids) {
      const bool alone = std::count(ids.begin(), ids.end(), id) == 1;
      members.push_back(alone ? most + 1 + members.size() : id);
    }
  }
  return NumberedGroups(members);
}

std::vector<std::size_t> LanLeaders(std::span<const std::size_t> groups,
                                    std::span<const std::uint64_t> weights) {
  SHOAL_CHECK(groups.size() == weights.size());
  std::vector<std::size_t> leaders;
  for (std::size_t r = 0; r < groups.size(); ++r) {
    SHOAL_CHECK(groups[r] <= leaders.size());
    if (groups[r] == leaders.size()) leaders.push_back(r);
    std::size_t& leader = leaders[groups[r]];
    if (weights[leader] == 0 && weights[r] != 0) leader = r;
  }
  return leaders;
}

std::vector<ValueRange> HierarchicalShards(std::size_t values, std::span<const std::size_t> groups,
                                           std::span<const std::uint64_t> weights,
                                           std::span<const double> shares, std::size_t row) {
  std::vector<std::uint64_t> leads(weights.size());
  for (const std::size_t leader : LanLeaders(groups, weights)) {
    leads[leader] = weights[leader] != 0 ? 1 : 0;
  }
  return Shards(values, leads, shares, row);
}

}  // namespace shoal::collective
