#include "pipeline/core/activity.h"

#include <chrono>

namespace shoal::pipeline {
std::string_view ActivityName(Activity activity) {
  switch (activity) {
    case Activity::kForward: return "forward";
    case Activity::kBackwardInput: return "backward_input";
    case Activity::kBackwardWeights: return "backward_weights";
    case Activity::kOptimizer: return "optimizer";
    case Activity::kWaitInput: return "wait_input";
    case Activity::kWaitGradient: return "wait_gradient";
    case Activity::kCodec: return "wait_codec";
    case Activity::kStore: return "wait_store";
    case Activity::kExchange: return "exchange";
    case Activity::kStep: return "wait_step";
  }
  return "unknown";
}

void ActivityAccount::Become(Activity activity) {
  const TimePoint now = clock_->Now();
  if (open_) used_[activity_] += Milliseconds(now - since_);
  open_ = true;
  activity_ = activity;
  since_ = now;
}

void ActivityAccount::Close() {
  used_ = used();
  open_ = false;
}

ActivityTimes ActivityAccount::used() const {
  ActivityTimes used = used_;
  if (open_) used[activity_] += Milliseconds(clock_->Now() - since_);
  return used;
}

}  // namespace shoal::pipeline
