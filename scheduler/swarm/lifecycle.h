// Lifecycle: the state of a run and why it is so, what ends a generation, and when the next one may
// begin. The states and moves are those of run_lifecycle.h. Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_LIFECYCLE_H_
#define SHOAL_SCHEDULER_SWARM_LIFECYCLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "scheduler/config/run_config.h"
#include "scheduler/history/failure_backoff.h"
#include "scheduler/history/run_lifecycle.h"
#include "scheduler/history/stored_event.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/run_journal.h"

namespace shoal::scheduler {

class Lifecycle {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // The generation in progress has ended: the run is paused. `reason` is for people.
    virtual void GenerationEnded(const std::string& reason) = 0;
  };
  // Why the generation ends as soon as a checkpoint of more than `from` applied steps is whole, so
  // that no work is lost.
  struct Ending {
    std::string cause;
    std::uint64_t from = 0;
    bool hold = false;  // then wait for an order to resume; else plan again at once
  };

  // All outlive it. `reaction` is asked for the time only.
  Lifecycle(const RunConfig& config, RunJournal* journal, const Reaction& reaction, Owner* owner);
  void Restore(const StoredEvent& event);

  RunState state() const { return state_; }
  bool active() const { return state_ == RunState::kPreparing || state_ == RunState::kTraining; }
  // Why it is paused or failed.
  const std::string& cause() const { return cause_; }
  void SetCause(std::string cause) { cause_ = std::move(cause); }
  const std::optional<Ending>& ending() const { return ending_; }
  // Whether the generation ends with the checkpoint of so many applied steps.
  bool EndsWith(std::uint64_t checkpoint_step) const;

  bool MayPlan() const;
  // The next plan does not wait for what was interrupted before.
  void PlanAtOnce() { backoff_.PlanAtOnce(reaction_.now()); }
  // False: the event has no meaning in this state.
  bool Enter(RunEvent event);
  // Enters the state of a run that has all its steps.
  bool Complete();

  // ---- ends a generation at once; in other states most do nothing
  // And tries again after a while.
  void Interrupt(const std::string& cause);
  // The same on the word of one peer alone: it does not count as a failure.
  void InterruptUncounted(const std::string& cause);
  // And tries again at once.
  void PlanAgain(const std::string& cause);
  // A member of the plan is gone. Between generations only the cause changes: often a neighbour
  // reports its broken link first, and who is gone says more than that.
  void Lost(const std::string& cause);
  // The cause of an uncounted interruption was real: it counts.
  void Confirm(const std::string& cause);
  // And waits for an order to resume.
  void Hold(const std::string& cause);
  // For good.
  void Fail(const std::string& cause);

  // ---- ends a generation with a checkpoint
  // The next checkpoint; an ending that was ordered before stays.
  void EndSoon(const std::string& cause);
  // The checkpoints until now do not count: the one after does.
  void PostponeEnding();
  void CheckpointWhole(std::uint64_t step);
  // One that was to end does so, whatever it waited for.
  void EndNow(const std::string& cause);

  // ---- orders
  void OrderPause();
  // Takes back a pause that waits for its checkpoint, if one does.
  bool CancelPause();
  void OrderResume();

 private:
  void EndGeneration(const std::string& cause);
  bool EndOrHold(const std::string& cause);
  void CountFailure(const std::string& cause);
  std::string StepsUndone() const;

  const RunConfig& config_;
  RunJournal& journal_;
  const RunHistory& history_;
  const Reaction& reaction_;
  Owner& owner_;
  RunState state_ = RunState::kWaiting;
  std::string cause_;
  std::optional<Ending> ending_;
  FailureBackoff backoff_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_LIFECYCLE_H_
