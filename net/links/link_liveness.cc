#include "net/links/link_liveness.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace shoal::net {
namespace {

using std::chrono::milliseconds;

// While chunks go out, pings measure how long packets wait on their way. Pings go at this interval;
// on a slow line at most one in so many bytes, or in so much time.
constexpr Duration kProbeInterval = milliseconds(25);
constexpr std::uint64_t kProbeBytes = 64 * 1024;
constexpr Duration kProbeIntervalMax = milliseconds(100);
constexpr std::size_t kPingsMax = 32;

}  // namespace

std::uint64_t LinkLiveness::Ping(TimePoint now, std::uint64_t sent_bytes) {
  unanswered_.push_back({++last_id_, now});
  ping_at_ = now;
  sent_bytes_at_ping_ = sent_bytes;
  return last_id_;
}

bool LinkLiveness::Answered(std::uint64_t id, std::uint64_t there_at) {
  while (!unanswered_.empty() && unanswered_.front().id < id) unanswered_.pop_front();
  if (unanswered_.empty() || unanswered_.front().id != id) return false;
  const TimePoint sent = unanswered_.front().at;
  unanswered_.pop_front();
  round_trip_ = heard_at_ - sent;
  const bool first = round_trip_least_ == Duration::zero();
  if (first || round_trip_ < round_trip_least_) round_trip_least_ = round_trip_;
  ++answered_;
  if (there_at != 0) {
    const Duration queue = queue_delay_.Add(heard_at_, sent, there_at);
    queue_least_ = std::min(queue_least_.value_or(queue), queue);
  }
  return answered_ < kFirstPings && unanswered_.empty();
}

bool LinkLiveness::PingDue(TimePoint now, Duration interval) const {
  return unanswered_.empty() && now - ping_at_ >= interval;
}

bool LinkLiveness::ProbeDue(TimePoint now, std::uint64_t sent_bytes) const {
  if (unanswered_.size() >= kPingsMax) return false;
  const Duration elapsed = now - ping_at_;
  return elapsed >= kProbeIntervalMax ||
         (elapsed >= kProbeInterval && sent_bytes - sent_bytes_at_ping_ >= kProbeBytes);
}

bool LinkLiveness::IdleProbeDue(TimePoint now) const {
  return unanswered_.empty() && now - ping_at_ >= kProbeIntervalMax;
}

void LinkLiveness::NewWay() {
  round_trip_least_ = Duration::zero();
  queue_delay_ = {};
  queue_least_.reset();
}

std::optional<Duration> LinkLiveness::TakeQueueLeast() {
  return std::exchange(queue_least_, std::nullopt);
}

void LinkLiveness::AddTo(LinkStats* stats) const {
  stats->rtt_ms = Milliseconds(round_trip_);
  stats->rtt_min_ms = Milliseconds(round_trip_least_);
  stats->pings = answered_;
}

}  // namespace shoal::net
