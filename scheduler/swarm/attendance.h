// Attendance: stores who comes and goes, for people who look back: members, and the scheduler
// itself. A member that comes and goes all the time, or many of them, do not fill the log.
// Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_ATTENDANCE_H_
#define SHOAL_SCHEDULER_SWARM_ATTENDANCE_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/clock.h"
#include "common/ids.h"
#include "scheduler/history/stored_event.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/run_journal.h"

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
  // Both outlive it. `reaction` is asked for the time only.
  Attendance(RunJournal* journal, const Reaction& reaction);

  // One stored event, in order.
  void Restored(const StoredEvent& event);
  // The scheduler is here, with whatever event comes first.
  void Begin();
  void Came(const Member& member);
  void Gone(const Member& member, const std::string& reason);

 private:
  bool MayStore(const PeerId& peer);

  RunJournal& journal_;
  const Reaction& reaction_;
  bool restored_ = false, said_ = false;  // said: the newest event already says that it is here
  EventBudget all_;
  std::map<PeerId, EventBudget> of_member_;  // those that are not full
  std::uint64_t unstored_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_ATTENDANCE_H_
