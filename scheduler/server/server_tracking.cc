// What the server keeps for people who look back: the logs of run.toml's `log_to`, and the history
// on its page.

#include <utility>
#include <vector>

#include "scheduler/door/wall_clock.h"
#include "scheduler/server/server.h"

namespace shoal::scheduler {

Status SchedulerServer::OpenTracker() {
  SHOAL_ASSIGN_OR_RETURN(
      activity_,
      RunActivity::Open(config_.directory, {control_.get(), store_.get(), [] {
                                              return static_cast<std::int64_t>(UnixMilliseconds());
                                            }}));
  if (config_.log_to.empty()) return Status::Ok();
  const RunView view = state_->View(SystemClock().Now());
  auto opened = RunTracker::Open(
      config_.log_to, {config_.run, config_.name, config_.steps, view.step, view.generation},
      {control_.get(), store_.get(), UnixMilliseconds});
  if (!opened.ok()) return opened.status();
  tracker_ = *std::move(opened);
  return Status::Ok();
}

void SchedulerServer::Track(const StepApplied& step) {
  SHOAL_ASSERT_ON(*control_);
  activity_->Applied(step.step, step.loss, step.samples / config_.micro_batch_rows);
  if (!tracker_) return;
  tracker_->Applied(
      {step.step, step.loss,
       LoggedStep::Figures{step.seconds, step.control_seconds, step.samples, step.learning_rate,
                           step.gradient_norm, step.pipelines, step.skipped}});
}

void SchedulerServer::TickTrackers() {
  const auto members = [this] { return Traffic(); };
  if (tracker_) tracker_->Tick(members);
  activity_->Tick(state_->run_state() == RunState::kTraining, members);
}

std::vector<MemberTraffic> SchedulerServer::Traffic() const {
  SHOAL_ASSERT_ON(*control_);
  std::vector<MemberTraffic> traffic;
  for (MemberView& member : state_->View(SystemClock().Now()).members) {
    if (member.connected) traffic.push_back({member.peer, std::move(member.status_json)});
  }
  return traffic;
}

}  // namespace shoal::scheduler
