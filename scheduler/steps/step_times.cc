#include "scheduler/steps/step_times.h"

#include <chrono>

namespace shoal::scheduler {

void StepTimes::Add(Duration step, Duration control) {
  const double seconds = std::chrono::duration<double>(step).count();
  seconds_ = seconds_ == 0 ? seconds : 0.7 * seconds_ + 0.3 * seconds;
  control_seconds_ = std::chrono::duration<double>(control).count();
  last_.push_back(seconds);
  if (last_.size() > kKept) last_.pop_front();
}

void StepTimes::Reset() {
  seconds_ = 0;
  last_.clear();
}

}  // namespace shoal::scheduler
