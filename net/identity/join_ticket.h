// Join ticket: proof, inside a certificate, that the owner of its key has the join secret of a run.
// The scheduler's port refuses everybody else in the TLS handshake. Layout: docs/WIRE.md, "Join
// ticket".

#ifndef SHOAL_NET_IDENTITY_JOIN_TICKET_H_
#define SHOAL_NET_IDENTITY_JOIN_TICKET_H_

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "common/ids.h"
#include "common/status.h"
#include "net/identity/identity.h"

namespace shoal::net {

using JoinTicket = std::array<unsigned char, 33>;  // version 1, then the code

// What `key` shows to `scheduler`. The secret as an invite has it: 16 bytes, hex.
Result<JoinTicket> MakeJoinTicket(const std::string& secret, const PeerId& scheduler,
                                  const PeerId& key);

// The same key with a certificate that has the ticket.
Result<std::shared_ptr<const Identity>> WithTicket(const Identity& identity,
                                                   const std::string& secret,
                                                   const PeerId& scheduler);

// OK: the certificate, which is `key`'s, has the ticket. Takes the same time whatever bytes differ.
Status CheckTicket(std::string_view certificate_pem, const PeerId& key, const std::string& secret,
                   const PeerId& scheduler);

}  // namespace shoal::net

#endif  // SHOAL_NET_IDENTITY_JOIN_TICKET_H_
