#include "net/pacing/rate_limiter.h"

#include <algorithm>
#include <numeric>

#include "common/status.h"

namespace shoal::net {
namespace {

// How far an idle bucket fills: 20 ms of data, so that a pause never turns into a burst that a
// household notices.
constexpr double kBurstSeconds = 0.020;

}  // namespace

BitsPerSecond RateLimiter::Lower() const {
  if (cap_.value == 0) return pace_;
  return pace_.value == 0 ? cap_ : std::min(cap_, pace_);
}

void RateLimiter::Advance() {
  const TimePoint now = clock_->Now();
  const double seconds = std::chrono::duration<double>(now - covered_at_).count();
  covered_at_ = now;
  const double rate = Lower().bytes_per_second();
  const auto taken = std::accumulate(taken_.begin(), taken_.end(), std::uint64_t{0});
  const double ceiling = static_cast<double>(taken) + rate * kBurstSeconds;
  if (rate == 0) {
    covered_ = ceiling;
  } else {
    covered_ = std::min(ceiling, covered_ + rate * std::max(seconds, 0.0));
  }
}

void RateLimiter::SetRate(BitsPerSecond cap) {
  MutexLock lock(mutex_);
  Advance();
  cap_ = cap;
}

void RateLimiter::SetPace(BitsPerSecond pace) {
  MutexLock lock(mutex_);
  Advance();
  pace_ = pace;
}

BitsPerSecond RateLimiter::cap() const {
  MutexLock lock(mutex_);
  return cap_;
}

BitsPerSecond RateLimiter::pace() const {
  MutexLock lock(mutex_);
  return pace_;
}

BitsPerSecond RateLimiter::rate() const {
  MutexLock lock(mutex_);
  return Lower();
}

std::uint64_t RateLimiter::taken() const {
  MutexLock lock(mutex_);
  return std::accumulate(taken_.begin(), taken_.end(), std::uint64_t{0});
}

RateLimiter::Ticket RateLimiter::Take(std::uint64_t bytes, std::size_t priority) {
  SHOAL_CHECK(priority < kPriorities);
  MutexLock lock(mutex_);
  Advance();
  const Ticket ticket{priority, taken_[priority], bytes};
  taken_[priority] += bytes;
  return ticket;
}

Duration RateLimiter::WaitFor(const Ticket& ticket, Duration tolerance) {
  MutexLock lock(mutex_);
  Advance();
  // Ahead of it: all that is more urgent, its own kind before it, and what else has gone already.
  std::uint64_t ahead = ticket.before;
  for (std::size_t p = 0; p < kPriorities; ++p) {
    if (p < ticket.priority) ahead += taken_[p];
    if (p > ticket.priority) ahead += gone_[p];
  }
  const double rate = Lower().bytes_per_second();
  const double missing = static_cast<double>(ahead) - covered_;
  if (missing <= std::chrono::duration<double>(tolerance).count() * rate || rate == 0) {
    std::uint64_t& gone = gone_[ticket.priority];
    gone = std::max(gone, ticket.before + ticket.bytes);
    return Duration::zero();
  }
  return std::chrono::ceil<Duration>(std::chrono::duration<double>(missing / rate));
}

}  // namespace shoal::net
