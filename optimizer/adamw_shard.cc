#include "optimizer/adamw_shard.h"

#include <algorithm>
#include <utility>

#include "common/status.h"

namespace shoal::optimizer {

AdamWShard::AdamWShard(std::size_t first, std::size_t values, std::vector<DecayRun> runs)
    : first_(first),
      values_(values),
      runs_(std::move(runs)),
      weights_(values * sizeof(float)),
      first_moment_(values * sizeof(float)),
      second_moment_(values * sizeof(float)) {
  SHOAL_CHECK(values == 0 || (!runs_.empty() && runs_.front().first <= first));
}

void AdamWShard::Update(const AdamWOptions& options, std::size_t first, std::span<float> values) {
  SHOAL_CHECK(first >= first_ && values.size() <= values_ &&
              first - first_ <= values_ - values.size());
  AdamWOptions undecayed = options;
  undecayed.weight_decay = 0;
  const AdamWStep with_decay = MakeAdamWStep(options), without = MakeAdamWStep(undecayed);
  const std::size_t end = first + values.size();
  auto run = std::upper_bound(runs_.begin(), runs_.end(), first,
                              [](std::size_t at, const DecayRun& r) { return at < r.first; });
  for (std::size_t at = first; at < end; ++run) {
    const std::size_t next = run == runs_.end() ? end : std::min(end, run->first);
    const std::size_t count = next - at, own = at - first_;
    AdamWUpdate(std::prev(run)->decays ? with_decay : without, values.subspan(at - first, count),
                weights().subspan(own, count), first_moment().subspan(own, count),
                second_moment().subspan(own, count));
    at = next;
    if (run == runs_.end()) break;
  }
  std::ranges::copy(weights().subspan(first - first_, values.size()), values.begin());
}

}  // namespace shoal::optimizer
