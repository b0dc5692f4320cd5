#include "scheduler/peers/heartbeat_watch.h"

#include <algorithm>
#include <cmath>

namespace shoal::scheduler {
namespace {

constexpr double kDeviations = 5.6;

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void HeartbeatWatch::OnHeartbeat(TimePoint now) {
  if (last_) gaps_.push_back(Seconds(now - *last_));
  if (gaps_.size() > kGapsKept) gaps_.pop_front();
  last_ = now;
}

Duration HeartbeatWatch::Deadline(Duration least, Duration most) const {
  if (gaps_.size() < kGapsMin) return most;
  const auto count = static_cast<double>(gaps_.size());
  double mean = 0, variance = 0;
  for (const double gap : gaps_) mean += gap / count;
  for (const double gap : gaps_) variance += (gap - mean) * (gap - mean) / count;
  const double longest = *std::ranges::max_element(gaps_);
  const std::chrono::duration<double> usual(
      std::max(mean + kDeviations * std::sqrt(variance), 2 * longest));
  const Duration deadline = std::max(least, std::chrono::duration_cast<Duration>(usual));
  return std::min(deadline, most);
}

}  // namespace shoal::scheduler
