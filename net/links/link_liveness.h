// LinkLiveness: the pings of a link. It knows which are under way, what their answers tell of the
// line, when the next one is due, and whether the other end still lives. Pure: times come from
// outside.

#ifndef SHOAL_NET_LINKS_LINK_LIVENESS_H_
#define SHOAL_NET_LINKS_LINK_LIVENESS_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "common/clock.h"
#include "net/links/link.h"
#include "net/pacing/queue_delay.h"

namespace shoal::net {

// Thread: one at a time.
class LinkLiveness {
 public:
  // A message came, or we listen again after a wait of ours.
  void Heard(TimePoint now) { heard_at_ = now; }
  TimePoint heard_at() const { return heard_at_; }
  // Nothing was heard for longer than `timeout`. Means something only while we listen.
  bool Silent(TimePoint now, Duration timeout) const { return now - heard_at_ > timeout; }

  // A ping goes out; returns its number. `sent_bytes`: what the link sent until now.
  std::uint64_t Ping(TimePoint now, std::uint64_t sent_bytes);
  // The message heard last answers ping `id`. `there_at`: ns of the other end's clock when it read
  // the ping; 0: it did not say. True: send the next of the first pings.
  bool Answered(std::uint64_t id, std::uint64_t there_at);

  // No ping was sent for so long.
  bool PingDue(TimePoint now, Duration interval) const;
  // Chunks go out, and a ping is to measure how long they wait on their way.
  bool ProbeDue(TimePoint now, std::uint64_t sent_bytes) const;
  // Nothing goes out, and somebody wants to know how long packets wait.
  bool IdleProbeDue(TimePoint now) const;

  // Messages go another way from now on: what is usual on it is not known.
  void NewWay();
  // Of all pings on this way; 0: none was answered yet.
  Duration round_trip_least() const { return round_trip_least_; }
  // The least that a ping waited on its way there since this was asked last.
  std::optional<Duration> TakeQueueLeast();
  // The figures of pings.
  void AddTo(LinkStats* stats) const;

 private:
  struct SentPing {
    std::uint64_t id;
    TimePoint at;
  };

  TimePoint heard_at_{};
  std::uint64_t last_id_ = 0;
  std::deque<SentPing> unanswered_;
  TimePoint ping_at_{};  // the last one
  std::uint64_t sent_bytes_at_ping_ = 0;
  std::uint32_t answered_ = 0;
  Duration round_trip_{};
  Duration round_trip_least_{};
  QueueDelay queue_delay_;
  std::optional<Duration> queue_least_;
};

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_LINK_LIVENESS_H_
