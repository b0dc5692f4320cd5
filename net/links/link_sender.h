// LinkSender: what a link still has to write, and which message is next: control messages at once,
// chunks of frames when the upload cap lets them go. It writes nothing itself: its owner hands each
// message to the stream, one at a time.

#ifndef SHOAL_NET_LINKS_LINK_SENDER_H_
#define SHOAL_NET_LINKS_LINK_SENDER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/status.h"
#include "net/links/chunk.h"
#include "net/links/link.h"
#include "net/links/send_queue.h"
#include "net/pacing/rate_limiter.h"

namespace shoal::net {

// A peer that pings without reading answers is broken. Ours waits for some of them.
inline constexpr std::size_t kControlQueueMax = 64;

// Thread: one at a time.
class LinkSender {
 public:
  // `stripes_most`: connections of the link of the hub that has most. Links take turns at `upload`,
  // a chunk each, so chunks of one size give all links as much of the line.
  LinkSender(const LinkLimits& limits, std::shared_ptr<RateLimiter> upload,
             std::shared_ptr<const std::atomic<std::size_t>> stripes_most);

  // As SendQueue::Push.
  Status Push(Frame frame, TimePoint now) { return queue_.Push(std::move(frame), now); }
  // False: so many wait (kControlQueueMax) that the other end cannot be reading.
  [[nodiscard]] bool QueueControl(const bulk::v1::ChunkHeader& header);

  bool writing() const { return writing_; }                   // a message is with the stream
  bool waiting() const { return wait_started_.has_value(); }  // a chunk, for the cap

  // The next control message, now with the stream; nullopt: none.
  std::optional<std::string> StartControl(TimePoint now);
  // Takes a chunk from the queue if none is in hand. Zero: StartChunk may follow. More: the chunk
  // waits, and Waited is to be called after so long. Nullopt: there is nothing to send.
  std::optional<Duration> PrepareChunk(TimePoint now);
  // The prepared chunk, now with the stream.
  const OutChunk& StartChunk(TimePoint now);
  // The wait is over, or the cap has changed. False: nothing waited.
  bool Waited(TimePoint now);

  struct SentFrame {
    FrameKind kind;
    MicroBatchId micro_batch;
    double elapsed_ms;  // since Push
  };
  // The stream is done with the message; the frame, if that was its last chunk.
  std::optional<SentFrame> Written(TimePoint now);

  // The stream has gone, and another one follows: forgets control messages, keeps the frames.
  void Restart();
  // The link has ended: forgets all.
  void Clear();

  // Bytes that went past the sender.
  void CountWire(std::uint64_t bytes) { sent_wire_bytes_ += bytes; }
  std::uint64_t sent_wire_bytes() const { return sent_wire_bytes_; }
  double stall_network_ms() const { return stall_network_ms_; }
  // A chunk waited for the cap since this was asked last.
  bool TakeLimited();
  void AddTo(LinkStats* stats) const;

 private:
  std::size_t ChunkBytes() const;

  const std::size_t chunk_bytes_max_;
  const std::shared_ptr<RateLimiter> upload_;
  const std::shared_ptr<const std::atomic<std::size_t>> stripes_most_;

  SendQueue queue_;
  std::deque<std::string> control_;
  std::optional<OutChunk> next_chunk_;     // has its ticket at the limiter
  std::optional<OutChunk> written_chunk_;  // is with the stream
  RateLimiter::Ticket upload_ticket_;      // of next_chunk_
  bool writing_ = false;
  bool limited_ = false;
  std::optional<TimePoint> wait_started_;
  TimePoint write_started_{};
  std::uint64_t sent_wire_bytes_ = 0;
  std::uint64_t sent_frames_ = 0;
  double stall_rate_limit_ms_ = 0;
  double stall_network_ms_ = 0;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_LINK_SENDER_H_
