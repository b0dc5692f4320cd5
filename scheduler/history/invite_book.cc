#include "scheduler/history/invite_book.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace shoal::scheduler {
namespace {

constexpr std::size_t kPrefixMin = 4;

bool Begins(const std::string& id, std::string_view text) {
  return text.size() >= kPrefixMin && id.starts_with(text);
}

}  // namespace

std::string_view AdmittanceName(Admittance admittance) {
  switch (admittance) {
    case Admittance::kMember: return "member";
    case Admittance::kOpen: return "open";
    case Admittance::kUnknown: return "unknown";
    case Admittance::kUsedUp: return "used up";
    case Admittance::kExpired: return "expired";
    case Admittance::kRevoked: return "revoked";
    case Admittance::kOff: return "turned off";
    case Admittance::kKicked: return "kicked";
    case Admittance::kFull: return "full";
  }
  return "unknown";
}

void InviteBook::SetStanding(const net::InviteKey& key, bool on) {
  Invite& standing = invites_[key.id()];
  standing.key = key;
  standing.name = "standing invite";
  standing.standing = true;
  standing_on_ = on;
}

void InviteBook::Apply(const StoredEvent& event, std::uint64_t at_ms) {
  const auto seen = [&](const PeerId& peer) -> Member* {
    const auto found = members_.find(peer);
    if (found == members_.end()) return nullptr;
    found->second.seen_ms = std::max(found->second.seen_ms, at_ms);
    return &found->second;
  };
  if (const auto* made = std::get_if<InviteMade>(&event)) {
    if (invites_.size() >= kInvitesMax) {
      if (const auto dead = OldestDead(at_ms)) invites_.erase(*dead);
    }
    invites_[made->key.id()] = {made->key, made->name, made->uses, made->expires_ms,
                                at_ms,     ++made_,    false};
  } else if (const auto* revoked = std::get_if<InviteRevoked>(&event)) {
    revoked_.insert(revoked->invite);
  } else if (const auto* joined = std::get_if<MemberJoined>(&event)) {
    const auto [entry, fresh] = members_.try_emplace(joined->peer);
    if (!fresh) return;
    entry->second = {joined->name, joined->invite, at_ms, at_ms, false, ""};
    ++used_[joined->invite];
  } else if (const auto* kicked = std::get_if<MemberKicked>(&event)) {
    Member& member = members_[kicked->peer];
    member.kicked = true;
    member.reason = kicked->reason;
  } else if (const auto* back = std::get_if<MemberTakenBack>(&event)) {
    Member& member = members_[back->peer];
    member.kicked = false;
    member.reason.clear();
  } else if (const auto* came = std::get_if<MemberCame>(&event)) {
    if (Member* const member = seen(came->peer)) member->name = came->name;
  } else if (const auto* gone = std::get_if<MemberGone>(&event)) {
    seen(gone->peer);
  }
}

const net::InviteKey* InviteBook::KeyOf(const InviteId& invite) const {
  const auto found = invites_.find(invite);
  return found == invites_.end() ? nullptr : &found->second.key;
}

std::uint64_t InviteBook::UsesLeft(const Invite& invite) const {
  const auto used = used_.find(invite.key.id());
  if (used == used_.end()) return invite.uses;
  return invite.uses - std::min(invite.uses, used->second);
}

Admittance InviteBook::StateOf(const Invite& invite, std::uint64_t now_ms) const {
  if (revoked_.contains(invite.key.id())) return Admittance::kRevoked;
  if (invite.standing && !standing_on_) return Admittance::kOff;
  if (invite.expires_ms > 0 && now_ms >= invite.expires_ms) return Admittance::kExpired;
  if (invite.uses > 0 && UsesLeft(invite) == 0) return Admittance::kUsedUp;
  return Admittance::kOpen;
}

Admittance InviteBook::Judge(const PeerId& peer, const InviteId& invite,
                             std::uint64_t now_ms) const {
  const auto member = members_.find(peer);
  if (member != members_.end()) {
    return member->second.kicked ? Admittance::kKicked : Admittance::kMember;
  }
  const auto found = invites_.find(invite);
  if (found == invites_.end()) return Admittance::kUnknown;
  const Admittance state = StateOf(found->second, now_ms);
  if (state != Admittance::kOpen || members_.size() < kKnownKeysMax) return state;
  // Removed members whose invite is dead stay out by that, and take no room.
  const auto gone = std::ranges::count_if(members_, [&](const auto& entry) {
    const auto invited = invites_.find(entry.second.invite);
    const bool open =
        invited != invites_.end() && StateOf(invited->second, now_ms) == Admittance::kOpen;
    return entry.second.kicked && !open;
  });
  const std::size_t kept = members_.size() - static_cast<std::size_t>(gone);
  return kept >= kKnownKeysMax ? Admittance::kFull : state;
}

std::optional<InviteId> InviteBook::OldestDead(std::uint64_t now_ms) const {
  const Invite* oldest = nullptr;
  for (const auto& [id, invite] : invites_) {
    if (invite.standing || StateOf(invite, now_ms) == Admittance::kOpen) continue;
    if (oldest == nullptr || invite.number < oldest->number) oldest = &invite;
  }
  return oldest == nullptr ? std::nullopt : std::optional(oldest->key.id());
}

Status InviteBook::MayMake(std::uint64_t now_ms) const {
  if (invites_.size() < kInvitesMax || OldestDead(now_ms)) return Status::Ok();
  return ResourceExhausted("the run has " + std::to_string(kInvitesMax) +
                           " invites that are open; revoke some with: shoal swarm revoke ID");
}

std::vector<InviteBook::Invite> InviteBook::Invites() const {
  std::vector<Invite> all;
  for (const auto& [id, invite] : invites_) all.push_back(invite);
  std::ranges::sort(all, {}, &Invite::number);
  return all;
}

std::vector<PeerId> InviteBook::UsersOf(const InviteId& invite) const {
  std::vector<PeerId> users;
  for (const auto& [peer, member] : members_) {
    if (member.invite == invite) users.push_back(peer);
  }
  return users;
}

Result<InviteId> InviteBook::FindInvite(std::string_view text, std::uint64_t now_ms) const {
  std::vector<InviteId> found, open;
  for (const auto& [id, invite] : invites_) {
    const bool named = !text.empty() && invite.name == text;
    if (!named && !Begins(id.ToHex(), text)) continue;
    found.push_back(id);
    if (StateOf(invite, now_ms) == Admittance::kOpen) open.push_back(id);
  }
  if (found.size() == 1) return found.front();
  if (open.size() == 1) return open.front();
  return NotFound((found.empty() ? "no invite" : "more than one invite") +
                  std::string(" has the name or an id that begins with '") + std::string(text) +
                  "'; see names and ids with: shoal swarm invites");
}

Result<PeerId> InviteBook::FindMember(std::string_view text) const {
  // A name may be chosen to look like another's key: either makes the text ambiguous.
  std::vector<PeerId> found;
  for (const auto& [peer, member] : members_) {
    if (Begins(peer.ToHex(), text) || member.name == text) found.push_back(peer);
  }
  if (found.size() == 1) return found.front();
  const bool many = found.size() > 1;
  return NotFound((many ? "more than one member" : "no member") +
                  std::string(" has the name or a key that begins with '") + std::string(text) +
                  "'; see names and keys with: shoal swarm members");
}

}  // namespace shoal::scheduler
