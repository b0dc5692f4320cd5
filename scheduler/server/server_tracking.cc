// What the server does for trackers: the logs of run.toml's `log_to`.

#include <utility>
#include <vector>

#include "scheduler/door/wall_clock.h"
#include "scheduler/server/server.h"

namespace shoal::scheduler {

Status SchedulerServer::OpenTracker() {
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
  if (!tracker_) return;
  tracker_->Applied(
      {step.step, step.loss,
       LoggedStep::Figures{step.seconds, step.control_seconds, step.samples, step.learning_rate,
                           step.gradient_norm, step.pipelines, step.skipped}});
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
