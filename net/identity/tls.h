// Mutual TLS with pinned keys, for every connection between machines. The Ed25519 key alone decides
// who the other end is; there are no authorities and no host names to check.

#ifndef SHOAL_NET_IDENTITY_TLS_H_
#define SHOAL_NET_IDENTITY_TLS_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>

#include "common/ids.h"
#include "common/status.h"
#include "net/identity/identity.h"

namespace grpc {
class AuthContext;
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace shoal::net {

// Whether a client may connect; OK only if so. Runs within the handshake, before gRPC sends or
// reads a byte of HTTP/2. The certificate is valid, and that of `key`. Thread: any.
using Admission = std::function<Status(const PeerId& key, std::string_view certificate_pem)>;

// Accepts clients with a valid self-signed Ed25519 certificate that `admission` admits.
std::shared_ptr<grpc::ServerCredentials> ServerTls(const Identity& identity, Admission admission);

// How the error begins where another key than the expected one answers.
inline constexpr std::string_view kOtherKey = "the other end has key ";

// Talks to `expected` only. Sets `reached` when the other end has proved that it is.
std::shared_ptr<grpc::ChannelCredentials> ClientTls(const Identity& identity,
                                                    const PeerId& expected,
                                                    std::shared_ptr<std::atomic<bool>> reached);

// Who is at the other end of an accepted call; null context and missing certificate are errors.
Result<PeerId> PeerOf(const grpc::AuthContext* context);
// The invite that the other end's certificate has a ticket of; of none: 0. That the ticket holds is
// known from the handshake.
InviteId InviteOf(const grpc::AuthContext* context);

}  // namespace shoal::net

#endif  // SHOAL_NET_IDENTITY_TLS_H_
