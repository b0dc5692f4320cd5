#include "pipeline/core/time_use.h"

#include <chrono>
#include <numeric>

namespace shoal::pipeline {
namespace {

double Milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

std::string_view UseName(Use use) {
  switch (use) {
    case Use::kForward: return "forward";
    case Use::kBackwardInput: return "backward_input";
    case Use::kBackwardWeights: return "backward_weights";
    case Use::kOptimizer: return "optimizer";
    case Use::kWaitInput: return "wait_input";
    case Use::kWaitGradient: return "wait_gradient";
    case Use::kCodec: return "wait_codec";
    case Use::kStore: return "wait_store";
    case Use::kExchange: return "exchange";
    case Use::kStep: return "wait_step";
  }
  return "unknown";
}

double TimeUse::total() const { return std::accumulate(ms.begin(), ms.end(), 0.0); }

void TimeAccount::Become(Use use) {
  const TimePoint now = clock_->Now();
  if (open_) used_[use_] += Milliseconds(now - since_);
  open_ = true;
  use_ = use;
  since_ = now;
}

void TimeAccount::Close() {
  used_ = used();
  open_ = false;
}

TimeUse TimeAccount::used() const {
  TimeUse used = used_;
  if (open_) used[use_] += Milliseconds(clock_->Now() - since_);
  return used;
}

}  // namespace shoal::pipeline
