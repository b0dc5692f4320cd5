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

  // 0: no limit. Takes effect on what is reserved from then on, and on waits in progress.
  void SetRate(BitsPerSecond rate);
  BitsPerSecond rate() const;

  // Takes `bytes` from the bucket (it may go into debt, so that a chunk larger than the burst
  // passes whole) and returns how long to wait before sending them.
  Duration Reserve(std::uint64_t bytes);

 private:
  const Clock* const clock_;
  mutable Mutex mutex_;
  BitsPerSecond rate_ SHOAL_GUARDED_BY(mutex_);
  TimePoint next_free_ SHOAL_GUARDED_BY(mutex_){};
};

}  // namespace shoal::net

#endif  // SHOAL_NET_RATE_LIMITER_H_
