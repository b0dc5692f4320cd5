// LowWater: the low-water mark of a receiving socket (SO_RCVLOWAT): how many bytes must wait before
// gRPC is woken. Pure: the caller passes time and figures.
//
// On a slow line each packet wakes a thread of gRPC, which hands the next wake to another thread.
// That is most of the CPU time per received gigabyte. So while a frame arrives, gRPC is woken about
// once every kBatch. The last bytes of a frame must not wait for bytes that never come. So the mark
// covers only bytes that the headers of the current frames have announced. The mark, plus what may
// be read until the next look, stays before the end of the last frame. Otherwise the mark is 1.
//
// An urgent message between the chunks of a frame waits until later bytes reach the mark. If these
// do not come, because the sender's line or turn went to others, the mark falls to 1. It falls at
// the second look that finds bytes waiting and none read. So no byte waits longer than 2 * kLook.

#ifndef SHOAL_NET_PACING_LOW_WATER_H_
#define SHOAL_NET_PACING_LOW_WATER_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/clock.h"
#include "net/pacing/socket_tuning.h"

namespace shoal::net {

// Thread: one at a time.
class LowWater {
 public:
  static constexpr Duration kBatch = std::chrono::milliseconds(3);
  static constexpr Duration kLook = std::chrono::milliseconds(4);
  // A sender that is silent for so many looks may have gone; then there are none until the next
  // message.
  static constexpr int kQuietLooks = 60;
  static constexpr std::uint32_t kOff = 1;
  // A few packets: less is not worth a call.
  static constexpr double kBytesMin = 4 * 1024;
  static constexpr double kBytesMax = 256 * 1024;
  // What is known to come counts up to here; the number is the other end's.
  static constexpr std::uint64_t kMoreMax = std::uint64_t{1} << 40;

  // Whether the socket took enough since the last message for one of `bytes` to have come by it.
  bool Took(const ReceiveFigures& figures, std::uint64_t bytes) const {
    return beyond_ + (figures.taken_bytes - message_taken_) >= bytes;
  }
  // A message of `bytes` was read whole, and `more` bytes are known to come; null: what was known
  // before holds.
  void OnMessage(const ReceiveFigures& figures, std::uint64_t bytes,
                 std::optional<std::uint64_t> more);
  // kLook after the last one, or later; while looking() only.
  void OnLook(TimePoint now, const ReceiveFigures& figures);

  // Whether looks are wanted. Before the first look of some: Start.
  bool looking() const { return looking_; }
  void Start(TimePoint now, const ReceiveFigures& figures);

  // What the socket's mark should be now.
  std::uint32_t mark() const { return mark_; }

 private:
  void Decide(const ReceiveFigures& figures);

  // Counted like ReceiveFigures::taken_bytes.
  std::uint64_t message_taken_ = 0;  // when the last message was read
  std::uint64_t beyond_ = 0;         // how much of that may be of later messages
  std::uint64_t until_ = 0;          // bytes before this are known to come
  // Of the last look.
  TimePoint looked_at_{};
  ReceiveFigures looked_;

  double rate_ = 0;  // bytes per second while some come
  bool looking_ = false;
  bool released_ = false;  // something waited for a mark that was not reached
  int quiet_looks_ = 0;    // in a row
  std::uint32_t mark_ = kOff;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_PACING_LOW_WATER_H_
