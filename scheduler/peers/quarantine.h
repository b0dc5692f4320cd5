// Quarantine: members whose results failed checks again and again. They get no stage for a while,
// longer each time. It lasts as long as the scheduler's process. Pure; thread: control.

#ifndef SHOAL_SCHEDULER_PEERS_QUARANTINE_H_
#define SHOAL_SCHEDULER_PEERS_QUARANTINE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/ids.h"

namespace shoal::scheduler {

inline constexpr Duration kFaultAge = std::chrono::hours(1);            // older ones do not count
inline constexpr Duration kQuarantineFirst = std::chrono::minutes(30);  // then twice as long
inline constexpr Duration kQuarantineMax = std::chrono::hours(24);
inline constexpr Duration kQuarantineForgotten = std::chrono::hours(24);  // after its end

class Quarantine {
 public:
  // Into quarantine go members with so many faults; 0: nobody.
  explicit Quarantine(std::uint32_t faults) : faults_(faults) {}

  // A result of `peer` failed a check. Set: that was one too many, and it is in quarantine from now
  // on, for so long. `reason` is for people.
  std::optional<Duration> Add(const PeerId& peer, const std::string& reason, TimePoint now);
  // Why it is in quarantine; empty: it is not.
  std::string ReasonOf(const PeerId& peer, TimePoint now) const;
  // By order. False: it was not in quarantine.
  bool Release(const PeerId& peer, TimePoint now);

 private:
  struct Entry {
    std::deque<TimePoint> faults;
    std::uint32_t times = 0;  // in quarantine
    TimePoint until{};
    std::string reason;
  };

  const std::uint32_t faults_;
  std::map<PeerId, Entry> entries_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_PEERS_QUARANTINE_H_
