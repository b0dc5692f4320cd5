#include "scheduler/steps/step_times.h"

#include <chrono>

namespace shoal::scheduler {

namespace {

void Average(double seconds, double* average) {
  *average = *average == 0 ? seconds : 0.7 * *average + 0.3 * seconds;
}

}  // namespace

void StepTimes::Add(Duration step, Duration control) {
  const double seconds = std::chrono::duration<double>(step).count();
  Average(seconds, &seconds_);
  control_seconds_ = std::chrono::duration<double>(control).count();
  last_.push_back(seconds);
  if (last_.size() > kKept) last_.pop_front();
}

void StepTimes::AddReady(Duration elapsed, std::uint32_t micro_batches) {
  if (micro_batches == 0) return;
  Average(std::chrono::duration<double>(elapsed).count() / micro_batches, &micro_batch_seconds_);
}

void StepTimes::Reset() {
  seconds_ = 0;
  last_.clear();
}

}  // namespace shoal::scheduler
