// RunJournal: the run's history, and every change of it as an event to persist.
// Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_RUN_JOURNAL_H_
#define SHOAL_SCHEDULER_SWARM_RUN_JOURNAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/ids.h"
#include "common/status.h"
#include "scheduler/history/attendance.h"
#include "scheduler/history/run_history.h"
#include "scheduler/history/stored_event.h"
#include "scheduler/swarm/reaction.h"

namespace shoal::scheduler {

class RunJournal {
 public:
  // `reaction` gets the events; it outlives the journal.
  RunJournal(std::uint64_t config_hash, Reaction* reaction)
      : reaction_(*reaction), history_(config_hash) {}

  const RunHistory& history() const { return history_; }

  // Makes the change that an event stands for, and stores the event. It must be possible.
  void Record(const StoredEvent& event);
  // Stores an event whose change comes later, or is none.
  void Store(const StoredEvent& event);
  // The next step is applied. Losses are stored several at once, the first of a generation at once,
  // so that the log tells when it came.
  void AddLoss(double loss);
  // The same of a step that changes no weights; `cause` says whose gradient was lost.
  void AddSkipped(double loss, const std::string& cause);
  // Who comes and goes, as far as Attendance stores it; the scheduler is here, with the first
  // event.
  void StoreStart();
  void StoreCame(const PeerId& peer, const std::string& name);
  void StoreGone(const PeerId& peer, const std::string& name, const std::string& reason);
  // Stores the losses that no event holds yet.
  void StoreLosses();
  // Since the newest step; nothing: the newest generation made none.
  std::optional<Duration> idle() const;
  // Replays one stored event, before the first change.
  Result<StoredEvent> Restore(std::string_view event);

 private:
  Reaction& reaction_;
  RunHistory history_;
  Attendance attendance_;
  std::optional<TimePoint> stepped_;  // when the newest generation made its newest step
  TimePoint stored_{};                // when losses were stored last
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_RUN_JOURNAL_H_
