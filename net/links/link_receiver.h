// LinkReceiver: when a link reads the next message: one at a time, no faster than the download cap,
// and not while the executor has many frames to take. What messages hold is for FrameIntake.

#ifndef SHOAL_NET_LINKS_LINK_RECEIVER_H_
#define SHOAL_NET_LINKS_LINK_RECEIVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "common/clock.h"
#include "net/links/link.h"
#include "net/pacing/cap_wait.h"
#include "net/pacing/rate_limiter.h"

namespace shoal::net {

// Payload of whole frames that wait for the executor; with more, nothing is read.
inline constexpr std::uint64_t kUndeliveredBytesMax = 64ull << 20;

// Thread: one at a time.
class LinkReceiver {
 public:
  explicit LinkReceiver(std::shared_ptr<RateLimiter> download) : download_(std::move(download)) {}

  // Zero: the owner reads a message now. More: the cap wants a wait, after which Waited is to be
  // called. Nullopt: not now, since a message is being read, a wait goes on or the executor lags.
  std::optional<Duration> StartRead() {
    if (reading_ || waiting_ || undelivered_bytes_ > kUndeliveredBytesMax) return std::nullopt;
    const Duration wait = CapWait(download_.get(), download_ticket_);
    waiting_ = wait > Duration::zero();
    reading_ = !waiting_;
    return wait;
  }
  // The wait is over, or the cap has changed. False: nothing waited.
  bool Waited() { return std::exchange(waiting_, false); }
  bool reading() const { return reading_; }

  // The message that was being read is here.
  void Read(std::uint64_t wire_bytes) {
    reading_ = false;
    received_wire_bytes_ += wire_bytes;
    download_ticket_ = download_->Take(wire_bytes).end();
  }
  // A whole frame goes to the executor, and then the executor has taken it.
  void Handed(std::uint64_t payload_bytes) {
    ++received_frames_;
    undelivered_bytes_ += payload_bytes;
  }
  void Taken(std::uint64_t payload_bytes) { undelivered_bytes_ -= payload_bytes; }

  // The stream has gone, and another one follows.
  void Restart() { reading_ = false; }

  // Bytes that came before the link had the stream.
  void CountWire(std::uint64_t bytes) { received_wire_bytes_ += bytes; }
  std::uint64_t received_wire_bytes() const { return received_wire_bytes_; }
  void AddTo(LinkStats* stats) const {
    stats->received_wire_bytes = received_wire_bytes_;
    stats->received_frames = received_frames_;
  }

 private:
  const std::shared_ptr<RateLimiter> download_;
  bool reading_ = false;
  bool waiting_ = false;
  std::uint64_t undelivered_bytes_ = 0;
  RateLimiter::Ticket download_ticket_;
  std::uint64_t received_wire_bytes_ = 0;
  std::uint64_t received_frames_ = 0;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_LINK_RECEIVER_H_
