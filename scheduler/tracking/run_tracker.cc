#include "scheduler/tracking/run_tracker.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/log.h"
#include "scheduler/config/log_target.h"

namespace shoal::scheduler {

std::vector<Status> RunTracker::Logs::Write(std::vector<LogEntry> entries) {
  std::vector<Status> results;
  for (const auto& log : logs) results.push_back(log->Write(entries));
  return results;
}

Result<std::unique_ptr<RunTracker>> RunTracker::Open(const std::vector<std::string>& targets,
                                                     const Run& run, Parts parts) {
  auto logs = std::make_shared<Logs>();
  const std::uint64_t now_ms = parts.now_ms();
  for (const std::string& text : targets) {
    SHOAL_ASSIGN_OR_RETURN(const LogTarget target, ParseLogTarget(text));
    logs->logs.push_back(std::make_unique<RunLog>(target, now_ms));
  }
  const LogEntry opened = MakeOpenedEntry(run.id, run.name, run.steps, run.step, now_ms);
  for (const Status& status : logs->Write({opened})) {
    if (!status.ok()) return status.WithContext("log_to");
  }
  std::unique_ptr<RunTracker> tracker(new RunTracker(run, std::move(parts), std::move(logs)));
  tracker->view_.targets = targets;
  return tracker;
}

RunTracker::RunTracker(const Run& run, Parts parts, std::shared_ptr<Logs> logs)
    : parts_(std::move(parts)),
      logs_(std::move(logs)),
      failing_(logs_->logs.size()),
      step_(run.step),
      generation_(run.generation) {}

void RunTracker::Applied(const LoggedStep& step) {
  SHOAL_ASSERT_ON(*parts_.control);
  step_ = step.step;
  stepped_ = true;
  Add(MakeStepEntry(step, parts_.now_ms()));
}

void RunTracker::Happened(const TimedEvent& event) {
  SHOAL_ASSERT_ON(*parts_.control);
  const std::uint64_t at_ms = event.at_ms.value_or(parts_.now_ms());
  // Steps that nobody told of: peers went on while no scheduler was there.
  if (const auto* const known = std::get_if<LossesKnown>(&event.event)) {
    for (std::size_t i = 0; i < known->losses.size(); ++i) {
      const std::uint64_t step = known->first_step + i + 1;
      if (step <= step_) continue;
      step_ = step;
      Add(MakeStepEntry({step, known->losses[i], {}}, at_ms));
    }
    return;
  }
  const auto* const plan = std::get_if<PlanMade>(&event.event);
  if (auto entry = MakeEventEntry(event.event, step_, generation_, at_ms)) Add(*std::move(entry));
  if (plan == nullptr) return;
  step_ = plan->resume_step;
  generation_ = plan->generation;
}

void RunTracker::Add(LogEntry entry) {
  if (entries_.size() < kEntriesMax) {
    entries_.push_back(std::move(entry));
  } else {
    ++dropped_;
  }
}

void RunTracker::Tick(const Members& members) {
  SHOAL_ASSERT_ON(*parts_.control);
  const TimePoint now = parts_.control->clock().Now();
  if (writing_ || now - flushed_ < kFlushEvery) return;
  const bool again = std::any_of(failing_.begin(), failing_.end(),
                                 [](const std::string& why) { return !why.empty(); });
  if (entries_.empty() && !again) return;
  flushed_ = now;
  Flush(members);
}

void RunTracker::Stop(const Members& members) {
  SHOAL_ASSERT_ON(*parts_.control);
  Flush(members);
}

void RunTracker::Flush(const Members& members) {
  writing_ = true;
  std::optional<std::vector<MemberTraffic>> traffic;
  if (std::exchange(stepped_, false)) traffic = members();
  if (dropped_ > 0) {
    SHOAL_LOG(kWarning, "scheduler", "log_to.lost", {"entries", dropped_},
              {"reason", "the disk was busy"});
    dropped_ = 0;
  }
  parts_.store->Post("tracker.write", [this, logs = logs_, traffic = std::move(traffic),
                                       entries = std::exchange(entries_, {}), step = step_,
                                       now_ms = parts_.now_ms()]() mutable {
    if (traffic) entries.push_back(MakeTrafficEntry(logs->meter.Look(*traffic), step, now_ms));
    auto results = logs->Write(std::move(entries));
    parts_.control->Post("tracker.written",
                         [this, results = std::move(results)] { Written(results); });
  });
}

void RunTracker::Written(const std::vector<Status>& results) {
  SHOAL_ASSERT_ON(*parts_.control);
  writing_ = false;
  view_.last_failure.clear();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Status& status = results[i];
    const bool failed = !failing_[i].empty();
    failing_[i] = status.message();
    if (!status.ok()) {
      ++view_.failures;
      view_.last_failure = status.message();
    }
    if (!status.ok() && !failed) {
      SHOAL_LOG(kWarning, "scheduler", "log_to.failed", {"error", status.message()});
    } else if (status.ok() && failed) {
      SHOAL_LOG(kInfo, "scheduler", "log_to.works_again", {"log", view_.targets[i]});
    }
  }
}

const TrackerView& RunTracker::view() const {
  SHOAL_ASSERT_ON(*parts_.control);
  return view_;
}

}  // namespace shoal::scheduler
