// RateLimiter: a token bucket that many senders share, with priorities. Pure but for the clock it
// is given.

#ifndef SHOAL_NET_PACING_RATE_LIMITER_H_
#define SHOAL_NET_PACING_RATE_LIMITER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/clock.h"
#include "common/mutex.h"
#include "common/units.h"

namespace shoal::net {

// Thread: any.
class RateLimiter {
 public:
  explicit RateLimiter(const Clock* clock) : clock_(clock) {}

  // The user's cap, and the pace that the line was found to take (upload_pacer.h); 0: none. The
  // lower one counts. Takes effect on what is taken from then on, and on waits in progress.
  void SetRate(BitsPerSecond cap);
  void SetPace(BitsPerSecond pace);
  BitsPerSecond cap() const;
  BitsPerSecond pace() const;
  // The one that counts; 0: no limit.
  BitsPerSecond rate() const;

  // Most urgent first; the last for what nobody waits for.
  static constexpr std::size_t kPriorities = 3;

  // A queued transfer. Those that are more urgent go first, also if they are taken later, unless
  // this one has been told to go.
  struct Ticket {
    std::size_t priority = kPriorities - 1;
    std::uint64_t before = 0;  // bytes of the same priority taken before it
    std::uint64_t bytes = 0;

    // Where the next one stands: for what is paid for after it came.
    Ticket end() const { return {priority, before + bytes, 0}; }
  };

  // Take queues `bytes` and returns their ticket. The bucket may go into debt, so that a chunk
  // larger than the burst passes whole. WaitFor tells how long that ticket still waits, at the
  // present rate and with the present queue. A wait up to `tolerance`, not worth a timer, counts as
  // zero. Zero: go; the bytes count as sent.
  Ticket Take(std::uint64_t bytes, std::size_t priority = kPriorities - 1);
  Duration WaitFor(const Ticket& ticket, Duration tolerance = Duration::zero());

  // Bytes queued since the start.
  std::uint64_t taken() const;

 private:
  void Advance() SHOAL_REQUIRES(mutex_);
  BitsPerSecond Lower() const SHOAL_REQUIRES(mutex_);

  const Clock* const clock_;
  mutable Mutex mutex_;
  BitsPerSecond cap_ SHOAL_GUARDED_BY(mutex_);
  BitsPerSecond pace_ SHOAL_GUARDED_BY(mutex_);
  // Bytes taken since the start, and of them those that were told to go; and how many bytes the
  // rate has covered up to `covered_at_`. An idle bucket runs ahead of what was taken by at most
  // the burst.
  std::array<std::uint64_t, kPriorities> taken_ SHOAL_GUARDED_BY(mutex_){};
  std::array<std::uint64_t, kPriorities> gone_ SHOAL_GUARDED_BY(mutex_){};
  double covered_ SHOAL_GUARDED_BY(mutex_) = 0;
  TimePoint covered_at_ SHOAL_GUARDED_BY(mutex_){};
};

}  // namespace shoal::net

#endif  // SHOAL_NET_PACING_RATE_LIMITER_H_
