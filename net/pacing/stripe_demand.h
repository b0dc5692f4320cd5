// StripeDemand: whether a link wants one more connection. Pure.
//
// A loss halves the window of a connection, and on a long line it is back after many seconds only.
// Until then the network takes less than the line could, and the pace (upload_pacer.h), if one is
// known, is not what holds the link back. Where the pace is used up, the line is full, and one
// more connection would only make its queue longer.

#ifndef SHOAL_NET_PACING_STRIPE_DEMAND_H_
#define SHOAL_NET_PACING_STRIPE_DEMAND_H_

#include <cstdint>
#include <utility>

#include "common/clock.h"
#include "common/units.h"

namespace shoal::net {

// Thread: one at a time.
class StripeDemand {
 public:
  void Start(TimePoint now, std::uint64_t taken) {
    at_ = now;
    taken_ = taken;
  }
  // About once a second. `stalled_ms`: that chunks of the link waited for the network, and `taken`:
  // bytes that all uploads together sent, both since the start. `rate`: what limits these uploads;
  // 0: nothing. True: one more; it is asked for again only after further ticks.
  bool Tick(TimePoint now, double stalled_ms, std::uint64_t taken, BitsPerSecond rate) {
    const double seconds = std::chrono::duration<double>(now - std::exchange(at_, now)).count();
    const double stalled = (stalled_ms - std::exchange(stalled_ms_, stalled_ms)) * 1e-3;
    const auto sent = static_cast<double>(taken - std::exchange(taken_, taken));
    const bool room = rate.value == 0 || sent < kRateShare * rate.bytes_per_second() * seconds;
    ticks_ = room && stalled > kStalledShare * seconds ? ticks_ + 1 : 0;
    if (ticks_ < kTicks) return false;
    ticks_ = 0;
    return true;
  }

 private:
  static constexpr double kStalledShare = 0.5;
  static constexpr double kRateShare = 0.9;
  static constexpr int kTicks = 2;

  TimePoint at_{};
  double stalled_ms_ = 0;
  std::uint64_t taken_ = 0;
  int ticks_ = 0;  // in a row
};

}  // namespace shoal::net

#endif  // SHOAL_NET_PACING_STRIPE_DEMAND_H_
