// TransferRates: how fast a link sends and receives, over the last seconds. Pure.

#ifndef SHOAL_NET_BASE_TRANSFER_RATES_H_
#define SHOAL_NET_BASE_TRANSFER_RATES_H_

#include <chrono>
#include <cstdint>
#include <utility>

#include "common/clock.h"

namespace shoal::net {

// Thread: one at a time.
class TransferRates {
 public:
  void Start(TimePoint now) { at_ = now; }

  // About once a second. `sent`, `received`: bytes since the start, growing.
  void Update(TimePoint now, std::uint64_t sent, std::uint64_t received) {
    const double seconds = std::chrono::duration<double>(now - at_).count();
    if (seconds <= 0) return;
    // Half of the old value: the last two or three seconds count.
    const auto smooth = [seconds](double old, std::uint64_t bytes) {
      return 0.5 * old + 0.5 * static_cast<double>(bytes) * 8.0 / seconds;
    };
    send_bps_ = smooth(send_bps_, sent - std::exchange(sent_, sent));
    receive_bps_ = smooth(receive_bps_, received - std::exchange(received_, received));
    at_ = now;
  }

  void Stop() { send_bps_ = receive_bps_ = 0; }

  double send_bps() const { return send_bps_; }
  double receive_bps() const { return receive_bps_; }

 private:
  TimePoint at_{};
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  double send_bps_ = 0;
  double receive_bps_ = 0;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_BASE_TRANSFER_RATES_H_
