// HeartbeatWatch: after how long a silence a peer is taken for lost, by how regularly its
// heartbeats came so far.
//
// Gaps are taken for normally distributed, as by the phi accrual failure detector (Hayashibara et
// al., SRDS 2004, section 4): the deadline is their mean and 5.6 standard deviations. Lines at home
// have longer tails than that, so it is at least twice the longest gap, too.
// A peer whose machine or line makes it irregular is waited for longer, at most a given time; so is
// one of which little is known. Thread: one at a time.

#ifndef SHOAL_SCHEDULER_PEERS_HEARTBEAT_WATCH_H_
#define SHOAL_SCHEDULER_PEERS_HEARTBEAT_WATCH_H_

#include <cstddef>
#include <deque>
#include <optional>

#include "common/clock.h"

namespace shoal::scheduler {

class HeartbeatWatch {
 public:
  static constexpr std::size_t kGapsMin = 8;  // before that the most is waited
  static constexpr std::size_t kGapsKept = 256;

  void OnHeartbeat(TimePoint now);
  // At least `least`, and `most` at most.
  Duration Deadline(Duration least, Duration most) const;

 private:
  std::optional<TimePoint> last_;
  std::deque<double> gaps_;  // seconds, the newest last
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_PEERS_HEARTBEAT_WATCH_H_
