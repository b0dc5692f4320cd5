// Lifecycle: the state of a run and why it is so, what ends a generation, and when the next one may
// begin. The states and moves are those of run_lifecycle.h. Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_LIFECYCLE_H_
#define SHOAL_SCHEDULER_SWARM_LIFECYCLE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/ids.h"
#include "scheduler/config/run_config.h"
#include "scheduler/history/failure_backoff.h"
#include "scheduler/history/run_lifecycle.h"
#include "scheduler/history/stored_event.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/run_journal.h"

namespace shoal::scheduler {

// Which of the weights that members of an ended generation hold may be saved.
struct Keep {
  bool steps = true;                   // false: all are in doubt
  std::optional<PeerId> without = {};  // whose are
  bool until_resumed = false;          // the run is held, until the organiser resumes it
};

// What becomes of the steps of an ended generation that no checkpoint has.
enum class StepsFate : std::uint8_t {
  kTrainedAgain,
  kAwaited,     // by peers that may come back and still hold them; nothing is planned meanwhile
  kKept,        // all members hold them
  kBeingSaved,  // nothing is planned meanwhile
  kSaved,
};

class Lifecycle {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // The generation in progress has ended: what becomes of its steps. SetStepsFate may follow.
    virtual StepsFate KeepSteps(const Keep& keep) = 0;
    // A member of the running step is lost, or cannot go on. True: the others go on with the step,
    // so that nothing ends now. EndForLost may follow.
    virtual bool GoOnWithout(const PeerId& peer, const std::string& cause) {
      return static_cast<void>(peer), static_cast<void>(cause), false;
    }
    // A member of the running step cannot go on with it, whoever is left out; `halted`: it can if
    // its pipeline is broken. True: that goes into what is being decided of others.
    virtual bool CannotGoOn(const PeerId& peer, bool halted) {
      return static_cast<void>(peer), static_cast<void>(halted), false;
    }
    // Whether they would.
    virtual bool MayGoOnWithout(const PeerId& peer) const { return static_cast<void>(peer), false; }
    // The generation in progress has ended: the run is paused. `reason` is for people.
    virtual void GenerationEnded(const std::string& reason) = 0;
  };
  // Why the generation ends as soon as a checkpoint of more than `from` applied steps is whole, so
  // that no work is lost.
  struct Ending {
    std::string cause;
    std::uint64_t from = 0;
    bool hold = false;  // then wait for an order to resume; else plan again at once
    Keep keep = {};
  };

  // All outlive it. `reaction` is asked for the time only.
  Lifecycle(const RunConfig& config, RunJournal* journal, const Reaction& reaction, Owner* owner);
  void Restore(const StoredEvent& event);

  RunState state() const { return state_; }
  bool active() const { return state_ == RunState::kPreparing || state_ == RunState::kTraining; }
  // Why it is paused or failed.
  const std::string& cause() const { return cause_; }
  // Why the last generation ended that did not end so that more pipelines train; empty: there was
  // none.
  const std::string& last_end() const { return last_end_; }
  void SetCause(const std::string& cause) { last_end_ = cause_alone_ = cause_ = cause; }
  const std::optional<Ending>& ending() const { return ending_; }
  // What becomes of the last generation's steps.
  StepsFate fate() const { return fate_; }
  // Whether the generation ends with the checkpoint of so many applied steps.
  bool EndsWith(std::uint64_t checkpoint_step) const;

  bool MayPlan() const;
  // The next plan does not wait for the time after an interruption.
  void PlanAtOnce() { backoff_.PlanAt(reaction_.now()); }
  // False: the event has no meaning in this state.
  bool Enter(RunEvent event);
  // The generation in progress before a restart of the scheduler has not ended. False: no restart
  // was, or the run is not paused by it.
  bool GoOn();
  // The run has all its steps. False: it had them before.
  bool Complete();

  // ---- the generation in progress ends at once
  // The run tries again after a while. Without progress it is held at last.
  void Interrupt(const std::string& cause, const Keep& keep = {});
  // The same on the word of one peer alone: it does not count as a failure.
  void InterruptUncounted(const std::string& cause, const Keep& keep = {});
  // The cause of an uncounted interruption is confirmed: it counts.
  void Confirm(const std::string& cause);
  // A member of the plan is gone. Between generations this changes only the cause: often a
  // neighbour reports its broken link first, and who is gone says more than that. In a step the
  // others may go on without it.
  void Lost(const PeerId& peer, const std::string& cause);
  // The same where they cannot.
  void EndForLost(const PeerId& peer, const std::string& cause);
  // Whether those who do not need a member go on with the step. Then nothing has ended.
  bool GoesOnWithout(const PeerId& peer, const std::string& cause) {
    return state_ == RunState::kTraining && owner_.GoOnWithout(peer, cause);
  }
  bool CannotGoOn(const PeerId& peer, bool halted) {
    return active() && owner_.CannotGoOn(peer, halted);
  }
  bool MayGoOnWithout(const PeerId& peer) const {
    return state_ == RunState::kTraining && owner_.MayGoOnWithout(peer);
  }
  // The run tries again at once.
  void PlanAgain(const std::string& cause, const Keep& keep = {});
  // The run waits for an order to resume.
  void Hold(const std::string& cause, const Keep& keep = {});
  // The run ends for good.
  void Fail(const std::string& cause);

  // `trouble`: why they could not be saved; empty: nobody tried.
  void SetStepsFate(StepsFate fate, const std::string& trouble);

  // ---- the generation in progress ends with a checkpoint
  // Of more steps than now. An ending that was ordered before stays.
  void EndSoon(const std::string& cause, const Keep& keep = {});
  // The checkpoint that was to end it cannot: the next one does.
  void PostponeEnding();
  // May be the one that ends it.
  void CheckpointWhole(std::uint64_t step);
  // Ends it without its checkpoint.
  void EndNow(const std::string& cause);

  // ---- the generation in progress ends with a step, which its members keep
  // With the next one, or with the one after where that is saved: saving goes on beside steps. An
  // order that came before stays.
  enum class Why : std::uint8_t { kGrows, kOther };  // kGrows: more pipelines train then
  void EndWithStep(const std::string& cause, Why why = Why::kOther);
  // Takes back an order because more pipelines train then.
  void DropGrowth() {
    if (step_ending_ && step_ending_->why == Why::kGrows) step_ending_.reset();
  }
  // A step is applied. True: the generation has ended with it.
  bool StepDone(bool saved);

  // ---- orders
  void OrderPause();
  // Takes back a pause that waits for its checkpoint, if one does.
  bool CancelPause();
  void OrderResume();

 private:
  void EndGeneration(const std::string& cause, const Keep& keep = {});
  bool EndOrHold(const std::string& cause, const Keep& keep);
  void SetCauseWithSteps(const std::string& cause);
  void CountFailure(const std::string& cause);
  void PlanSoon();
  void StoreEnd(const std::string& cause);

  const RunConfig& config_;
  RunJournal& journal_;
  const RunHistory& history_;
  const Reaction& reaction_;
  Owner& owner_;
  RunState state_ = RunState::kWaiting;
  std::string cause_;
  std::string cause_alone_;  // without what became of the steps
  std::string last_end_;
  StepsFate fate_ = StepsFate::kTrainedAgain;  // of the last generation's steps
  bool cause_final_ = true;                    // as it is stored
  std::optional<Ending> ending_;
  struct StepEnding {
    std::string cause;
    Why why = Why::kOther;
    bool waited = false;  // for one that was saved
  };
  std::optional<StepEnding> step_ending_;
  FailureBackoff backoff_;
  std::set<PeerId> lost_;      // since the newest step
  std::uint64_t lost_at_ = 0;  // applied ones then
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_LIFECYCLE_H_
