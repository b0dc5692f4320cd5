#include "replica/state/missing_values.h"

#include <algorithm>
#include <iterator>

namespace shoal::replica {

std::optional<ValueRun> MissingValues::Take(std::size_t most) {
  if (runs_.empty() || most == 0) return std::nullopt;
  const auto [first, values] = *runs_.begin();
  const ValueRun taken{first, std::min(values, most)};
  runs_.erase(runs_.begin());
  if (taken.values < values) runs_.emplace(first + taken.values, values - taken.values);
  count_ -= taken.values;
  return taken;
}

void MissingValues::Add(const ValueRun& run) {
  if (run.values == 0) return;
  count_ += run.values;
  auto at = runs_.emplace(run.first, run.values).first;
  if (at != runs_.begin()) {
    const auto before = std::prev(at);
    if (before->first + before->second == at->first) {
      before->second += at->second;
      runs_.erase(at);
      at = before;
    }
  }
  const auto after = std::next(at);
  if (after != runs_.end() && at->first + at->second == after->first) {
    at->second += after->second;
    runs_.erase(after);
  }
}

}  // namespace shoal::replica
