#include "collective/lan_groups.h"

#include <algorithm>
#include <map>
#include <string>

namespace shoal::collective {

LanGroups NumberedGroups(std::span<const std::size_t> ids) {
  std::map<std::size_t, std::size_t> numbers;
  LanGroups groups;
  for (const std::size_t id : ids) {
    groups.push_back(numbers.try_emplace(id, numbers.size()).first->second);
  }
  return groups;
}

Result<LanGroups> GroupsByRtt(std::span<const double> rtt, std::size_t members, double limit) {
  if (members == 0 || rtt.size() / members != members || rtt.size() % members != 0) {
    return InvalidArgument("round-trip times of " + std::to_string(members) +
                           " members are as many rows, not " + std::to_string(rtt.size()) +
                           " numbers");
  }
  const auto near = [&](std::size_t i, std::size_t j) {
    const double there = rtt[i * members + j], back = rtt[j * members + i];
    return (there >= 0 && there < limit) || (back >= 0 && back < limit);
  };
  LanGroups ids(members);
  for (std::size_t i = 0; i < members; ++i) {
    ids[i] = i;
    for (std::size_t j = 0; j < i; ++j) {
      const std::size_t joined = ids[j];
      if (near(i, j)) std::replace(ids.begin(), ids.begin() + static_cast<long>(i), joined, i);
    }
  }
  return NumberedGroups(ids);
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
