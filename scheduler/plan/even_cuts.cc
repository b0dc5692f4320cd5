#include "scheduler/plan/even_cuts.h"

#include <algorithm>
#include <utility>

#include "common/status.h"

namespace shoal::scheduler {
namespace {

using Value = std::pair<double, double>;  // largest cost of a stage, sum of squared costs

Value Join(const Value& a, double cost) {
  return {std::max(a.first, cost), a.second + cost * cost};
}

}  // namespace

std::vector<std::uint32_t> EvenCuts(std::uint32_t layers, std::uint32_t stages,
                                    const ChainCosts& costs) {
  SHOAL_CHECK(stages >= 1 && stages <= layers);
  const auto cost = [&](std::uint32_t first, std::uint32_t last) {
    return costs.layer * (last - first) + (first == 0 ? costs.embedding : 0) +
           (last == layers ? costs.head : 0);
  };
  // best[s][n]: the best value of the first n layers in s + 1 stages; from[s][n]: where the last of
  // these begins.
  constexpr Value kNone{1e300, 1e300};
  std::vector<std::vector<Value>> best(stages, std::vector<Value>(layers + 1, kNone));
  std::vector<std::vector<std::uint32_t>> from(stages, std::vector<std::uint32_t>(layers + 1));
  for (std::uint32_t n = 1; n <= layers; ++n) best[0][n] = Join({0, 0}, cost(0, n));
  for (std::uint32_t s = 1; s < stages; ++s) {
    for (std::uint32_t n = s + 1; n <= layers; ++n) {
      for (std::uint32_t first = s; first < n; ++first) {
        const Value value = Join(best[s - 1][first], cost(first, n));
        if (value < best[s][n]) {
          best[s][n] = value;
          from[s][n] = first;
        }
      }
    }
  }
  std::vector<std::uint32_t> cuts = {layers};
  for (std::uint32_t s = stages; s-- > 0;) cuts.push_back(from[s][cuts.back()]);
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace shoal::scheduler
