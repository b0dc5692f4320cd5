#include "net/rate_limiter.h"

#include <algorithm>

namespace shoal::net {
namespace {

// How far an idle bucket fills: 20 ms of data, so that a pause never turns into a burst that a
// household notices.
constexpr double kBurstSeconds = 0.020;

}  // namespace

void RateLimiter::Advance() {
  const TimePoint now = clock_->Now();
  const double seconds = std::chrono::duration<double>(now - covered_at_).count();
  covered_at_ = now;
  const double rate = rate_.bytes_per_second();
  const double ceiling = static_cast<double>(taken_) + rate * kBurstSeconds;
  if (rate_.value == 0) {
    covered_ = ceiling;
  } else {
    covered_ = std::min(ceiling, covered_ + rate * std::max(seconds, 0.0));
  }
}

void RateLimiter::SetRate(BitsPerSecond rate) {
  MutexLock lock(mutex_);
  Advance();
  rate_ = rate;
}

BitsPerSecond RateLimiter::rate() const {
  MutexLock lock(mutex_);
  return rate_;
}

RateLimiter::Place RateLimiter::Take(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  Advance();
  const Place place = taken_;
  taken_ += bytes;
  return place;
}

Duration RateLimiter::WaitFor(Place place) {
  MutexLock lock(mutex_);
  Advance();
  const double missing = static_cast<double>(place) - covered_;
  if (rate_.value == 0 || missing <= 0) return Duration::zero();
  return std::chrono::ceil<Duration>(
      std::chrono::duration<double>(missing / rate_.bytes_per_second()));
}

}  // namespace shoal::net
