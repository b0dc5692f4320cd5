// Who may join, as the server keeps and changes it: invites, members, who is removed.

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "common/file.h"
#include "common/log.h"
#include "common/text.h"
#include "common/units.h"
#include "scheduler/door/admission_json.h"
#include "scheduler/door/join_secret.h"
#include "scheduler/door/wall_clock.h"
#include "scheduler/server/server.h"

namespace shoal::scheduler {
namespace {

using Arguments = std::map<std::string, std::string>;

constexpr std::uint64_t kMillisecondsPerDay = 24 * 3600 * 1000;
constexpr std::uint64_t kExpiryDaysMax = 3650;
constexpr std::size_t kNameMax = 64, kReasonMax = 256;

std::string Argument(const Arguments& arguments, const char* name) {
  const auto found = arguments.find(name);
  return found == arguments.end() ? std::string() : found->second;
}

Result<std::uint64_t> UsesOf(const Arguments& arguments) {
  const std::string text = Argument(arguments, "uses");
  if (text.empty()) return std::uint64_t{1};
  std::uint64_t uses = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), uses);
  if (error == std::errc() && end == text.data() + text.size() && uses > 0 &&
      uses <= kInviteUsesMax) {
    return uses;
  }
  return InvalidArgument("an invite has 1 to " + std::to_string(kInviteUsesMax) + " uses, not '" +
                         text + "'");
}

Result<std::uint64_t> ExpiryOf(const Arguments& arguments, std::uint64_t now_ms) {
  const std::string text = Argument(arguments, "expires");
  if (text.empty()) return now_ms + 7 * kMillisecondsPerDay;
  SHOAL_ASSIGN_OR_RETURN(const Duration lasts, ParseDuration(text));
  const auto ms = lasts / std::chrono::milliseconds(1);
  if (ms > 0 && static_cast<std::uint64_t>(ms) <= kExpiryDaysMax * kMillisecondsPerDay) {
    return now_ms + static_cast<std::uint64_t>(ms);
  }
  return InvalidArgument("an invite expires after a time of up to " +
                         std::to_string(kExpiryDaysMax) + "d, not '" + text + "'");
}

}  // namespace

// Thread: main; nobody else is there yet.
Status SchedulerServer::OpenDoor() {
  SHOAL_ASSIGN_OR_RETURN(secret_, LoadOrCreateJoinSecret(config_.directory));
  SHOAL_ASSIGN_OR_RETURN(identity_, net::LoadOrCreateIdentity(config_.directory));
  self_ = identity_->id;
  door_ = std::make_unique<Door>(self_, static_cast<bool>(leads_));
  office_ = std::make_unique<MembershipOffice>(identity_);
  SHOAL_ASSIGN_OR_RETURN(const net::InviteKey standing, net::InviteKeyOf(secret_));
  door_->SetStanding(standing, config_.standing_invite);
  return Status::Ok();
}

// The standing invite, for programs that read it from the folder.
Status SchedulerServer::WriteInvite() const {
  const std::string path = config_.directory + "/invite";
  if (!invite_.empty()) return WriteFileAtomic(path, invite_ + "\n", 0600);
  (void)std::remove(path.c_str());
  return Status::Ok();
}

// Its hello was accepted: a key that is new has used its invite.
void SchedulerServer::Joined(net::ConnectionId connection) {
  SHOAL_ASSERT_ON(*control_);
  const PeerId peer = connections_.at(connection);
  if (door_->Read([&](const InviteBook& book) { return book.Knows(peer); })) return;
  std::string name;
  for (const MemberView& member : state_->View(SystemClock().Now()).members) {
    if (member.peer == peer) name = member.name;
  }
  SHOAL_LOG(kInfo, "scheduler", "member.joined", {"peer", peer.ToShort()}, {"name", name},
            {"invite", came_by_[connection].ToHex()});
  Append(EncodeEvent(MemberJoined{peer, name, came_by_[connection]}));
}

void SchedulerServer::Renew() {
  SHOAL_ASSERT_ON(*control_);
  const std::uint64_t now = UnixMilliseconds();
  for (const net::ConnectionId connection : office_->Due(now)) {
    const auto found = connections_.find(connection);
    if (found == connections_.end()) continue;
    control::v1::SchedulerMessage message;
    message.mutable_renewal()->set_membership(
        office_->Issue(connection, config_.run, found->second, now));
    peers_->Send(connection, std::move(message));
  }
}

void SchedulerServer::Refuse(net::ConnectionId connection, const Status& why) {
  SHOAL_ASSERT_ON(*control_);
  control::v1::SchedulerMessage message;
  message.mutable_refused()->set_code(static_cast<int>(why.code()));
  message.mutable_refused()->set_error(why.message());
  peers_->Send(connection, std::move(message));
  peers_->Disconnect(connection, why);
}

bool SchedulerServer::CommandAtDoor(const std::string& name, const Arguments& arguments,
                                    const std::function<void(Result<net::CommandResult>)>& reply) {
  SHOAL_ASSERT_ON(*control_);
  const std::uint64_t now = UnixMilliseconds();
  if (name == "invite") {
    MakeInvite(arguments, reply);
  } else if (name == "invites") {
    const auto json = door_->Read([&](const auto& book) { return InvitesJson(book, now); });
    reply(net::CommandResult{"", json});
  } else if (name == "members") {
    const RunView view = state_->View(SystemClock().Now());
    const auto json = door_->Read([&](const auto& book) { return MembersJson(book, view, now); });
    reply(net::CommandResult{"", json});
  } else if (name == "revoke") {
    Revoke(arguments, reply);
  } else if (name == "kick") {
    Kick(arguments, reply);
  } else if (name == "release") {
    Release(arguments, reply);
  } else {
    return false;
  }
  return true;
}

void SchedulerServer::MakeInvite(const Arguments& arguments,
                                 const std::function<void(Result<net::CommandResult>)>& reply) {
  SHOAL_ASSERT_ON(*control_);
  if (arguments.contains("standing")) {
    if (!invite_.empty()) return reply(net::CommandResult{invite_, ""});
    return reply(FailedPrecondition(
        "the run has no standing invite: it is revoked, or [scheduler] standing_invite is false; "
        "make an invite that ends with: shoal swarm invite"));
  }
  const std::uint64_t now = UnixMilliseconds();
  const Result<std::uint64_t> uses = UsesOf(arguments);
  if (!uses.ok()) return reply(uses.status());
  const Result<std::uint64_t> expires = ExpiryOf(arguments, now);
  if (!expires.ok()) return reply(expires.status());
  const Status may = door_->Read([&](const InviteBook& book) { return book.MayMake(now); });
  if (!may.ok()) return reply(may);
  net::Invite invite = to_here_;
  net::InviteKey key;
  do {
    invite.secret = net::NewJoinSecret();
    key = *net::InviteKeyOf(invite.secret);
  } while (door_->Read([&](const InviteBook& book) { return book.KeyOf(key.id()) != nullptr; }));
  const std::string name = CleanText(Argument(arguments, "name"), kNameMax);
  Append(EncodeEvent(InviteMade{key, name, *uses, *expires}));
  const std::string line = net::FormatInvite(invite);
  ReplyStored({line, InviteJson(key.id(), line, *expires)}, reply);
}

void SchedulerServer::Revoke(const Arguments& arguments,
                             const std::function<void(Result<net::CommandResult>)>& reply) {
  SHOAL_ASSERT_ON(*control_);
  const std::string text = Argument(arguments, "id");
  const auto found = door_->Read(
      [&](const InviteBook& book) { return book.FindInvite(text, UnixMilliseconds()); });
  if (!found.ok()) return reply(found.status());
  Append(EncodeEvent(InviteRevoked{*found}));
  if (*found == net::InviteKeyOf(secret_)->id()) {
    invite_.clear();
    if (const Status status = WriteInvite(); !status.ok()) return reply(status);
  }
  auto users = door_->Read([&](const InviteBook& book) { return book.UsersOf(*found); });
  std::erase_if(users, [this](const PeerId& peer) {
    return door_->Read([&](const InviteBook& book) { return book.members().at(peer).kicked; });
  });
  std::string said = "revoked invite " + found->ToHex();
  if (arguments.contains("members")) {
    for (const PeerId& peer : users) KickOne(peer, "the invite that it came by was revoked");
    said += ", and removed " + std::to_string(users.size()) + " members that came by it";
  } else if (!users.empty()) {
    said += "; " + std::to_string(users.size()) +
            " members that came by it stay: remove them with --members, or shoal swarm kick";
  }
  ReplyStored({said, ""}, reply);
}

Result<PeerId> SchedulerServer::NamedMember(const Arguments& arguments) const {
  SHOAL_ASSERT_ON(*control_);
  const std::string text = Argument(arguments, "member");
  return door_->Read([&](const InviteBook& book) { return book.FindMember(text); });
}

void SchedulerServer::Kick(const Arguments& arguments,
                           const std::function<void(Result<net::CommandResult>)>& reply) {
  SHOAL_ASSERT_ON(*control_);
  const Result<PeerId> found = NamedMember(arguments);
  if (!found.ok()) return reply(found.status());
  const std::string label = "member " + found->ToShort();
  const bool kicked =
      door_->Read([&](const InviteBook& book) { return book.members().at(*found).kicked; });
  if (arguments.contains("undo")) {
    if (!kicked) return reply(FailedPrecondition(label + " is not removed"));
    Append(EncodeEvent(MemberTakenBack{*found}));
    return ReplyStored({label + " may come back: `shoal join` with the invite that it had", ""},
                       reply);
  }
  if (kicked) return reply(FailedPrecondition(label + " is removed already"));
  const std::string reason = CleanText(Argument(arguments, "reason"), kReasonMax);
  KickOne(*found, reason);
  ReplyStored({"removed " + label + "; undo it with: shoal swarm kick --dir " + config_.directory +
                   " --undo " + found->ToShort(),
               ""},
              reply);
}

void SchedulerServer::Release(const Arguments& arguments,
                              const std::function<void(Result<net::CommandResult>)>& reply) {
  SHOAL_ASSERT_ON(*control_);
  const Result<PeerId> found = NamedMember(arguments);
  if (!found.ok()) return reply(found.status());
  const std::string label = "member " + found->ToShort();
  const RunView view = state_->View(SystemClock().Now());
  const bool held = std::ranges::any_of(
      view.quarantines, [&](const QuarantineView& term) { return term.peer == *found; });
  if (!held) return reply(FailedPrecondition(label + " is not in quarantine"));
  Feed(PeerReleased{*found});
  ReplyStored({label + " may have a stage again", ""}, reply);
}

void SchedulerServer::KickOne(const PeerId& peer, const std::string& reason) {
  SHOAL_ASSERT_ON(*control_);
  SHOAL_LOG(kInfo, "scheduler", "member.kicked", {"peer", peer.ToShort()}, {"reason", reason});
  Append(EncodeEvent(MemberKicked{peer, reason}));
  Feed(PeerKicked{peer, "the organiser of run \"" + config_.name + "\" removed this machine" +
                            (reason.empty() ? "" : ": " + reason) +
                            "; to come back, ask the organiser, who can undo it with `shoal "
                            "swarm kick --undo`"});
}

void SchedulerServer::ReplyStored(net::CommandResult result,
                                  const std::function<void(Result<net::CommandResult>)>& reply) {
  SHOAL_ASSERT_ON(*control_);
  store_->Post("door.stored", [this, result = std::move(result), reply] {
    control_->Post("door.reply", [this, result, reply] {
      if (stopping_) return reply(Unavailable("the scheduler stops: its history cannot be kept"));
      reply(result);
    });
  });
}

}  // namespace shoal::scheduler
