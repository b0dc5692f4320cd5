#include "net/links/link_sender.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "net/base/wire_bytes.h"
#include "net/pacing/cap_wait.h"

namespace shoal::net {
namespace {

constexpr std::size_t kChunkBytesMin = 16 * 1024;
constexpr double kChunkSeconds = 0.010;

}  // namespace

LinkSender::LinkSender(const LinkLimits& limits, std::shared_ptr<RateLimiter> upload,
                       std::shared_ptr<const std::atomic<std::size_t>> stripes_most)
    : chunk_bytes_max_(limits.chunk_bytes),
      upload_(std::move(upload)),
      stripes_most_(std::move(stripes_most)),
      queue_(limits.frame_bytes_max, limits.queue_bytes_max) {}

bool LinkSender::QueueControl(const bulk::v1::ChunkHeader& header) {
  if (control_.size() >= kControlQueueMax) return false;
  control_.push_back(ChunkHead(header));
  return true;
}

std::optional<std::string> LinkSender::StartControl(TimePoint now) {
  if (control_.empty()) return std::nullopt;
  // Tiny and urgent: they count against the cap, but do not wait for it.
  std::string head = std::move(control_.front());
  control_.pop_front();
  const std::uint64_t wire = WireBytes(head.size());
  upload_->Take(wire, 0);
  sent_wire_bytes_ += wire;
  writing_ = true;
  write_started_ = now;
  return head;
}

std::size_t LinkSender::ChunkBytes() const {
  const BitsPerSecond rate = upload_->rate();
  if (rate.value == 0) return chunk_bytes_max_;
  // A chunk is on one connection, and those after it wait for it at the other end.
  const double wanted =
      rate.bytes_per_second() * kChunkSeconds / static_cast<double>(stripes_most_->load());
  const double bytes = std::min(wanted, static_cast<double>(chunk_bytes_max_));
  return std::max(static_cast<std::size_t>(bytes), std::min(kChunkBytesMin, chunk_bytes_max_));
}

std::optional<Duration> LinkSender::PrepareChunk(TimePoint now) {
  if (!next_chunk_) {
    next_chunk_ = queue_.Next(ChunkBytes());
    if (!next_chunk_) return std::nullopt;
    upload_ticket_ = upload_->Take(WireBytes(next_chunk_->bytes()), PriorityOf(next_chunk_->kind));
  }
  const Duration wait = CapWait(upload_.get(), upload_ticket_);
  if (wait > Duration::zero()) {
    limited_ = true;
    wait_started_ = now;
  }
  return wait;
}

const OutChunk& LinkSender::StartChunk(TimePoint now) {
  written_chunk_ = std::exchange(next_chunk_, std::nullopt);
  sent_wire_bytes_ += WireBytes(written_chunk_->bytes());
  writing_ = true;
  write_started_ = now;
  return *written_chunk_;
}

bool LinkSender::Waited(TimePoint now) {
  const auto started = std::exchange(wait_started_, std::nullopt);
  if (started) stall_rate_limit_ms_ += Milliseconds(now - *started);
  return started.has_value();
}

std::optional<LinkSender::SentFrame> LinkSender::Written(TimePoint now) {
  writing_ = false;
  const auto chunk = std::exchange(written_chunk_, std::nullopt);
  if (!chunk) return std::nullopt;
  stall_network_ms_ += Milliseconds(now - write_started_);
  if (!chunk->last) return std::nullopt;
  ++sent_frames_;
  return SentFrame{chunk->kind, chunk->micro_batch, Milliseconds(now - chunk->queued_at)};
}

void LinkSender::Restart() {
  writing_ = false;
  control_.clear();
}

void LinkSender::Clear() {
  queue_.Clear();
  control_.clear();
  next_chunk_.reset();
  written_chunk_.reset();
}

bool LinkSender::TakeLimited() { return std::exchange(limited_, false) || waiting(); }

void LinkSender::AddTo(LinkStats* stats) const {
  stats->sent_wire_bytes = sent_wire_bytes_;
  stats->sent_frames = sent_frames_;
  stats->stall_rate_limit_ms = stall_rate_limit_ms_;
  stats->stall_network_ms = stall_network_ms_;
  stats->queued_bytes = queue_.queued_bytes();
  if (next_chunk_) stats->queued_bytes += next_chunk_->queue_bytes;
  if (written_chunk_) stats->queued_bytes += written_chunk_->queue_bytes;
}

}  // namespace shoal::net
