#include "scheduler/history/failure_backoff.h"

#include <algorithm>

#include "scheduler/config/swarm_limits.h"

namespace shoal::scheduler {

void FailureBackoff::CountFailure(std::uint64_t step, TimePoint now) {
  if (step > progress_) {
    progress_ = step;
    failures_ = 0;
  }
  ++failures_;
  not_before_ = now + std::min(kBackoffMax, kBackoffFirst * (1 << std::min(failures_ - 1, 5u)));
}

void FailureBackoff::Wait(TimePoint now) { not_before_ = now + kBackoffFirst; }

void FailureBackoff::Reset(TimePoint now) {
  failures_ = 0;
  not_before_ = now;
}

bool FailureBackoff::exhausted() const { return failures_ >= kFailuresMax; }

}  // namespace shoal::scheduler
