// What peers say, and who is lost.

#include <algorithm>

#include "common/text.h"
#include "scheduler/swarm/peer_message_check.h"
#include "scheduler/swarm/peer_status.h"
#include "scheduler/swarm/swarm_state_impl.h"

namespace shoal::scheduler {
namespace {

// A silent peer is found dead after peer_timeout; it shall speak several times within that.
std::uint32_t HeartbeatMs(Duration peer_timeout) {
  const auto third = std::chrono::duration_cast<std::chrono::milliseconds>(peer_timeout / 3);
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(third.count(), 50, 2000));
}

}  // namespace

void SwarmStateImpl::Drop(ConnectionId connection, Status reason) {
  Member* member = members_.Of(connection);
  members_.Close(connection);
  if (member != nullptr) Lost(member, reason.message());
  reaction_.Add(Disconnect{connection, std::move(reason)});
}

void SwarmStateImpl::Lost(Member* member, const std::string& why) {
  if (!member->placed()) return;
  const std::string cause =
      "lost " + member->LabelWithPosition() + ": " + CleanText(why, kReasonCharactersMax);
  lifecycle_.Lost(cause);
}

void SwarmStateImpl::OnHello(ConnectionId connection, const control::v1::Hello& hello) {
  const Connection* open = members_.FindConnection(connection);
  if (Status admission = CheckAdmission(hello, config_, join_secret_); !admission.ok()) {
    control::v1::SchedulerMessage message;
    message.mutable_refused()->set_code(static_cast<int>(admission.code()));
    message.mutable_refused()->set_error(admission.message());
    reaction_.Add(SendTo{connection, std::move(message)});
    Drop(connection, std::move(admission));
    return;
  }
  Member* known = members_.Find(open->peer);
  if (known != nullptr && known->connected && known->connection != connection) {
    // The newest connection counts: the older one may hang in a dead network path.
    Drop(known->connection, AlreadyExists("the same peer connected again"));
  }
  const std::vector<std::string> before = known != nullptr ? known->addresses : decltype(before){};
  Member* member = members_.Admit(connection, hello, reaction_.now());
  // It may be in another house: what was measured counts no more.
  if (member->addresses != before) plan_.ForgetRoundTrips(member->peer);
  Welcome(member);
  if (lifecycle_.active() && member->placed() && !member->wants_stage) {
    lifecycle_.Interrupt("lost " + member->LabelWithPosition() + ": its owner paused it");
  }
}

void SwarmStateImpl::Welcome(Member* member) {
  control::v1::SchedulerMessage message;
  message.mutable_welcome()->set_run(config_.run.value);
  message.mutable_welcome()->set_run_name(config_.name);
  message.mutable_welcome()->set_heartbeat_ms(HeartbeatMs(config_.peer_timeout));
  reaction_.Send(*member, message);
  *message.mutable_run_status() = StatusMessage();
  reaction_.Send(*member, message);
  artefacts_.AskFor(*member);
  if (lifecycle_.state() == RunState::kFinished) {
    message.mutable_finished()->set_generation(history_.generation());
    message.mutable_finished()->set_steps(history_.step());
    reaction_.Send(*member, message);
  }
}

void SwarmStateImpl::OnMember(Member* member, const control::v1::PeerMessage& message) {
  using control::v1::PeerMessage;
  switch (message.kind_case()) {
    case PeerMessage::kHeartbeat: OnHeartbeat(member, message.heartbeat()); return;
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
        if (!checked.ok()) Drop(member->connection, checked);
      }
      return;
    case PeerMessage::kCheckpointDone:
      if (Current(*member, message.checkpoint_done().generation())) {
        OnCheckpointDone(member, message.checkpoint_done());
      }
      return;
    case PeerMessage::kLinkBroken: faults_.OnLinkBroken(*member, message.link_broken()); return;
    case PeerMessage::kArtefactsOffered: artefacts_.OnOffered(*member); return;
    case PeerMessage::kLeaving: OnLeaving(member, message.leaving().reason()); return;
    case PeerMessage::kHandingOver: OnHandingOver(member, message.handing_over().reason()); return;
    case PeerMessage::kHello:
    case PeerMessage::KIND_NOT_SET: return;  // taken or refused before
  }
}

void SwarmStateImpl::OnHeartbeat(Member* member, const control::v1::Heartbeat& heartbeat) {
  member->state = CleanText(heartbeat.state(), kNameCharactersMax);
  member->line = {heartbeat.line().upload_bps(), heartbeat.line().download_bps()};
  if (heartbeat.status_json().empty()) return;
  Result<std::string> status = FitPeerStatus(heartbeat.status_json());
  if (!status.ok()) return Drop(member->connection, status.status());
  members_.KeepStatus(member, *std::move(status), kStatusBytesInAll);
}

void SwarmStateImpl::OnLeaving(Member* member, const std::string& reason) {
  const ConnectionId connection = member->connection;
  const PeerId peer = member->peer;
  const bool placed = member->placed();
  members_.Close(connection);
  Lost(member, "it leaves" + (reason.empty() ? "" : ", " + reason));
  // A member with a position stays known, so that the reason can go on naming it.
  if (placed) return;
  members_.Remove(peer);
  plan_.ForgetRoundTrips(peer);
  reaction_.Add(Disconnect{connection, Cancelled("it left")});
}

void SwarmStateImpl::OnHandingOver(Member* member, const std::string& reason) {
  member->wants_stage = false;
  member->going = CleanText(reason, kReasonCharactersMax);
  // Else its abort is on the way, or the end of the run.
  if (!member->placed() || !lifecycle_.active() || history_.step() >= config_.steps) return;
  const std::string cause = member->HandsOver();
  if (lifecycle_.state() == RunState::kTraining) {
    lifecycle_.EndSoon(cause);
  } else {  // no step began since the checkpoint
    lifecycle_.PlanAgain(cause);
  }
}

}  // namespace shoal::scheduler
