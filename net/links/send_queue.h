// SendQueue: the frames that a link still has to send. They are cut into chunks at the moment of
// sending, so that an urgent frame overtakes the rest of a large one.

#ifndef SHOAL_NET_LINKS_SEND_QUEUE_H_
#define SHOAL_NET_LINKS_SEND_QUEUE_H_

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "common/clock.h"
#include "net/links/chunk.h"
#include "net/links/frame.h"

namespace shoal::net {

// 0: most urgent. The same order among the frames of a link and among the links of a peer.
std::size_t PriorityOf(FrameKind kind);

// One message to write: `head`, then `size` bytes of `payload` from `offset`.
struct OutChunk {
  std::string head;
  std::shared_ptr<const Buffer> payload;
  std::size_t offset = 0;
  std::size_t size = 0;
  bool last = false;  // of its frame
  FrameKind kind = FrameKind::kActivation;
  MicroBatchId micro_batch;
  TimePoint queued_at;
  std::uint64_t queue_bytes = 0;  // what it took of the queue's limit

  std::size_t bytes() const { return head.size() + size; }
};

// Gradients, then resend, inventory, evicted, group and received frames, then activations; in order
// of Push among equals. But of gradients, and of activations, the earlier micro-batch overtakes
// what has not begun: the other end computes in this order, and a micro-batch that waited for its m
// would hold up all that left before it. Thread: one at a time.
class SendQueue {
 public:
  SendQueue(std::uint64_t frame_bytes_max, std::uint64_t queue_bytes_max)
      : frame_bytes_max_(frame_bytes_max), queue_bytes_max_(queue_bytes_max) {}

  // Invalid argument: the other end would refuse the frame. Resource exhausted: queue is full.
  Status Push(Frame frame, TimePoint now);
  // The next chunk, with at most `chunk_bytes` of payload; nullopt: nothing to send.
  std::optional<OutChunk> Next(std::size_t chunk_bytes);

  bool empty() const;
  // Not yet taken by Next; a frame without payload counts a little, too.
  std::uint64_t queued_bytes() const { return queued_bytes_; }
  void Clear();

 private:
  struct Item {
    bulk::v1::FrameHeader header;
    std::shared_ptr<const Buffer> payload;
    TimePoint queued_at;
    std::uint64_t id = 0;  // 0: no chunk taken yet
    std::size_t sent = 0;
    std::uint64_t overhead = 0;
  };

  Item* Front();  // the most urgent; null: none

  const std::uint64_t frame_bytes_max_;
  const std::uint64_t queue_bytes_max_;
  std::array<std::deque<Item>, 3> queues_;  // by priority, most urgent first
  std::uint64_t queued_bytes_ = 0;
  std::uint64_t last_id_ = 0;
  std::uint64_t last_sequence_ = 0;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_SEND_QUEUE_H_
