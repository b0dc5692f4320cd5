#include "scheduler/swarm/membership.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "common/text.h"
#include "common/units.h"
#include "net/control/control.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/peers/peer_message_check.h"
#include "scheduler/peers/peer_status.h"

namespace shoal::scheduler {

Membership::Membership(const RunConfig& config, RunJournal* journal, Members* members,
                       SwarmPlan* plan, Lifecycle* lifecycle, bool in_place, Reaction* reaction)
    : config_(config),
      journal_(*journal),
      history_(journal->history()),
      members_(*members),
      plan_(*plan),
      lifecycle_(*lifecycle),
      in_place_(in_place),
      reaction_(*reaction) {}

void Membership::OnConnected(const PeerConnected& event) {
  if (members_.connections() >= net::kControlConnectionsMax) {
    reaction_.Add(Disconnect{
        event.connection,
        ResourceExhausted("the scheduler serves " + std::to_string(net::kControlConnectionsMax) +
                          " connections and takes no more; try again later")});
    return;
  }
  members_.Open(event.connection, event.peer, event.address, reaction_.now());
}

void Membership::OnDisconnected(const PeerDisconnected& event) {
  const Member* const member = members_.Of(event.connection);
  members_.Close(event.connection);
  if (member != nullptr) Lost(*member, event.reason);
}

void Membership::Drop(ConnectionId connection, Status reason) {
  const Member* const member = members_.Of(connection);
  members_.Close(connection);
  if (member != nullptr) Lost(*member, reason.message());
  reaction_.Add(Disconnect{connection, std::move(reason)});
}

void Membership::Refuse(ConnectionId connection, const Status& why) {
  control::v1::SchedulerMessage message;
  message.mutable_refused()->set_code(static_cast<int>(why.code()));
  message.mutable_refused()->set_error(why.message());
  reaction_.Add(SendTo{connection, std::move(message)});
  Drop(connection, why);
}

void Membership::OnKicked(const PeerKicked& event) {
  const Member* const member = members_.Find(event.peer);
  if (member != nullptr && member->connected) {
    Refuse(member->connection, PermissionDenied(event.reason));
  }
}

void Membership::Lost(const Member& member, const std::string& why) {
  const std::string reason = CleanText(why, kReasonCharactersMax);
  journal_.StoreGone(member.peer, member.name, reason);
  if (!member.placed()) return;
  // Each newcomer costs the others a moment: who goes before it counts waits longer each time.
  if (plan_.IsShadow(member.peer)) {
    Member* const shadow = members_.Find(member.peer);
    const int doubled = static_cast<int>(std::min(shadow->shadow_losses++, 10U));
    shadow->preparation.not_before =
        reaction_.now() + std::min(kPrepareAgainMax, kPrepareAgainFirst * (1 << doubled));
  }
  lifecycle_.Lost(member.peer, "lost " + member.LabelWithPosition() + ": " + reason);
}

void Membership::DropSilent() {
  const TimePoint now = reaction_.now();
  for (const ConnectionId id : members_.Silent(now, TimeoutsOf(config_.peer_timeout))) {
    const Member* const member = members_.Of(id);
    const Duration silent = member != nullptr ? now - member->last_heard : kHelloTimeout;
    Drop(id, DeadlineExceeded("nothing was heard of it for " + FormatDuration(silent)));
  }
  for (const PeerId& peer : members_.ForgetAway(reaction_.now(), kAwayLimit, kAbsentMax)) {
    plan_.ForgetRoundTrips(peer);
  }
}

void Membership::TellAddresses() {
  if (!lifecycle_.active()) return;
  const TimePoint now = reaction_.now();
  std::map<ConnectionId, control::v1::NewAddresses> news;
  for (const Member* const changed : plan_.Hosts()) {
    if (!changed->addresses_new || now - changed->addresses_told < kAddressesEvery) continue;
    for (const Member* const other : plan_.Hosts()) {
      if (changed->addresses.empty() || !other->connected || !other->told_plan) continue;
      if (!plan_.MayLink(*changed, *other)) continue;
      control::v1::Reachable* const peer = news[other->connection].add_peers();
      peer->set_peer(changed->peer.key.data(), changed->peer.key.size());
      for (const std::string& address : changed->addresses) peer->add_addresses(address);
    }
    Member* const told = members_.Find(changed->peer);
    told->addresses_new = false;
    told->addresses_told = now;
  }
  for (auto& [connection, addresses] : news) {
    control::v1::SchedulerMessage message;
    *message.mutable_new_addresses() = std::move(addresses);
    message.mutable_new_addresses()->set_generation(history_.generation());
    reaction_.Add(SendTo{connection, std::move(message)});
  }
}

bool Membership::MayTake(const PeerMessageReceived& event) {
  if (members_.FindConnection(event.connection) == nullptr) return false;  // dropped meanwhile
  Status checked = CheckPeerMessage(event.message, config_);
  if (checked.ok()) return true;
  Drop(event.connection, std::move(checked));
  return false;
}

Member* Membership::Admit(ConnectionId connection, const control::v1::Hello& hello) {
  const Connection* const open = members_.FindConnection(connection);
  if (const Status admission = CheckAdmission(hello, config_); !admission.ok()) {
    Refuse(connection, admission);
    return nullptr;
  }
  const Member* const known = members_.Find(open->peer);
  if (known != nullptr && known->connected && known->connection != connection) {
    // The newest connection counts: the older one may hang in a dead network path.
    Drop(known->connection, AlreadyExists("the same peer connected again"));
  }
  const bool here = known != nullptr && known->connected;
  const std::vector<std::string> before = known != nullptr ? known->addresses : decltype(before){};
  Member* const member = members_.Admit(connection, hello, reaction_.now());
  if (!here) journal_.StoreCame(member->peer, member->name);
  // It may be in another house: what was measured counts no more.
  if (member->addresses != before) plan_.ForgetRoundTrips(member->peer);
  return member;
}

Member* Membership::Heard(ConnectionId connection) {
  Member* const member = members_.Of(connection);
  if (member == nullptr) {
    Drop(connection, FailedPrecondition("the first message must be a hello"));
    return nullptr;
  }
  member->last_heard = reaction_.now();
  return member;
}

void Membership::OnHeartbeat(Member* member, const control::v1::Heartbeat& heartbeat) {
  member->watch.OnHeartbeat(reaction_.now());
  member->state = CleanText(heartbeat.state(), kNameCharactersMax);
  const std::vector<std::string> before = member->addresses;
  Members::KeepAddresses(member, heartbeat);
  if (heartbeat.addresses_size() > 0 && member->addresses != before) {
    plan_.ForgetRoundTrips(member->peer);
  }
  member->state_bytes = heartbeat.state_bytes();
  member->state_bytes_wanted = heartbeat.state_bytes_wanted();
  member->line = {heartbeat.line().upload_bps(), heartbeat.line().download_bps()};
  if (heartbeat.status_json().empty()) return;
  Result<std::string> status = FitPeerStatus(heartbeat.status_json());
  if (!status.ok()) return Drop(member->connection, status.status());
  members_.KeepStatus(member, *std::move(status), kStatusBytesInAll);
}

void Membership::OnLeaving(const Member& member, const std::string& reason) {
  const ConnectionId connection = member.connection;
  const PeerId peer = member.peer;
  const bool placed = member.placed();
  members_.Close(connection);
  Lost(member, "it leaves" + (reason.empty() ? "" : ", " + reason));
  // A member with a position stays known, so that the reason can go on naming it.
  if (placed) return;
  members_.Remove(peer);
  plan_.ForgetRoundTrips(peer);
  reaction_.Add(Disconnect{connection, Cancelled("it left")});
}

// Whether its stage has another member that stays and holds it.
bool Membership::OthersInStep(const Member& member) const {
  return std::ranges::any_of(plan_.Hosts(), [&](const Member* other) {
    return other->peer != member.peer && other->stage == member.stage && other->candidate() &&
           !plan_.IsShadow(other->peer);
  });
}

void Membership::OnHandingOver(Member* member, const std::string& reason) {
  member->wants_stage = false;
  member->going = CleanText(reason, kReasonCharactersMax);
  // Else its abort is on the way, or the end of the run.
  if (!member->placed() || !lifecycle_.active() || history_.step() >= config_.steps) return;
  const std::string cause = member->HandsOver();
  if (in_place_ && OthersInStep(*member)) {
    lifecycle_.state() == RunState::kTraining ? lifecycle_.EndWithStep(cause)
                                              : lifecycle_.PlanAgain(cause);
  } else if (lifecycle_.state() == RunState::kTraining) {
    lifecycle_.EndSoon(cause);
  } else {  // no step began
    lifecycle_.PlanAgain(cause);
  }
}

}  // namespace shoal::scheduler
