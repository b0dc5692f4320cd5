// RelayServer: makes peers reachable that nobody can dial. Such a peer registers here by a
// connection that it keeps; a caller asks for it by key; the peer comes for the call with a second
// connection, and the relay splices the two. What passes is the TLS of the two ends. The relay
// knows keys, addresses and amounts, and nothing of the content. Layout: docs/WIRE.md, "Relay".
//
// The port stands behind a ConnectionGate, whose limits hold: on connections that have proved
// nothing, in all and per line, and on connections per key.

#ifndef SHOAL_NET_RELAY_RELAY_SERVER_H_
#define SHOAL_NET_RELAY_RELAY_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "common/units.h"

namespace shoal::net {

struct RelayServerOptions {
  std::string listen = "0.0.0.0:8783";  // host:port, port 0: any free one
  std::string secret;                   // 16 bytes, hex
  std::size_t peers_max = 1024;         // registered at once
  std::size_t calls_per_peer = 256;     // at once; a scheduler has two of each member
  BitsPerSecond rate{};                 // of all that passes; 0: no cap
  BitsPerSecond rate_per_peer{};        // of what passes to and from one peer; 0: no cap
};

struct RelayPeerStats {
  PeerId key;
  std::string address;
  std::uint64_t calls = 0;  // that stand now
  std::uint64_t bytes = 0;  // that passed since it registered, both ways
};

struct RelayStats {
  std::vector<RelayPeerStats> peers;  // registered, by key
  std::size_t waiting = 0;            // callers whose peer has not come yet
  std::uint64_t calls = 0;            // that stand now
  std::uint64_t calls_total = 0;      // that were connected, since the start
  std::uint64_t refused_total = 0;    // calls and registrations
  std::uint64_t punches_total = 0;    // pairs that were told each other's address
  std::uint64_t bytes_total = 0;
  double rate_bps = 0;  // of the last seconds
  std::size_t connections = 0;
};

class RelayServer {
 public:
  virtual ~RelayServer() = default;  // ends all connections
  virtual std::uint16_t port() const = 0;
  virtual RelayStats stats() const = 0;  // Thread: any.
};

Result<std::unique_ptr<RelayServer>> StartRelayServer(const RelayServerOptions& options);

}  // namespace shoal::net

#endif  // SHOAL_NET_RELAY_RELAY_SERVER_H_
