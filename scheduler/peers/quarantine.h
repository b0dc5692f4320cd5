// Quarantine: members whose results failed checks again and again. They get no stage for a while,
// longer each time. It follows from the run's events, and so outlives the scheduler's process.
// Pure; thread: control.

#ifndef SHOAL_SCHEDULER_PEERS_QUARANTINE_H_
#define SHOAL_SCHEDULER_PEERS_QUARANTINE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/ids.h"
#include "scheduler/history/stored_event.h"

namespace shoal::scheduler {

inline constexpr Duration kFaultAge = std::chrono::hours(1);            // older ones do not count
inline constexpr Duration kQuarantineFirst = std::chrono::minutes(30);  // then twice as long
inline constexpr Duration kQuarantineMax = std::chrono::hours(24);
inline constexpr Duration kQuarantineForgotten = std::chrono::hours(24);  // after its end

class Quarantine {
 public:
  // Into quarantine go members with so many faults; 0: nobody.
  explicit Quarantine(std::uint32_t faults) : faults_(faults) {}

  // Of a peer that is in quarantine.
  struct Term {
    Duration left{};  // above 0
    FaultKind kind = FaultKind::kWeights;
    std::string cause;         // for people
    std::uint32_t faults = 0;  // that led to it
  };

  // A result of `peer` failed a check. Set: that was one too many, and it is in quarantine from now
  // on, for so long. `cause` is for people.
  std::optional<Duration> Add(const PeerId& peer, FaultKind kind, const std::string& cause,
                              TimePoint now);
  // A stored event, in order, which came at that time. What is no fault, or no pardon, is ignored.
  void Restore(const StoredEvent& event, TimePoint at);
  // None: it is not in quarantine.
  std::optional<Term> TermOf(const PeerId& peer, TimePoint now) const;
  // Who is in quarantine.
  std::map<PeerId, Term> Terms(TimePoint now) const;
  // By order. False: it was not in quarantine.
  bool Release(const PeerId& peer, TimePoint now);

 private:
  struct Entry {
    std::deque<TimePoint> faults;
    std::uint32_t times = 0;  // in quarantine
    TimePoint until{};
    FaultKind kind = FaultKind::kWeights;  // of the last fault
    std::string cause;
    std::uint32_t counted = 0;  // faults that led to the newest quarantine
  };

  Entry& Note(const MemberFault& fault, TimePoint now);
  static void Begin(Entry* entry, Duration lasts, TimePoint now);

  const std::uint32_t faults_;
  std::map<PeerId, Entry> entries_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_PEERS_QUARANTINE_H_
