#include "scheduler/swarm/lifecycle.h"

#include <utility>
#include <variant>

namespace shoal::scheduler {
namespace {

constexpr const char* kHowToResume = "continue with: shoal swarm resume";
constexpr const char* kStartedAgain = "the scheduler was started again";

}  // namespace

Lifecycle::Lifecycle(const RunConfig& config, RunJournal* journal, const Reaction& reaction,
                     Owner* owner)
    : config_(config),
      journal_(*journal),
      history_(journal->history()),
      reaction_(reaction),
      owner_(*owner) {}

void Lifecycle::Restore(const StoredEvent& event) {
  if (std::holds_alternative<PlanMade>(event)) {
    if (Enter(RunEvent::kInterrupted) && !history_.held()) SetCause(kStartedAgain);
  } else if (const auto* const held = std::get_if<RunHeld>(&event)) {
    Enter(RunEvent::kInterrupted);
    SetCause(held->reason);
  } else if (std::holds_alternative<RunReleased>(event)) {
    SetCause(kStartedAgain);
  } else if (const auto* const restored = std::get_if<RunRestored>(&event)) {
    if (!history_.held()) {
      SetCause("restored from a copy of the checkpoint of step " + std::to_string(restored->step));
    }
  } else if (const auto* const finished = std::get_if<RunFinished>(&event)) {
    // With more steps in run.toml than before, the run goes on from its last checkpoint.
    if (finished->steps >= config_.steps) Enter(RunEvent::kCompleted);
  }
}

bool Lifecycle::EndsWith(std::uint64_t checkpoint_step) const {
  return ending_ && checkpoint_step > ending_->from;
}

bool Lifecycle::MayPlan() const {
  if (state_ != RunState::kWaiting && state_ != RunState::kPaused) return false;
  if (fate_ == StepsFate::kAwaited || fate_ == StepsFate::kBeingSaved) return false;
  if (history_.held() || (!history_.started() && !config_.auto_start)) return false;
  return backoff_.MayPlan(reaction_.now());
}

bool Lifecycle::Enter(RunEvent event) {
  const auto next = NextState(state_, event);
  if (next) state_ = *next;
  return next.has_value();
}

bool Lifecycle::GoOn() {
  if (!Enter(RunEvent::kGoesOn)) return false;
  fate_ = StepsFate::kKept;
  cause_final_ = true;
  return true;
}

bool Lifecycle::Complete() {
  if (!Enter(RunEvent::kCompleted)) return false;
  ending_.reset();
  journal_.Store(RunFinished{history_.checkpoint().step});
  return true;
}

void Lifecycle::EndGeneration(const std::string& cause, const Keep& keep) {
  const bool was_active = active();
  if (!Enter(RunEvent::kInterrupted)) return;
  last_end_ = cause;
  if (was_active) {
    StoreEnd(cause);
    cause_final_ = false;
    fate_ = owner_.KeepSteps(keep);
  }
  SetCauseWithSteps(cause);
  ending_.reset();
  step_ending_.reset();
  if (was_active) owner_.GenerationEnded(cause_);
}

void Lifecycle::StoreEnd(const std::string& cause) {
  journal_.StoreLosses();
  GenerationEnded ended{history_.step(), cause};
  if (const auto idle = journal_.idle()) {
    ended.idle_ms = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(*idle).count());
  }
  journal_.Record(ended);
}

void Lifecycle::SetStepsFate(StepsFate fate, const std::string& trouble) {
  fate_ = fate;
  SetCauseWithSteps(cause_alone_);
  if (!trouble.empty()) cause_ += " (they could not be saved: " + trouble + ")";
  if (history_.held()) journal_.Store(RunHeld{cause_});
}

// Whether it is to try again: an order to pause that came before holds the run.
bool Lifecycle::EndOrHold(const std::string& cause, const Keep& keep) {
  if (!active()) return false;
  const bool ordered = ending_ && ending_->hold;
  EndGeneration(cause, keep);
  if (ordered) Hold(cause + "; a pause was ordered before that: " + kHowToResume);
  return !ordered;
}

void Lifecycle::Interrupt(const std::string& cause, const Keep& keep) {
  if (EndOrHold(cause, keep)) CountFailure(cause);
}

void Lifecycle::InterruptUncounted(const std::string& cause, const Keep& keep) {
  if (EndOrHold(cause, keep)) backoff_.Wait(reaction_.now());
}

void Lifecycle::PlanAgain(const std::string& cause, const Keep& keep) {
  EndGeneration(cause, keep);
  PlanAtOnce();
}

// Where the others go on with what they hold, nothing has failed; nor where a peer goes that has
// not gone before: a run that kills its peers loses them again.
void Lifecycle::EndForLost(const PeerId& peer, const std::string& cause) {
  if (active()) {
    if (!EndOrHold(cause, {})) return;
    if (std::exchange(lost_at_, history_.step()) != history_.step()) lost_.clear();
    const bool again = !lost_.insert(peer).second;
    if (fate_ == StepsFate::kKept) return PlanSoon();
    return again ? CountFailure(cause) : backoff_.Wait(reaction_.now());
  }
  if (state_ != RunState::kPaused || history_.held()) return;
  last_end_ = cause;
  SetCauseWithSteps(cause);
  if (!std::exchange(cause_final_, true)) StoreEnd(cause);
  if (fate_ == StepsFate::kKept) PlanSoon();
}

void Lifecycle::Lost(const PeerId& peer, const std::string& cause) {
  if (!GoesOnWithout(peer, cause)) EndForLost(peer, cause);
}

// Machines that go together are heard of one after the other, and what is left of their pipelines
// may make one.
void Lifecycle::PlanSoon() { backoff_.PlanAt(reaction_.now() + kLostTogether); }

void Lifecycle::Confirm(const std::string& cause) {
  if (active()) return Interrupt(cause);
  if (state_ == RunState::kPaused && !history_.held()) CountFailure(cause);
}

void Lifecycle::CountFailure(const std::string& cause) {
  backoff_.CountFailure(history_.step(), reaction_.now());
  if (!backoff_.exhausted()) return;
  Hold(cause + "; this was interruption " + std::to_string(backoff_.failures()) +
       " in a row without progress, so the run stays paused: mend the cause, then " + kHowToResume);
}

void Lifecycle::Hold(const std::string& cause, const Keep& keep) {
  if (state_ == RunState::kFinished || state_ == RunState::kFailed) return;
  Keep kept = keep;
  kept.until_resumed = true;
  EndGeneration(cause, kept);
  journal_.Record(RunHeld{cause_});
}

void Lifecycle::Fail(const std::string& cause) {
  if (active()) EndGeneration(cause);
  if (Enter(RunEvent::kImpossible)) {
    cause_ = cause + "; correct run.toml and start shoal-scheduler again";
  }
}

void Lifecycle::EndSoon(const std::string& cause, const Keep& keep) {
  if (!ending_) ending_ = Ending{cause, history_.step(), false, keep};
}

void Lifecycle::EndWithStep(const std::string& cause, Why why) {
  if (state_ == RunState::kTraining && !step_ending_) step_ending_ = StepEnding{cause, why};
}

bool Lifecycle::StepDone(bool saved) {
  // A checkpoint that was ordered ends it; so does the run's last step.
  if (!step_ending_ || ending_ || history_.step() >= config_.steps) return false;
  if (saved && !std::exchange(step_ending_->waited, true)) return false;
  const StepEnding ending = *step_ending_;
  std::string before = last_end_;
  PlanAgain(ending.cause);
  // Until all pipelines train, people want to know why not all do.
  if (ending.why == Why::kGrows) last_end_ = std::move(before);
  return true;
}

void Lifecycle::PostponeEnding() {
  if (ending_) ending_->from = history_.step();
}

void Lifecycle::CheckpointWhole(std::uint64_t step) {
  if (!EndsWith(step)) return;
  const std::string cause = ending_->cause;
  EndNow(cause);
}

void Lifecycle::EndNow(const std::string& cause) {
  if (ending_ && ending_->hold) return Hold(cause);
  const Keep keep = ending_ ? ending_->keep : Keep{};
  PlanAgain(cause, keep);
}

void Lifecycle::OrderPause() {
  if (state_ == RunState::kFinished || state_ == RunState::kFailed) return;
  const std::string cause = std::string("paused by the organiser; ") + kHowToResume;
  if (state_ == RunState::kTraining && history_.step() < config_.steps) {
    // The next step ends with a checkpoint, so that no work is lost; a second order joins the
    // first.
    if (ending_ && ending_->hold) return;
    ending_ = Ending{cause, ending_ ? ending_->from : history_.step(), true,
                     ending_ ? ending_->keep : Keep{}};
    journal_.Store(RunHeld{cause});  // survives a restart before that checkpoint is whole
    return;
  }
  Hold(cause);
}

bool Lifecycle::CancelPause() {
  if (!ending_ || !ending_->hold) return false;
  ending_.reset();
  journal_.Record(RunReleased{});
  return true;
}

void Lifecycle::OrderResume() {
  backoff_.Reset(reaction_.now());
  if (!history_.held()) return;
  SetCause("");  // only what the run lacks is left to say
  journal_.Record(RunReleased{});
}

// The cause, and what becomes of the steps that no checkpoint holds.
void Lifecycle::SetCauseWithSteps(const std::string& cause) {
  cause_alone_ = cause_ = cause;
  const auto add = [this](const std::string& text) {
    cause_ += (cause_.empty() ? "" : "; ") + text;
  };
  if (fate_ == StepsFate::kSaved) add("no step is lost");
  if (history_.step() <= history_.checkpoint().step) return;
  const std::uint64_t steps = history_.step() - history_.checkpoint().step;
  const bool one = steps == 1;
  add((one ? "one step" : std::to_string(steps) + " steps") + " since " +
      (history_.checkpoint().step == 0
           ? "the start"
           : "the checkpoint of step " + std::to_string(history_.checkpoint().step)) +
      (one ? " is " : " are "));
  switch (fate_) {
    case StepsFate::kTrainedAgain: cause_ += "trained again"; break;
    case StepsFate::kAwaited:
      cause_ += std::string("kept if peers that hold ") + (one ? "it" : "them") + " come back";
      break;
    case StepsFate::kKept:
      cause_ += "kept: the peers that are here hold ";
      cause_ += one ? "it" : "them";
      break;
    case StepsFate::kBeingSaved:
    case StepsFate::kSaved: cause_ += "being saved by those who are left"; break;
  }
}

}  // namespace shoal::scheduler
