// Even cuts: where to cut a chain of equal layers, with a costly head at its end, into stages.
// Pure; thread: any.

#ifndef SHOAL_SCHEDULER_PLAN_EVEN_CUTS_H_
#define SHOAL_SCHEDULER_PLAN_EVEN_CUTS_H_

#include <cstdint>
#include <vector>

namespace shoal::scheduler {

// Any unit, the same for all three.
struct ChainCosts {
  double embedding = 0;  // on the first stage
  double layer = 0;      // each
  double head = 0;       // on the last stage
};

// First layers of all stages and, as the last entry, `layers`. The most expensive stage is as cheap
// as possible, and among those cuts the sum of squared costs is least. 1 <= stages <= layers.
std::vector<std::uint32_t> EvenCuts(std::uint32_t layers, std::uint32_t stages,
                                    const ChainCosts& costs);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_PLAN_EVEN_CUTS_H_
