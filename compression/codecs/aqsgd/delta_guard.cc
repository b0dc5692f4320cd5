#include "compression/codecs/aqsgd/delta_guard.h"

namespace shoal::compression {
namespace {

constexpr double kWeight = 1.0 / 16;  // of the newest message

}  // namespace

void DeltaGuard::Observe(const CodingStats& stats) {
  if (!(stats.based > 0)) return;
  const double now = stats.relative_delta();
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
  if (next == mode_) return;
  mode_ = next;
  seen_ = 0;
}

}  // namespace shoal::compression
