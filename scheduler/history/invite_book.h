// InviteBook: who may join a run: its invites, and the keys that came by them. All of it follows
// from the run's events. Of an invite's secret it knows only the public half of the key pair that
// the secret stands for. Pure; thread: one at a time.

#ifndef SHOAL_SCHEDULER_HISTORY_INVITE_BOOK_H_
#define SHOAL_SCHEDULER_HISTORY_INVITE_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "net/identity/join_ticket.h"
#include "scheduler/history/stored_event.h"

namespace shoal::scheduler {

// Kept at once: of invites, the oldest that is good no more gives way.
inline constexpr std::size_t kInvitesMax = 4096;
inline constexpr std::size_t kKnownKeysMax = 16384;
inline constexpr std::uint64_t kInviteUsesMax = 10'000;

// Of an invite, or of who wants to come by it.
enum class Admittance : std::uint8_t {
  kMember,   // the key came before, and may come again
  kOpen,     // the invite is good: a new key may come
  kUnknown,  // there is no such invite, or its ticket does not hold
  kUsedUp,
  kExpired,
  kRevoked,
  kOff,     // the standing invite, which run.toml turns off
  kKicked,  // the organiser removed this key
  kFull,    // the run knows too many keys
};
std::string_view AdmittanceName(Admittance admittance);

class InviteBook {
 public:
  struct Invite {
    net::InviteKey key;
    std::string name;
    std::uint64_t uses = 0, expires_ms = 0;  // 0: without limit, never
    std::uint64_t made_ms = 0;
    std::uint64_t number = 0;  // order in which they were made
    bool standing = false;
  };
  struct Member {
    std::string name;
    InviteId invite;
    std::uint64_t since_ms = 0, seen_ms = 0;  // seen: as stored events say
    bool kicked = false;
    std::string reason;  // why it was kicked
  };

  // The run's invite without limits, which is in no event. `on`: it may be used.
  void SetStanding(const net::InviteKey& key, bool on);
  // One event, in order.
  void Apply(const StoredEvent& event, std::uint64_t at_ms);

  // Null: there is no such invite.
  const net::InviteKey* KeyOf(const InviteId& invite) const;
  Admittance StateOf(const Invite& invite, std::uint64_t now_ms) const;
  // Whether `peer` may come by an invite whose ticket it has.
  Admittance Judge(const PeerId& peer, const InviteId& invite, std::uint64_t now_ms) const;
  bool Knows(const PeerId& peer) const { return members_.contains(peer); }
  // One more invite may be made.
  Status MayMake(std::uint64_t now_ms) const;

  std::vector<Invite> Invites() const;  // the oldest first
  const std::map<PeerId, Member>& members() const { return members_; }
  std::vector<PeerId> UsersOf(const InviteId& invite) const;
  std::uint64_t UsesLeft(const Invite& invite) const;  // of one with a limit

  // What a person means: an id, or the begin of exactly one, of at least four digits, or the name
  // that exactly one has; of several invites the one that is open.
  Result<InviteId> FindInvite(std::string_view text, std::uint64_t now_ms) const;
  Result<PeerId> FindMember(std::string_view text) const;

 private:
  std::optional<InviteId> OldestDead(std::uint64_t now_ms) const;

  std::map<InviteId, Invite> invites_;
  std::map<PeerId, Member> members_;
  std::map<InviteId, std::uint64_t> used_;
  std::set<InviteId> revoked_;
  bool standing_on_ = true;
  std::uint64_t made_ = 0;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_HISTORY_INVITE_BOOK_H_
