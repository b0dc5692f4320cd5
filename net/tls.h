// Mutual TLS with pinned keys, for every connection between machines: who the other end is, is
// decided by its Ed25519 key alone; there are no authorities and no host names to check.

#ifndef SHOAL_NET_TLS_H_
#define SHOAL_NET_TLS_H_

#include <memory>

#include "common/ids.h"
#include "common/status.h"
#include "net/identity.h"

namespace grpc {
class AuthContext;
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace shoal::net {

// Accepts any client with a valid self-signed Ed25519 certificate; who it is and whether it is
// welcome, the handlers decide from PeerOf.
std::shared_ptr<grpc::ServerCredentials> ServerTls(const Identity& identity);

// Talks to `expected` only.
std::shared_ptr<grpc::ChannelCredentials> ClientTls(const Identity& identity,
                                                    const PeerId& expected);

// Who is at the other end of an accepted call; null context and missing certificate are errors.
Result<PeerId> PeerOf(const grpc::AuthContext* context);

}  // namespace shoal::net

#endif  // SHOAL_NET_TLS_H_
