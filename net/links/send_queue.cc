#include "net/links/send_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace shoal::net {
namespace {

constexpr std::uint64_t kFrameOverhead = 64;
constexpr std::uint64_t kSampleOverhead = 40;

bool InOrderOfUse(FrameKind kind) {
  return kind == FrameKind::kActivation || kind == FrameKind::kGradient;
}

// Whether the other end needs what `a` carries before what `b` carries.
bool NeededBefore(const bulk::v1::FrameHeader& a, const bulk::v1::FrameHeader& b) {
  return std::pair(a.step(), a.micro_batch()) < std::pair(b.step(), b.micro_batch());
}

}  // namespace

std::size_t PriorityOf(FrameKind kind) {
  switch (kind) {
    case FrameKind::kGradient:
    case FrameKind::kState: return 0;  // behind the end of its step it is of no use
    case FrameKind::kResend:
    case FrameKind::kInventory:
    case FrameKind::kGroup:
    case FrameKind::kEvicted:
    case FrameKind::kReceived: return 1;
    case FrameKind::kActivation:
    case FrameKind::kEvaluation:
    case FrameKind::kSpotCheck: return 2;
  }
  return 2;
}

Status SendQueue::Push(Frame frame, TimePoint now) {
  Item item;
  item.overhead = kFrameOverhead + kSampleOverhead * frame.samples.size();
  const std::uint64_t bytes = item.overhead + frame.payload.size();
  if (bytes > queue_bytes_max_ - std::min(queued_bytes_, queue_bytes_max_)) {
    return ResourceExhausted("the send queue is full (" + std::to_string(queued_bytes_) +
                             " bytes); the other end does not read fast enough");
  }
  item.header = FrameHeaderOf(frame);
  SHOAL_RETURN_IF_ERROR(CheckFrameHeader(item.header, frame_bytes_max_));
  item.payload = std::make_shared<const Buffer>(std::move(frame.payload));
  item.queued_at = now;
  queued_bytes_ += bytes;
  std::deque<Item>& queue = queues_[PriorityOf(frame.kind)];
  auto at = queue.end();
  if (InOrderOfUse(frame.kind)) {
    const auto yields = [&](const Item& before) {
      return before.id == 0 && before.header.kind() == item.header.kind() &&
             NeededBefore(item.header, before.header);
    };
    while (at != queue.begin() && yields(*std::prev(at))) --at;
  }
  queue.insert(at, std::move(item));
  return Status::Ok();
}

SendQueue::Item* SendQueue::Front() {
  const auto queue = std::find_if(queues_.begin(), queues_.end(),
                                  [](const std::deque<Item>& items) { return !items.empty(); });
  return queue == queues_.end() ? nullptr : &queue->front();
}

std::optional<OutChunk> SendQueue::Next(std::size_t chunk_bytes) {
  Item* const front = Front();
  if (front == nullptr) return std::nullopt;
  Item& item = *front;
  const std::size_t total = item.payload->size();

  OutChunk chunk;
  bulk::v1::ChunkHeader header;
  if (item.id == 0) {
    item.id = ++last_id_;
    chunk.queue_bytes = item.overhead;
    *header.mutable_header() = item.header;
  }
  header.set_frame(item.id);
  header.set_offset(item.sent);
  header.set_sequence(++last_sequence_);
  chunk.payload = item.payload;
  chunk.offset = item.sent;
  chunk.size = std::min({chunk_bytes, kChunkPayloadBytesMax, total - item.sent});
  chunk.kind = static_cast<FrameKind>(item.header.kind());
  chunk.micro_batch = {item.header.step(), item.header.micro_batch()};
  chunk.queued_at = item.queued_at;
  chunk.queue_bytes += chunk.size;
  queued_bytes_ -= chunk.queue_bytes;
  item.sent += chunk.size;
  chunk.last = item.sent == total;
  if (chunk.last) {
    queues_[PriorityOf(chunk.kind)].pop_front();
    const Item* const next = Front();
    header.set_next(next != nullptr ? next->payload->size() - next->sent : 0);
  }
  chunk.head = ChunkHead(header);
  return chunk;
}

bool SendQueue::empty() const {
  return std::all_of(queues_.begin(), queues_.end(),
                     [](const std::deque<Item>& items) { return items.empty(); });
}

void SendQueue::Clear() {
  for (auto& queue : queues_) queue.clear();
  queued_bytes_ = 0;
}

}  // namespace shoal::net
