// DelaySwitch: lines with a length. A switch of Ethernet frames that hands each one on after a
// fixed delay, whichever two of its ports it goes between.
//
// It learns from the senders of frames who is behind which port; a frame to everybody, or to
// somebody not heard of yet, leaves by all other ports. Order is kept, and the rate is not limited.
// Pure: time comes from outside, bytes go where the caller says.

#ifndef SHOAL_BENCH_DELAY_SWITCH_H_
#define SHOAL_BENCH_DELAY_SWITCH_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "common/clock.h"

namespace shoal::bench {

class DelaySwitch {
 public:
  // Of Ethernet: 48 bits, the first byte on the wire highest.
  using Address = std::uint64_t;
  // A frame leaves by `port`; `bytes` hold during the call.
  using Send = std::function<void(std::size_t port, std::span<const std::byte> bytes)>;

  // Who is behind which port is remembered for so many; a frame to anybody else leaves by all.
  static constexpr std::size_t kAddressesMax = 4096;
  // What may be under way, all ports together: 400 ms at 20 Gbit/s.
  static constexpr std::uint64_t kBytesMax = 1ull << 30;

  DelaySwitch(std::size_t ports, Duration delay, std::uint64_t bytes_max = kBytesMax)
      : ports_(ports), delay_(delay), bytes_max_(bytes_max) {}

  // A frame came in by `port` at `now`, which never goes back. False: more than bytes_max would be
  // under way, and the frame is dropped.
  bool Enter(std::size_t port, Address from, Address to, std::span<const std::byte> bytes,
             TimePoint now);
  // When Leave has something to send; nothing while no frame is under way.
  std::optional<TimePoint> next() const;
  // Sends what is due.
  void Leave(TimePoint now, const Send& send);

 private:
  struct Frame {
    TimePoint due;
    std::size_t in;
    std::optional<std::size_t> out;  // by all but `in`
    std::size_t size;
    std::unique_ptr<std::byte[]> bytes;
  };

  const std::size_t ports_;
  const Duration delay_;
  const std::uint64_t bytes_max_;
  std::unordered_map<Address, std::size_t> ports_of_;
  std::deque<Frame> frames_;  // by `due`: the delay is the same for all
  std::uint64_t bytes_ = 0;
};

}  // namespace shoal::bench

#endif  // SHOAL_BENCH_DELAY_SWITCH_H_
