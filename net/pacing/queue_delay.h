// QueueDelay: queueing delay of one direction, from time stamps of two unsynchronised clocks. Pure.
//
// As in LEDBAT (RFC 6817): arrival by the receiver's clock minus departure by the sender's clock is
// the delay plus an unknown constant offset. What exceeds the least difference seen is queueing
// delay. Queues of the other direction do not count, unlike in a round trip. Clocks drift by up to
// 100 parts in a million, so the least value grows by that rate with its age. A standing queue of
// other traffic is therefore remembered for long. Our own queue must be empty now and then.

#ifndef SHOAL_NET_PACING_QUEUE_DELAY_H_
#define SHOAL_NET_PACING_QUEUE_DELAY_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/clock.h"

namespace shoal::net {

// Thread: one at a time.
class QueueDelay {
 public:
  static constexpr std::int64_t kDriftShare = 10'000;  // one part in so many
  // No clock that runs since the machine's start shows more: 73 years, ns.
  static constexpr std::int64_t kClockMax = std::int64_t{1} << 61;

  // A message that left at `departed` by our clock came at `arrived` ns by the other end's, which
  // may be any number; `now`: growing. Returns how long it waited.
  Duration Add(TimePoint now, TimePoint departed, std::uint64_t arrived) {
    const std::uint64_t there = std::min(arrived, static_cast<std::uint64_t>(kClockMax));
    const std::int64_t here =
        std::clamp<std::int64_t>(departed.time_since_epoch().count(), 0, kClockMax);
    const std::int64_t delay = static_cast<std::int64_t>(there) - here;
    if (!least_) at_ = now;
    // What is left of the division counts next time.
    const std::int64_t growth = (now - at_).count() / kDriftShare;
    at_ += Duration(growth * kDriftShare);
    least_ = std::min(delay, least_.value_or(delay) + growth);
    return Duration(delay - *least_);
  }

 private:
  std::optional<std::int64_t> least_;  // ns, as of at_
  TimePoint at_{};
};

}  // namespace shoal::net

#endif  // SHOAL_NET_PACING_QUEUE_DELAY_H_
