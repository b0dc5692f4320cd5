// UploadPacer: finds the rate at which our uploads just fill the line, from how long packets take
// and how many arrive. Pure: time and figures are given to it.
//
// TCP fills the queue of a home router until that drops packets, often a fifth of a second of data,
// and everything else that leaves the house waits behind it: our control messages, the neighbours'
// gradients, the volunteer's own calls. Here, as in LEDBAT (RFC 6817), the growth of a packet's
// delay over its minimum is taken as time in that queue, and a small target of it is kept: enough
// that the line never idles, too little to be felt. Where the queue is above the target, the pace
// is what was delivered meanwhile, that is the line's rate, less what empties the queue; where it
// is below, the pace grows slowly, as long as it is what holds us back.
//
// What the line takes is what arrived while the queue was not empty, or more than that where more
// arrived. A sender of short bursts sees no queue, whatever their pace, since a router lets the
// first bytes through: its pace stays near the most that arrived, and says nothing of the line.
//
// The delay is seen twice. The round trip that TCP measures has the other direction's queue, too.
// The time that our pings take one way has not, but what they wait for processors, and our clock's
// drift against the other end's. Neither is below the truth, so the lesser one counts.

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
  // Of the busy connection (bytes under way, some delivered) whose packets waited least, since the
  // line out of the house is common to all: how long they waited, and their shortest round trip.
  // Nullopt: none was busy.
  std::optional<Duration> queue;
  Duration round_trip{};
  // Of all pings that were answered, the least that one waited on its way there (queue_delay.h).
  std::optional<Duration> one_way_queue;
  std::uint64_t delivered_bytes = 0;  // acknowledged by the other ends
  bool limited = false;               // something waited for the pace
  // Of them those that were seen to arrive. The others, uploads that are no links, are an estimate.
  std::uint64_t seen_bytes = 0;
};

// Thread: one at a time.
class UploadPacer {
 public:
  // To be called every 20 to 100 ms. The pace for the time until the next call; 0: none yet, the
  // line was never full.
  BitsPerSecond Update(TimePoint now, const PaceSample& sample);

  BitsPerSecond pace() const { return pace_of(rate_); }
  // What the line was measured to take; 0: it was never full.
  BitsPerSecond line() const { return pace_of(rate_ > 0 ? line_ : 0); }

 private:
  struct Seen {
    TimePoint at;
    std::optional<Duration> queue;
    std::uint64_t delivered_bytes;
    bool limited;
    std::uint64_t seen_bytes;
  };
  static BitsPerSecond pace_of(double bytes_per_second);

  // How long it takes until a change is seen in the samples.
  Duration Lag() const;
  double DeliveredRate(TimePoint now) const;
  double BurstRate() const;
  Duration Target() const;
  void Adjust(TimePoint now);
  void Drain(TimePoint now, Duration queue);
  void Shrink(double delivered, double over, double target);
  void Grow(double delivered, double queue, double target);
  void GrowBetweenBursts(TimePoint now);

  std::deque<Seen> seen_;  // of the last lag
  TimePoint changed_at_{};
  TimePoint emptied_at_{};  // when the queue was last seen empty, or nobody was busy
  TimePoint drained_until_{};
  Duration round_trip_{};
  double rate_ = 0;         // bytes per second; 0: no pace yet
  double delivered_ = 0;    // bytes per second, when it was last looked at
  double line_ = 0;         // what was delivered while the queue was not empty, smoothed
  double known_ = 0;        // what the line took before, as far as nothing spoke against it since
  bool returning_ = false;  // grew towards that since the queue was above the target
  int growths_ = 0;         // in a row
};

}  // namespace shoal::net

#endif  // SHOAL_NET_PACING_UPLOAD_PACER_H_
