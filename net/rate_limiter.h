// RateLimiter: a token bucket that many senders share. Pure but for the clock it is given.

#ifndef SHOAL_NET_RATE_LIMITER_H_
#define SHOAL_NET_RATE_LIMITER_H_

#include <cstdint>

#include "common/clock.h"
#include "common/mutex.h"
#include "common/units.h"

namespace shoal::net {

// Thread: any.
class RateLimiter {
 public:
  explicit RateLimiter(const Clock* clock) : clock_(clock) {}

  // 0: no limit. Takes effect on what is taken from then on, and on waits in progress.
  void SetRate(BitsPerSecond rate);
  BitsPerSecond rate() const;

  // Take queues `bytes` (the bucket may go into debt, so that a chunk larger than the burst passes
  // whole) and returns their place; WaitFor tells how long that place still has to wait before it
  // is sent, at the present rate.
  using Place = std::uint64_t;
  Place Take(std::uint64_t bytes);
  Duration WaitFor(Place place);

 private:
  void Advance() SHOAL_REQUIRES(mutex_);

  const Clock* const clock_;
  mutable Mutex mutex_;
  BitsPerSecond rate_ SHOAL_GUARDED_BY(mutex_);
  // Bytes taken since the start, and how many of them the rate has covered up to `covered_at_`;
  // an idle bucket runs ahead of what was taken by at most the burst.
  std::uint64_t taken_ SHOAL_GUARDED_BY(mutex_) = 0;
  double covered_ SHOAL_GUARDED_BY(mutex_) = 0;
  TimePoint covered_at_ SHOAL_GUARDED_BY(mutex_){};
};

}  // namespace shoal::net

#endif  // SHOAL_NET_RATE_LIMITER_H_
