// FlowMeter: how fast a transfer is once it flows.

#ifndef SHOAL_NET_BASE_FLOW_METER_H_
#define SHOAL_NET_BASE_FLOW_METER_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/clock.h"

namespace shoal::net {

// Thread: one at a time.
class FlowMeter {
 public:
  // Bytes behind the first piece from which on there is a rate: fewer are in buffers at once.
  static constexpr std::uint64_t kBytesMin = std::uint64_t{4} << 20;

  // A piece of so many bytes is over; times never go back. Returns bits per second since the first
  // piece, which only begins the time; 0: too few to tell.
  double Add(std::uint64_t bytes, TimePoint now) {
    if (!begun_) {
      begun_ = now;
      return 0;
    }
    bytes_ += bytes;
    const double seconds = std::chrono::duration<double>(now - *begun_).count();
    if (bytes_ < kBytesMin || seconds <= 0) return 0;
    return 8.0 * static_cast<double>(bytes_) / seconds;
  }

 private:
  std::optional<TimePoint> begun_;
  std::uint64_t bytes_ = 0;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_BASE_FLOW_METER_H_
