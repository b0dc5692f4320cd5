// Messages between a relay and the peers that are reached through it. Layout: docs/WIRE.md,
// "Relay". Pure: bytes in, messages out; every size is bounded before anything is allocated.

#ifndef SHOAL_NET_RELAY_RELAY_MESSAGE_H_
#define SHOAL_NET_RELAY_RELAY_MESSAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "common/ids.h"
#include "common/status.h"

namespace shoal::net {

// What a peer's connection begins with; the last character is the version. Version 2 adds punches
// (RelayPunch and the three behind it). A relay takes both, and sends a peer of version 1 nothing
// that it does not know.
inline constexpr std::string_view kRelayPreface = "shoal-relay/2\n";
inline constexpr std::string_view kRelayPrefaceWithoutPunches = "shoal-relay/1\n";
static_assert(kRelayPreface.size() == kRelayPrefaceWithoutPunches.size());

using RelayChallengeBytes = std::array<unsigned char, 32>;
using RelaySession = std::array<unsigned char, 16>;

// Peer to relay: calls for `key` shall come here.
struct RelayRegister {
  PeerId key;
};
// Relay to peer, with new random bytes each time; and the peer's answer.
struct RelayChallenge {
  RelayChallengeBytes bytes{};
};
struct RelayProof {
  std::array<unsigned char, 32> code{};       // that it knows the relay's secret
  std::array<unsigned char, 64> signature{};  // that it owns the key
};
// The peer is reachable here from now on, for as long as this connection stands.
struct RelayRegistered {
  std::string seen_address;  // the peer's, as the relay sees it
};
// Somebody calls: come for him with a new connection.
struct RelayIncoming {
  RelaySession session{};
  std::string caller;  // address
};
// Peer to relay, first message of that new connection; and the answer, after which bytes of the
// caller follow.
struct RelayJoin {
  RelaySession session{};
};
struct RelayJoined {};
struct RelayRefused {
  StatusCode code = StatusCode::kUnknown;
  std::string error;
};
struct RelayPing {};
struct RelayPong {};
// Peer to relay: try to reach me from outside, at this port of the address that you see. Then the
// answer; the relay tries it once in a while only, and no other address.
struct RelayDialBack {
  std::uint16_t port = 0;
};
struct RelayDialled {
  bool reached = false;
};

// Peer to relay: help me and `other`, who is registered here as well, to connect to each other.
struct RelayPunch {
  PeerId other;
};
// Relay to both: come with a new connection, from a port that further ones can leave by as well.
struct RelayPunching {
  RelaySession session{};  // this peer's own
  bool asked = false;      // by this peer, which is the caller; else it is called
  PeerId other;
};
// Peer to relay, first message of that new connection; and the answer when both have come: connect
// to the other's address by the same port, at once and again until the other does.
struct RelayPunchJoin {
  RelaySession session{};
};
struct RelayPunchTarget {
  std::string address;  // the other's, as the relay sees it
};

using RelayMessage =
    std::variant<RelayRegister, RelayChallenge, RelayProof, RelayRegistered, RelayIncoming,
                 RelayJoin, RelayJoined, RelayRefused, RelayPing, RelayPong, RelayDialBack,
                 RelayDialled, RelayPunch, RelayPunching, RelayPunchJoin, RelayPunchTarget>;

inline constexpr std::size_t kRelayTextMax = 512;  // of an address or an error
inline constexpr std::size_t kRelayHeaderBytes = 3;
inline constexpr std::size_t kRelayMessageBytesMax = kRelayHeaderBytes + 64 + kRelayTextMax;

// Longer texts are cut.
std::string EncodeRelayMessage(const RelayMessage& message);

struct RelayTaken {
  RelayMessage message;
  std::size_t bytes = 0;  // of the front of what was given
};
// The first message of `bytes`; nullopt: more are needed. Data loss: not a message.
Result<std::optional<RelayTaken>> TakeRelayMessage(std::string_view bytes);

// What a caller asks for: HTTP's CONNECT with the key as host and the ticket as a header.
struct RelayCall {
  PeerId target;
  std::string ticket;
};
inline constexpr std::size_t kRelayCallBytesMax = 2048;
inline constexpr std::size_t kRelayTicketBytesMax = 85;
// The same of a whole head, up to and with its empty line. Invalid argument: not such a call.
Result<RelayCall> ParseRelayCall(std::string_view head);
// "<key>.shoal:1", what gRPC writes behind CONNECT, and the header that it adds.
std::string RelayCallTarget(const PeerId& target);
std::string RelayCallHeader(const std::string& ticket);
// The answer to a call: bytes of the peer follow, or why not.
std::string RelayCallAnswer(const Status& status);

}  // namespace shoal::net

#endif  // SHOAL_NET_RELAY_RELAY_MESSAGE_H_
