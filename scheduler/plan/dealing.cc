#include "scheduler/plan/dealing.h"

#include <algorithm>

#include "common/status.h"

namespace shoal::scheduler {

std::vector<Dealt> Deal(const Dealing& dealing, std::uint32_t micro_batches) {
  SHOAL_CHECK(!dealing.empty() && !dealing.front().empty());
  std::vector<Dealt> dealt(micro_batches);
  for (std::uint32_t i = 0; i < micro_batches; ++i) {
    dealt[i].pipeline = dealing.front()[i % dealing.front().size()];
  }
  for (std::uint32_t turn = 1; turn < dealing.size(); ++turn) {
    const Pipelines& left = dealing[turn];
    SHOAL_CHECK(!left.empty());
    std::size_t moved = 0;
    for (Dealt& one : dealt) {
      if (std::ranges::binary_search(left, one.pipeline)) continue;
      one = {left[moved++ % left.size()], turn};
    }
  }
  return dealt;
}

std::uint32_t MicroBatchesOf(const Dealing& dealing, std::uint32_t micro_batches,
                             std::uint32_t pipeline) {
  const std::vector<Dealt> dealt = Deal(dealing, micro_batches);
  return static_cast<std::uint32_t>(std::ranges::count(dealt, pipeline, &Dealt::pipeline));
}

}  // namespace shoal::scheduler
