// Join ticket: proof, inside a certificate, that the owner of its key has an invite of a run. The
// secret of an invite stands for an Ed25519 key pair; the scheduler keeps the public half only,
// with which nobody can join. Its port refuses everybody else in the TLS handshake. Layout:
// docs/WIRE.md, "Join ticket".

#ifndef SHOAL_NET_IDENTITY_JOIN_TICKET_H_
#define SHOAL_NET_IDENTITY_JOIN_TICKET_H_

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/ids.h"
#include "common/status.h"
#include "net/identity/identity.h"

namespace shoal::net {

// What a scheduler keeps of an invite's secret.
struct InviteKey {
  std::array<std::uint8_t, 32> key{};

  InviteId id() const;
  auto operator<=>(const InviteKey&) const = default;
};

// The secret as an invite has it: 16 bytes, hex.
Result<InviteKey> InviteKeyOf(const std::string& secret);

struct JoinTicket {
  InviteId invite;
  std::array<unsigned char, 64> signature{};
};

// Version 2, the invite's id, the signature.
inline constexpr std::size_t kJoinTicketBytes = 73;
using JoinTicketBytes = std::array<unsigned char, kJoinTicketBytes>;

// What `key` shows to `scheduler`.
Result<JoinTicketBytes> MakeJoinTicket(const std::string& secret, const PeerId& scheduler,
                                       const PeerId& key);

// The same key with a certificate that has the ticket.
Result<std::shared_ptr<const Identity>> WithTicket(const Identity& identity,
                                                   const std::string& secret,
                                                   const PeerId& scheduler);

// Any certificate; nothing: it has no ticket of this version.
std::optional<JoinTicket> ReadTicket(std::string_view certificate_pem);

// Whether the owner of `key` has the secret of `invite`. Null: no, and takes as long.
bool TicketHolds(const JoinTicket& ticket, const InviteKey* invite, const PeerId& key,
                 const PeerId& scheduler);

// OK: the certificate, which is `key`'s, has a ticket of `invite`.
Status CheckTicket(std::string_view certificate_pem, const PeerId& key, const InviteKey& invite,
                   const PeerId& scheduler);

}  // namespace shoal::net

#endif  // SHOAL_NET_IDENTITY_JOIN_TICKET_H_
