#include "compression/codecs/aqsgd/delta_guard.h"

#include <algorithm>

namespace shoal::compression {
namespace {

constexpr double kWeight = 1.0 / 16;  // of the newest message

}  // namespace

double DeltaGuard::Change(double median, double p90) { return std::max(median, p90 / 2); }

void DeltaGuard::Observe(const CodingStats& stats) {
  if (stats.changes.tokens() == 0) {
    first_visits_ += stats.values > 0 ? 1 : 0;
    return;
  }
  const double now = Change(stats.changes.median(), stats.changes.p90());
  average_ = average_ == 0 ? now : average_ + kWeight * (now - average_);
  if (++seen_ < kPatience) return;
  DeltaMode next = mode_;
  switch (mode_) {
    case DeltaMode::kDelta:
      if (average_ > kWide) next = DeltaMode::kWideDelta;
      break;
    case DeltaMode::kWideDelta:
      if (average_ > kFull) next = DeltaMode::kFull;
      if (average_ < kWide / 2) next = DeltaMode::kDelta;
      break;
    case DeltaMode::kFull:
      if (average_ < kFull / 2) next = DeltaMode::kWideDelta;
      break;
  }
  if (next == mode_ || (next < mode_ && seen_ < stay_)) return;
  StepTo(next);
}

void DeltaGuard::StepTo(DeltaMode next) {
  if (next > mode_) {
    const std::int64_t epoch = std::max(first_visits_, kStayLeast);
    stay_ = std::min(came_back_ ? std::max(2 * stay_, epoch) : std::max(stay_, epoch), kStayMost);
  }
  came_back_ = next < mode_;
  mode_ = next;
  seen_ = 0;
}

}  // namespace shoal::compression
