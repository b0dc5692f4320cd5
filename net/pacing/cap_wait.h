// CapWait: how long a transfer sleeps before it asks its limiter again.

#ifndef SHOAL_NET_PACING_CAP_WAIT_H_
#define SHOAL_NET_PACING_CAP_WAIT_H_

#include <algorithm>
#include <chrono>

#include "common/clock.h"
#include "net/pacing/rate_limiter.h"

namespace shoal::net {

// Waits for a cap are cut into these, so that a change of the cap is felt at once.
inline constexpr Duration kCapWaitSlice = std::chrono::milliseconds(100);
// Shorter waits are not worth a timer; the limiter catches up at the next chunk.
inline constexpr Duration kCapWaitMin = std::chrono::milliseconds(1);

// Zero: go, the bytes of `ticket` count as sent.
inline Duration CapWait(RateLimiter* limiter, const RateLimiter::Ticket& ticket) {
  return std::min(limiter->WaitFor(ticket, kCapWaitMin), kCapWaitSlice);
}

}  // namespace shoal::net

#endif  // SHOAL_NET_PACING_CAP_WAIT_H_
