// Attendance: which comings and goings are stored, for people who look back: of members, and of the
// scheduler itself. A member that comes and goes all the time, or many of them, do not fill the
// log. Thread: one at a time.

#ifndef SHOAL_SCHEDULER_HISTORY_ATTENDANCE_H_
#define SHOAL_SCHEDULER_HISTORY_ATTENDANCE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/clock.h"
#include "common/ids.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/history/stored_event.h"

namespace shoal::scheduler {

// So many events at once, then one in every while. Starts full.
class EventBudget {
 public:
  EventBudget(std::uint32_t most, Duration every) : most_(most), every_(every), left_(most) {}

  bool Any(TimePoint now) const { return Left(now) > 0; }
  bool Full(TimePoint now) const { return Left(now) == most_; }
  // There must be one.
  void Take(TimePoint now);

 private:
  std::uint32_t Left(TimePoint now) const;

  const std::uint32_t most_;
  const Duration every_;
  std::uint32_t left_;
  TimePoint counted_{};  // what came until then is in left_
};

class Attendance {
 public:
  // One stored event, in order.
  void Restored(const StoredEvent& event);

  // What to store; nothing: it is not stored.
  // The scheduler is here, with the first event that others cause, or the first tick.
  std::optional<SchedulerStarted> Begin();
  std::optional<MemberCame> Came(const PeerId& peer, const std::string& name, TimePoint now);
  std::optional<MemberGone> Gone(const PeerId& peer, const std::string& name,
                                 const std::string& reason, TimePoint now);

 private:
  bool MayStore(const PeerId& peer, TimePoint now);

  bool restored_ = false, said_ = false;  // said: the newest event already says that it is here
  EventBudget all_{kAttendanceMax, kAttendanceEvery};
  std::map<PeerId, EventBudget> of_member_;  // those that are not full
  std::uint64_t unstored_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_ATTENDANCE_H_
