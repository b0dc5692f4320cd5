// UploadPacer: finds the rate at which our uploads just fill the line, from the delay and the
// delivery rate of packets. Pure: the caller passes time and figures.
//
// TCP fills the queue of a home router until the router drops packets, often 200 ms of data. All
// other traffic that leaves the house waits in that queue: our control messages, the neighbours'
// gradients, the volunteer's own calls. As in LEDBAT (RFC 6817), a packet's delay above its minimum
// counts as queueing delay. The pacer keeps that delay at a small target: enough that the line
// never idles, too little to be felt. Above the target, the pace is the delivery rate (the line's
// rate) less a part that empties the queue. Below the target, the pace grows slowly while it is the
// limit.
//
// The line's rate is estimated by the delivery rate while the queue is not empty; a higher delivery
// rate raises it. Short bursts see no queue at any pace, since a router passes the first bytes. The
// pace of such a sender stays near its highest delivery rate and tells nothing about the line.
//
// There are two measures of the delay. TCP's round trip contains the queue of the other direction.
// The one-way time of our pings contains waits for processors and the drift of the two clocks. Both
// are upper bounds, so the smaller one counts.

#ifndef SHOAL_NET_PACING_UPLOAD_PACER_H_
#define SHOAL_NET_PACING_UPLOAD_PACER_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "common/clock.h"
#include "common/units.h"

namespace shoal::net {

// What was seen since the sample before, over all connections that the pace is for.
struct PaceSample {
  // How long packets waited, and their shortest round trip. Both are of the busy connection (bytes
  // under way, some delivered) whose packets waited least, since all share the line out of the
  // house. Nullopt: none was busy.
  std::optional<Duration> queue;
  Duration round_trip{};
  // Of all pings that were answered, the least that one waited on its way there (queue_delay.h).
  std::optional<Duration> one_way_queue;
  std::uint64_t delivered_bytes = 0;  // acknowledged by the other ends
  bool limited = false;               // something waited for the pace
  // Of them those that were seen to arrive. The others, uploads that are no links, are an estimate.
  std::uint64_t seen_bytes = 0;
  // From the first of these figures to the last: the thread may have waited for a processor.
  Duration took{};
  bool under_way = false;  // bytes were sent and not yet acknowledged
};

// Thread: one at a time.
class UploadPacer {
 public:
  // To be called every 20 to 100 ms. `now`: when the first of the sample's figures was taken. The
  // pace for the time until the next call; 0: none yet, the line was never full.
  BitsPerSecond Update(TimePoint now, const PaceSample& sample);

  BitsPerSecond pace() const { return pace_of(rate_); }
  // What the line was measured to take; 0: it was never full.
  BitsPerSecond line() const { return pace_of(rate_ > 0 ? line_ : 0); }

 private:
  struct Seen {
    TimePoint from, until;
    std::optional<Duration> queue;
    std::uint64_t delivered_bytes;
    bool limited;
    std::uint64_t seen_bytes;
    bool held;  // bytes were under way, and none was acknowledged
  };
  static BitsPerSecond pace_of(double bytes_per_second);

  // How long it takes until a change is seen in the samples.
  Duration Lag() const;
  double DeliveredRate() const;
  // The most that arrived within a burst, in bytes per second, and what of that the line takes for
  // sure.
  struct Burst {
    double rate = 0, line = 0;
  };
  Burst FastestBurst() const;
  Duration Target() const;
  void Adjust(TimePoint now);
  void Drain(TimePoint now, Duration queue);
  // `steady`: what was delivered both in this lag and in the one before.
  void Shrink(double delivered, double steady, double over, double target);
  void Grow(double delivered, double steady, double queue, double target);
  void GrowBetweenBursts(TimePoint now);

  std::deque<Seen> seen_;  // of the last lag
  TimePoint changed_at_{};
  TimePoint emptied_at_{};  // when the queue was last seen empty, or nobody was busy
  TimePoint drained_until_{};
  Duration round_trip_{};
  double rate_ = 0;       // bytes per second; 0: no pace yet
  double delivered_ = 0;  // bytes per second, when it was last looked at
  TimePoint looked_at_{};
  double line_ = 0;         // what was delivered while the queue was not empty, smoothed
  double known_ = 0;        // what the line took before, as far as nothing spoke against it since
  bool returning_ = false;  // grew towards that since the queue was above the target
  int growths_ = 0;         // in a row
};

}  // namespace shoal::net

#endif  // SHOAL_NET_PACING_UPLOAD_PACER_H_
