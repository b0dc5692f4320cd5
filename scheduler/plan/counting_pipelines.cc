#include "scheduler/plan/counting_pipelines.h"

namespace shoal::scheduler {

void CountingPipelines::Left(std::uint64_t first, std::uint64_t end, const Pipelines& pipelines) {
  for (std::uint64_t step = first; step < end; ++step) {
    Dealing dealing = DealingAt(step);
    dealing.push_back(pipelines);
    from_[step] = std::move(dealing);
  }
  From(end, pipelines);
}

}  // namespace shoal::scheduler
