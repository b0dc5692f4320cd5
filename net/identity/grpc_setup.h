// What every use of gRPC in shoal shares: channel and server settings, status mapping, log routing.

#ifndef SHOAL_NET_IDENTITY_GRPC_SETUP_H_
#define SHOAL_NET_IDENTITY_GRPC_SETUP_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "common/ids.h"
#include "common/status.h"
#include "common/timeouts.h"
#include "net/identity/identity.h"

namespace grpc {
class Channel;
class Status;
}  // namespace grpc

namespace shoal::net {

// The largest message of the control service; a plan with its artefacts fits easily.
inline constexpr int kControlMessageBytesMax = 16 << 20;
inline constexpr std::size_t kArtefactChunkBytes = 256 * 1024;

// NAT mappings die within minutes, hence pings without calls.
inline constexpr int kKeepaliveMs =
    static_cast<int>(kKeepaliveEvery / std::chrono::milliseconds(1));
inline constexpr int kKeepaliveTimeoutMs =
    static_cast<int>(kKeepaliveAnswer / std::chrono::milliseconds(1));
inline constexpr int kMetadataBytesMax = 16 * 1024;

// Call before the first use of gRPC. Log lines of gRPC and protobuf become debug lines of
// categories "grpc" and "protobuf". The callback threads of gRPC stay for the life of the process.
// Idempotent. Thread: any.
void PrepareGrpc();

// After how long a quiet connection is pinged, and for how long its answer may take.
struct Keepalive {
  Duration every = kKeepaliveEvery, answer = kKeepaliveAnswer;
};

// Where a connection goes: host:port, or a proxy there that is asked by HTTP's CONNECT, before TLS
// begins, for somebody else.
struct ChannelAddress {
  std::string host_port;
  std::string connect_to;      // empty: no proxy
  std::string connect_header;  // "Name: value"
};

// A connection of its own to `address` (never shared with another channel), pinned to `peer`. Sets
// `reached`, if there is one, as soon as the other end has proved to be `peer`.
std::shared_ptr<grpc::Channel> NewPinnedChannel(
    const ChannelAddress& address, const Identity& identity, const PeerId& peer,
    int message_bytes_max, std::shared_ptr<std::atomic<bool>> reached = nullptr,
    const Keepalive& keepalive = {});

Status FromGrpc(const grpc::Status& status);
grpc::Status ToGrpc(const Status& status);

// "ipv4:127.0.0.1:1234" -> "127.0.0.1:1234"; an IPv6 address gets its brackets back.
std::string PeerAddress(const std::string& grpc_peer);

}  // namespace shoal::net

#endif  // SHOAL_NET_IDENTITY_GRPC_SETUP_H_
