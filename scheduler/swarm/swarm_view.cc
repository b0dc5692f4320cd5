// What a run shows of itself: its reasons in words, and everything for the status.

#include <algorithm>
#include <utility>

#include "common/units.h"
#include "scheduler/steps/plausibility.h"
#include "scheduler/swarm/swarm_state_impl.h"

namespace shoal::scheduler {
namespace {

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

std::string SwarmStateImpl::WaitingFor() const {
  if (std::string lost = artefacts_.LostText(); !lost.empty()) return lost;
  const std::size_t here = members_.candidates();
  if (here >= plan_.needed() && plan_.too_little_memory()) {
    std::string text =
        "the peers that are here have too little memory for all positions: parameters "
        "and optimizer of a stage need";
    for (std::size_t s = 0; s < config_.stage_bytes.size(); ++s) {
      text += (s == 0 ? " " : ", ") + FormatBytes(config_.stage_bytes[s]);
    }
    return text +
           "; waiting for a peer with more, or take more stages or [replica] method = "
           "\"qsdp\"";
  }
  if (here >= plan_.needed()) return "it continues in a moment";
  std::string text = "waiting for " + std::to_string(plan_.needed() - here) +
                     (plan_.needed() - here == 1 ? " more peer (" : " more peers (") +
                     std::to_string(here) + " of " + std::to_string(plan_.needed()) + " are here)";
  constexpr int kNamed = 4;
  int named = 0;
  for (const Member* member : plan_.Hosts()) {
    if (member->connected && member->wants_stage) continue;
    if (++named > kNamed) continue;
    text += (named == 1 ? ", missing: " : ", ") + member->LabelWithPosition();
  }
  return text;
}

std::string SwarmStateImpl::Reason() const {
  switch (lifecycle_.state()) {
    case RunState::kWaiting:
      if (members_.candidates() >= plan_.needed() && !history_.started() && !config_.auto_start) {
        return "enough peers are here (" + std::to_string(members_.candidates()) +
               "); start the run with: shoal swarm start";
      }
      return WaitingFor();
    case RunState::kPreparing:
      return std::to_string(plan_.ready()) + " of " + std::to_string(plan_.needed()) +
             " peers have their layers and links";
    case RunState::kTraining:
      if (!lifecycle_.ending() && !uploads_.WhoCannotSave().empty())
        return uploads_.WhoCannotSave();
      if (!lifecycle_.ending())
        return faults_.doubt() ? faults_.doubt()->cause + "; the run goes on" : Warning();
      return (lifecycle_.ending()->hold ? "pausing" : lifecycle_.ending()->cause + ",") +
             std::string(" as soon as the next checkpoint is whole") +
             (uploads_.WhoCannotSave().empty() ? "" : "; " + uploads_.WhoCannotSave());
    case RunState::kPaused:
      return history_.held() ? lifecycle_.cause() : lifecycle_.cause() + "; " + WaitingFor();
    case RunState::kFailed: return lifecycle_.cause();
    case RunState::kFinished: return "";
  }
  return "";
}

std::string SwarmStateImpl::Warning() const {
  return config_.without_weights ? "" : FlatLossText(history_.losses());
}

control::v1::RunStatus SwarmStateImpl::StatusMessage() const {
  control::v1::RunStatus status;
  status.set_state(std::string(RunStateName(lifecycle_.state())));
  status.set_reason(Reason());
  status.set_step(history_.step());
  status.set_steps(config_.steps);
  status.set_loss(history_.losses().empty() ? 0 : history_.losses().back());
  status.set_peers(static_cast<std::uint32_t>(members_.connected()));
  status.set_peers_needed(plan_.needed());
  return status;
}

void SwarmStateImpl::ShowStatus(bool even_if_equal) {
  const control::v1::RunStatus status = StatusMessage();
  if (!even_if_equal && status.SerializeAsString() == shown_.SerializeAsString()) return;
  shown_ = status;
  control::v1::SchedulerMessage message;
  *message.mutable_run_status() = status;
  for (const auto& [peer, member] : members_.all()) {
    if (member.connected) reaction_.Send(member, message);
  }
}

RunView SwarmStateImpl::View(TimePoint now) const {
  RunView view;
  view.state = lifecycle_.state();
  view.reason = Reason();
  view.generation = history_.generation();
  view.step = history_.step();
  view.steps = config_.steps;
  view.checkpoint_step = history_.checkpoint().step;
  view.losses = history_.losses();
  view.loss = history_.losses().empty() ? 0 : history_.losses().back();
  view.step_seconds = steps_.times().seconds();
  view.last_step_seconds = steps_.times().last();
  view.seconds_in_control = steps_.times().control_seconds();
  if (view.step_seconds > 0) {
    view.samples_per_second =
        static_cast<double>(config_.micro_batches) * config_.micro_batch_rows / view.step_seconds;
  }
  for (const auto& [peer, member] : members_.all()) {
    MemberView shown;
    shown.peer = peer;
    shown.name = member.name;
    shown.device = member.device;
    shown.address = member.address;
    shown.state = member.connected ? member.state : "away";
    shown.connected = member.connected;
    shown.wants_stage = member.wants_stage;
    shown.pipeline = member.pipeline;
    shown.stage = member.stage;
    shown.last_heard_s = std::max(0.0, Seconds(now - member.last_heard));
    shown.status_json = member.status_json;
    view.members.push_back(std::move(shown));
  }
  view.m_checks = applied_.counts().m_checks();
  view.m_mismatches = applied_.counts().m_mismatches();
  view.weight_checks = applied_.counts().weight_checks();
  view.weight_mismatches = applied_.counts().weight_mismatches();
  view.last_difference = applied_.last_difference();
  view.refused_values = steps_.values().refused();
  view.last_refused = steps_.values().last_refused();
  view.warning = Warning();
  view.timings = steps_.timings();
  view.lans = plan_.lans().stages;
  return view;
}

}  // namespace shoal::scheduler
