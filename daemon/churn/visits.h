// Visits: which samples' m a machine has at one side of a boundary, and of which step it is. Both
// ends hold the same m where both say the same step. Thread: one.

#ifndef SHOAL_DAEMON_CHURN_VISITS_H_
#define SHOAL_DAEMON_CHURN_VISITS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shoal::daemon {

class Visits {
 public:
  // Steps applied when it was last written; 0: none.
  std::uint32_t Of(std::uint64_t sample) const {
    return sample < steps_.size() ? steps_[sample] : 0;
  }
  void Set(std::uint64_t sample, std::uint64_t steps_applied) {
    if (sample >= steps_.size()) steps_.resize(sample + 1);
    steps_[sample] = static_cast<std::uint32_t>(steps_applied);
  }
  // What is newer is dropped.
  void BackTo(std::uint64_t steps_applied) {
    for (std::uint32_t& step : steps_) {
      if (step > steps_applied) step = 0;
    }
  }
  void Clear() { steps_.clear(); }

 private:
  std::vector<std::uint32_t> steps_;
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CHURN_VISITS_H_
