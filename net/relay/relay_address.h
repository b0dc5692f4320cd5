// The address of a peer behind a relay: "SECRET@host:port", where the secret (32 hex digits) is the
// relay's and host:port is where it listens. It stands wherever host:port of a peer may stand; whom
// it leads to is known beside it, by the peer's key. Layout: docs/WIRE.md, "Relay".

#ifndef SHOAL_NET_RELAY_RELAY_ADDRESS_H_
#define SHOAL_NET_RELAY_RELAY_ADDRESS_H_

#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace shoal::net {

struct RelayAddress {
  std::string secret;     // 16 bytes, hex
  std::string host_port;  // of the relay

  bool operator==(const RelayAddress&) const = default;
};

// Whether the text has a secret, and so leads to a relay, if to anything.
bool IsRelayAddress(std::string_view address);
Result<RelayAddress> ParseRelayAddress(std::string_view address);
std::string FormatRelayAddress(const RelayAddress& address);

// How a peer is reached through both routers with the help of the relay at `address`
// (punch_rules.h). IsRelayAddress holds for it as well. This machine's own word: no peer is known
// by it.
std::string PunchAddress(const std::string& address);
bool IsPunchAddress(std::string_view address);
Result<RelayAddress> RelayOfPunch(std::string_view address);

// For people: without the secret, "relay host:port". Others stay as they are.
std::string ShownAddress(std::string_view address);

// Those of `addresses` that are relays', in their order; what is not well-formed is left out.
std::vector<RelayAddress> RelaysAmong(const std::vector<std::string>& addresses);

}  // namespace shoal::net

#endif  // SHOAL_NET_RELAY_RELAY_ADDRESS_H_
