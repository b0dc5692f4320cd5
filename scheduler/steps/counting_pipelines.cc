#include "scheduler/steps/counting_pipelines.h"

#include <algorithm>

namespace shoal::scheduler {

std::uint32_t MicroBatchesOf(const Pipelines& counting, std::uint32_t micro_batches,
                             std::uint32_t pipeline) {
  const auto found = std::ranges::find(counting, pipeline);
  if (found == counting.end()) return 0;
  const auto place = static_cast<std::uint32_t>(found - counting.begin());
  const auto count = static_cast<std::uint32_t>(counting.size());
  return (micro_batches + count - 1 - place) / count;
}

}  // namespace shoal::scheduler
