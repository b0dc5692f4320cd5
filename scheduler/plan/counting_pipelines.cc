#include "scheduler/plan/counting_pipelines.h"

#include <algorithm>
#include <iterator>

namespace shoal::scheduler {

bool CountingPipelines::Left(std::uint64_t first, std::uint64_t end, const Pipelines& pipelines) {
  // From the last one on: what is said of a step holds for those behind it.
  for (std::uint64_t step = end; step-- > first;) {
    Turns turns = TurnsAt(step);
    Pipelines left;
    std::ranges::set_intersection(turns.back(), pipelines, std::back_inserter(left));
    if (left.empty()) return false;
    turns.push_back(std::move(left));
    from_[step] = std::move(turns);
  }
  From(end, pipelines);
  return true;
}

}  // namespace shoal::scheduler
