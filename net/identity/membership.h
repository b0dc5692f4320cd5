// Membership certificate: the scheduler's word that a key is a member of its run, for some hours.
// Peers show it to each other when a link opens, so who was removed from a run finds no link any
// more. Layout: docs/WIRE.md, "Membership certificate".

#ifndef SHOAL_NET_IDENTITY_MEMBERSHIP_H_
#define SHOAL_NET_IDENTITY_MEMBERSHIP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/ids.h"
#include "common/status.h"
#include "net/identity/identity.h"

namespace shoal::net {

struct Membership {
  RunId run;
  PeerId peer;
  std::uint64_t not_before_s = 0, not_after_s = 0;  // since 1970, by the scheduler's clock
  std::uint64_t serial = 0;                         // grows from one to the next of a scheduler

  bool operator==(const Membership&) const = default;
};

inline constexpr std::size_t kMembershipBytes = 129;
inline constexpr std::uint64_t kMembershipSecondsMax = 24 * 3600;
// It begins so long before it is made, and another follows so long before it ends.
inline constexpr std::uint64_t kMembershipBackdateSeconds = 3600;
inline constexpr std::uint64_t kMembershipRenewSeconds = 12 * 3600;

// What the scheduler says of `peer` at `now_s`: the longest that is allowed.
Membership NewMembership(const RunId& run, const PeerId& peer, std::uint64_t now_s,
                         std::uint64_t serial);

// Its bytes, signed with the scheduler's key.
Result<std::string> SignMembership(const Membership& membership, const Identity& scheduler);

// Any bytes. An error says what is wrong: size, version, signature, a longer time than allowed.
Result<Membership> ReadMembership(std::string_view bytes, const PeerId& scheduler);

}  // namespace shoal::net

#endif  // SHOAL_NET_IDENTITY_MEMBERSHIP_H_
