// What peers say.

#include <algorithm>

#include "scheduler/swarm/swarm_state_impl.h"

namespace shoal::scheduler {
namespace {

// A silent peer is found dead after peer_timeout; it shall speak several times within that.
std::uint32_t HeartbeatMs(Duration peer_timeout) {
  const auto third = std::chrono::duration_cast<std::chrono::milliseconds>(peer_timeout / 3);
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(third.count(), 50, 2000));
}

}  // namespace

void SwarmStateImpl::OnHello(ConnectionId connection, const control::v1::Hello& hello) {
  const Member* const member = membership_.Admit(connection, hello);
  if (member == nullptr) return;
  Welcome(*member);
  if (lifecycle_.active() && member->placed() && !member->wants_stage) {
    lifecycle_.Interrupt("lost " + member->LabelWithPosition() + ": its owner paused it");
  }
}

void SwarmStateImpl::Welcome(const Member& member) {
  control::v1::SchedulerMessage message;
  message.mutable_welcome()->set_run(config_.run.value);
  message.mutable_welcome()->set_run_name(config_.name);
  message.mutable_welcome()->set_heartbeat_ms(HeartbeatMs(config_.peer_timeout));
  reaction_.Send(member, message);
  *message.mutable_run_status() = StatusMessage();
  reaction_.Send(member, message);
  artefacts_.AskFor(member);
  if (lifecycle_.state() == RunState::kFinished) {
    message.mutable_finished()->set_generation(history_.generation());
    message.mutable_finished()->set_steps(history_.step());
    reaction_.Send(member, message);
  }
}

void SwarmStateImpl::OnMember(Member* member, const control::v1::PeerMessage& message) {
  using control::v1::PeerMessage;
  switch (message.kind_case()) {
    case PeerMessage::kHeartbeat: membership_.OnHeartbeat(member, message.heartbeat()); return;
    case PeerMessage::kPlanReady:
      if (Current(*member, message.plan_ready().generation()))
        OnPlanReady(member, message.plan_ready());
      return;
    case PeerMessage::kPlanFailed: faults_.OnPlanFailed(*member, message.plan_failed()); return;
    case PeerMessage::kStepReady:
      if (Current(*member, message.step_ready().generation())) {
        steps_.OnReady(*member, message.step_ready());
      }
      return;
    case PeerMessage::kSyncDone:
      if (Current(*member, message.sync_done().generation())) {
        steps_.OnSynced(*member, message.sync_done());
      }
      return;
    case PeerMessage::kApplied:
      if (Current(*member, message.applied().generation())) {
        const Status checked = applied_.OnApplied(*member, message.applied());
        if (!checked.ok()) membership_.Drop(member->connection, checked);
      }
      return;
    case PeerMessage::kCheckpointDone:
      if (Current(*member, message.checkpoint_done().generation())) {
        OnCheckpointDone(member, message.checkpoint_done());
      }
      return;
    case PeerMessage::kLinkBroken: faults_.OnLinkBroken(*member, message.link_broken()); return;
    case PeerMessage::kArtefactsOffered: artefacts_.OnOffered(*member); return;
    case PeerMessage::kLeaving: membership_.OnLeaving(*member, message.leaving().reason()); return;
    case PeerMessage::kHandingOver:
      membership_.OnHandingOver(member, message.handing_over().reason());
      return;
    case PeerMessage::kHello:
    case PeerMessage::KIND_NOT_SET: return;  // taken or refused before
  }
}

}  // namespace shoal::scheduler
