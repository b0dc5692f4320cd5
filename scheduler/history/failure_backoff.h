// FailureBackoff: when a run tries again after an interruption, and when it gives up: interruptions
// in a row without a further step. Thread: one at a time.

#ifndef SHOAL_SCHEDULER_HISTORY_FAILURE_BACKOFF_H_
#define SHOAL_SCHEDULER_HISTORY_FAILURE_BACKOFF_H_

#include <cstdint>

#include "common/clock.h"

namespace shoal::scheduler {

class FailureBackoff {
 public:
  // An interruption after `step` applied steps: the next plan waits, longer each time.
  void CountFailure(std::uint64_t step, TimePoint now);
  // The next plan waits as after a first failure, without counting as one.
  void Wait(TimePoint now);
  void PlanAt(TimePoint time) { not_before_ = time; }
  // Somebody ordered to try again.
  void Reset(TimePoint now);

  bool MayPlan(TimePoint now) const { return now >= not_before_; }
  bool exhausted() const;
  std::uint32_t failures() const { return failures_; }

 private:
  TimePoint not_before_{};
  std::uint32_t failures_ = 0;
  std::uint64_t progress_ = 0;  // most steps applied when a generation ended
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_FAILURE_BACKOFF_H_
