// What proves to a relay that somebody may use it, and that a peer owns its key. Layouts:
// docs/WIRE.md, "Relay". Pure.

#ifndef SHOAL_NET_RELAY_RELAY_TICKET_H_
#define SHOAL_NET_RELAY_RELAY_TICKET_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/ids.h"
#include "common/status.h"
#include "net/identity/identity.h"
#include "net/relay/relay_message.h"

namespace shoal::net {

// A caller's clock may be off by so much.
inline constexpr std::chrono::seconds kRelayTicketAge = std::chrono::hours(1);

// What a caller shows beside CONNECT: "<seconds since 1970>.<64 hex digits>". It opens the way to
// one peer and names no caller; who hears it can call the same peer until it is too old, and stops
// at that peer's TLS.
std::string MakeRelayTicket(const std::string& secret, const PeerId& target, std::int64_t now_s);
// Takes the same time whatever bytes of the code differ.
Status CheckRelayTicket(std::string_view ticket, const std::string& secret, const PeerId& target,
                        std::int64_t now_s);

// Answers a relay's challenge: it knows the secret, and owns the key.
Result<RelayProof> ProveToRelay(const RelayChallenge& challenge, const std::string& secret,
                                const Identity& identity);
Status CheckRelayProof(const RelayProof& proof, const RelayChallenge& challenge,
                       const std::string& secret, const PeerId& key);

}  // namespace shoal::net

#endif  // SHOAL_NET_RELAY_RELAY_TICKET_H_
