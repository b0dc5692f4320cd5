#include "scheduler/history/run_timeline.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "scheduler/plan/regroup.h"

namespace shoal::scheduler {
namespace {

using Kind = TimelineEntry::Kind;

}  // namespace

void RunTimeline::Add(const TimedEvent& timed) {
  at_ms_ = timed.at_ms;
  std::visit([this](const auto& event) { On(event); }, timed.event);
}

void RunTimeline::On(const RunBegan& event) {
  New(Kind::kBegan);
  if (!run_) run_ = event.run;
}

void RunTimeline::On(const RunFinished& event) { New(Kind::kFinished).step = event.steps; }

TimelineEntry& RunTimeline::New(Kind kind) {
  entries_.push_back({kind, at_ms_});
  return entries_.back();
}

// A generation that was in progress is over, without a word of how.
void RunTimeline::On(const SchedulerStarted&) {
  New(Kind::kScheduler);
  if (std::exchange(running_, false)) checkpoint_at_end_ = checkpoint_;
}

void RunTimeline::On(const RunRestored& event) {
  New(Kind::kRestored).step = event.step;
  running_ = false;
  checkpoint_at_end_ = checkpoint_;
  end_.reset();
  stepped_.reset();
}

void RunTimeline::On(const MemberCame& event) {
  TimelineEntry& entry = New(Kind::kJoined);
  entry.peer = event.peer;
  entry.name = event.name;
  entry.unstored = event.unstored;
  names_[event.peer] = event.name;
}

void RunTimeline::On(const MemberGone& event) {
  TimelineEntry& entry = New(Kind::kLeft);
  entry.peer = event.peer;
  entry.name = event.name;
  entry.text = event.reason;
  entry.unstored = event.unstored;
}

StepsBefore RunTimeline::Before(const PlanMade& event) const {
  if (hosts_.empty() && steps_ == 0) return StepsBefore::kNone;
  if (event.resume_step < steps_) return StepsBefore::kTrainedAgain;
  if (event.resume_step > checkpoint_) return StepsBefore::kKept;
  return checkpoint_ > checkpoint_at_end_ ? StepsBefore::kSaved : StepsBefore::kCheckpointed;
}

std::vector<PositionChange> RunTimeline::Changes(const std::vector<PeerId>& hosts) const {
  std::vector<PositionChange> changes;
  if (stages_ == 0 || hosts_.empty()) return changes;
  const auto at = [](const std::vector<PeerId>& plan, std::size_t i) {
    const bool gap = i >= plan.size() || plan[i] == PeerId{};
    return gap ? std::nullopt : std::optional(plan[i]);
  };
  for (std::size_t i = 0; i < std::max(hosts.size(), hosts_.size()); ++i) {
    const PositionChange change{static_cast<std::uint32_t>(i / stages_),
                                static_cast<std::uint32_t>(i % stages_), at(hosts_, i),
                                at(hosts, i)};
    if (change.from != change.to) changes.push_back(change);
  }
  return changes;
}

void RunTimeline::On(const PlanMade& event) {
  if (running_) checkpoint_at_end_ = checkpoint_;  // an older version did not store its end
  stepless_ = entries_.size();
  TimelineEntry& entry = New(Kind::kRepair);
  entry.step = event.resume_step;
  entry.repair.generation = event.generation;
  entry.repair.pipelines = WholePipelines(event.hosts, stages_);
  entry.repair.steps_before = Before(event);
  entry.repair.steps_lost = steps_ - std::min(steps_, event.resume_step);
  entry.repair.changes = Changes(event.hosts);
  generation_ = event.generation;
  hosts_ = event.hosts;
  steps_ = event.resume_step;
  running_ = true;
  end_.reset();
}

void RunTimeline::On(const PipelinesCount& event) {
  if (event.only_followers()) return;
  TimelineEntry& entry = New(Kind::kCounting);
  entry.step = event.step;
  entry.pipelines = event.pipelines;
  entry.text = event.cause;
}

void RunTimeline::On(const GenerationEnded& event) {
  if (end_) {  // the same end, of which more is known
    entries_[*end_].text = event.cause;
    return;
  }
  end_ = entries_.size();
  TimelineEntry& entry = New(Kind::kEnded);
  entry.step = event.step;
  entry.text = event.cause;
  entry.repair.generation = generation_;
  if (event.idle_ms && at_ms_ && !stepless_) {
    stepped_ = Stepped{*at_ms_ - std::min(*at_ms_, *event.idle_ms), false};
  }
  running_ = false;
  checkpoint_at_end_ = checkpoint_;
}

void RunTimeline::On(const GenerationGoesOn& event) {
  New(Kind::kGoesOn).step = event.step;
  running_ = true;
}

void RunTimeline::FirstStep() {
  Repair& repair = entries_[*stepless_].repair;
  stepless_.reset();
  if (!stepped_ || !stepped_->at_ms || !at_ms_) return;
  repair.seconds_without_step =
      static_cast<double>(*at_ms_ - std::min(*at_ms_, *stepped_->at_ms)) / 1e3;
  repair.at_most = stepped_->at_most;
}

// The first loss of a generation is stored at once. Those that peers still knew after a restart of
// the scheduler come while no generation is in progress: their time says nothing.
void RunTimeline::On(const LossesKnown& event) {
  steps_ = event.first_step + event.losses.size();
  if (!running_ || event.losses.empty()) return;
  if (stepless_) FirstStep();
  stepped_ = Stepped{at_ms_, true};
}

void RunTimeline::On(const StepSkipped& event) {
  TimelineEntry& entry = New(Kind::kSkipped);
  entry.step = event.step;
  entry.text = event.cause;
}

void RunTimeline::On(const CheckpointMade& event) { checkpoint_ = event.step; }

// The same hold is stored again with a cause that says more.
void RunTimeline::On(const RunHeld& event) {
  if (!held_) {
    held_ = entries_.size();
    New(Kind::kPaused);
  }
  entries_[*held_].text = event.reason;
}

void RunTimeline::On(const RunReleased&) {
  held_.reset();
  New(Kind::kResumed);
}

std::string_view StepsBeforeName(StepsBefore steps) {
  switch (steps) {
    case StepsBefore::kNone: return "none";
    case StepsBefore::kCheckpointed: return "checkpointed";
    case StepsBefore::kSaved: return "saved";
    case StepsBefore::kKept: return "kept";
    case StepsBefore::kTrainedAgain: return "trained_again";
  }
  return "unknown";
}

std::string_view TimelineKindName(TimelineEntry::Kind kind) {
  switch (kind) {
    case Kind::kBegan: return "began";
    case Kind::kScheduler: return "scheduler";
    case Kind::kRestored: return "restored";
    case Kind::kJoined: return "joined";
    case Kind::kLeft: return "left";
    case Kind::kRepair: return "generation";
    case Kind::kCounting: return "counting";
    case Kind::kGoesOn: return "continued";
    case Kind::kEnded: return "ended";
    case Kind::kSkipped: return "skipped";
    case Kind::kPaused: return "paused";
    case Kind::kResumed: return "resumed";
    case Kind::kFinished: return "finished";
  }
  return "unknown";
}

RunTimeline MakeTimeline(std::span<const TimedEvent> events, std::uint32_t stages) {
  RunTimeline timeline(stages);
  for (const TimedEvent& timed : events) timeline.Add(timed);
  return timeline;
}

std::map<PeerId, std::string> MemberNames(std::span<const TimedEvent> events) {
  std::map<PeerId, std::string> names;
  for (const TimedEvent& timed : events) {
    if (const auto* const came = std::get_if<MemberCame>(&timed.event)) {
      names[came->peer] = came->name;
    }
  }
  return names;
}

}  // namespace shoal::scheduler
