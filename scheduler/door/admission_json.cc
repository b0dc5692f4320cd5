#include "scheduler/door/admission_json.h"

#include <map>

#include <nlohmann/json.hpp>

namespace shoal::scheduler {
namespace {

using Json = nlohmann::ordered_json;

std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json OrNull(std::uint64_t value) { return value == 0 ? Json() : Json(value); }

}  // namespace

std::string InviteJson(const InviteId& invite, const std::string& line, std::uint64_t expires_ms) {
  return Text({{"schemaVersion", 1},
               {"id", invite.ToHex()},
               {"invite", line},
               {"expiresUnixMs", expires_ms}});
}

std::string InvitesJson(const InviteBook& book, std::uint64_t now_ms) {
  std::map<InviteId, Json> users;
  for (const auto& [peer, member] : book.members()) {
    users[member.invite].push_back({{"peer", peer.ToHex()}, {"name", member.name}});
  }
  Json invites = Json::array();
  for (const InviteBook::Invite& invite : book.Invites()) {
    const InviteId id = invite.key.id();
    const bool limited = invite.uses > 0;
    invites.push_back({{"id", id.ToHex()},
                       {"name", invite.name},
                       {"standing", invite.standing},
                       {"state", AdmittanceName(book.StateOf(invite, now_ms))},
                       {"uses", OrNull(invite.uses)},
                       {"usesLeft", limited ? Json(book.UsesLeft(invite)) : Json()},
                       {"madeUnixMs", OrNull(invite.made_ms)},
                       {"expiresUnixMs", OrNull(invite.expires_ms)},
                       {"usedBy", users.contains(id) ? users[id] : Json::array()}});
  }
  return Text({{"schemaVersion", 1}, {"invites", std::move(invites)}});
}

std::string MembersJson(const InviteBook& book, const RunView& view, std::uint64_t now_ms) {
  std::map<PeerId, const MemberView*> here;
  for (const MemberView& member : view.members) here[member.peer] = &member;
  std::map<InviteId, std::string> names;
  for (const InviteBook::Invite& invite : book.Invites()) names[invite.key.id()] = invite.name;
  std::map<PeerId, const QuarantineView*> terms;
  for (const QuarantineView& term : view.quarantines) terms[term.peer] = &term;
  Json members = Json::array();
  for (const auto& [peer, member] : book.members()) {
    const auto found = here.find(peer);
    const MemberView* const now = found == here.end() ? nullptr : found->second;
    const bool connected = now != nullptr && now->connected;
    std::uint64_t seen = member.seen_ms;
    if (now != nullptr && now->last_heard_s >= 0) {
      const auto ago = static_cast<std::uint64_t>(1e3 * now->last_heard_s);
      if (ago < now_ms) seen = std::max(seen, now_ms - ago);
    }
    const auto term = terms.find(peer);
    const bool held = !member.kicked && term != terms.end();
    const auto left_ms = held ? static_cast<std::uint64_t>(1e3 * term->second->left_s) : 0;
    members.push_back({{"peer", peer.ToHex()},
                       {"name", connected ? now->name : member.name},
                       {"invite", member.invite.ToHex()},
                       {"inviteName", names[member.invite]},
                       {"sinceUnixMs", OrNull(member.since_ms)},
                       {"lastSeenUnixMs", OrNull(seen)},
                       {"state", member.kicked ? "kicked"
                                 : connected   ? now->state
                                               : "gone"},
                       {"connected", connected},
                       {"reason", held ? term->second->cause : member.reason},
                       {"quarantineUntilUnixMs", held ? Json(now_ms + left_ms) : Json()}});
  }
  return Text({{"schemaVersion", 1}, {"members", std::move(members)}});
}

}  // namespace shoal::scheduler
