// PeerServer: a gRPC server that only admitted keys get to speak to. It stands behind a
// ConnectionGate. The TLS handshake checks the right to connect, and limits bound what a connection
// may hold.

#ifndef SHOAL_NET_ADMISSION_PEER_SERVER_H_
#define SHOAL_NET_ADMISSION_PEER_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/ids.h"
#include "common/status.h"
#include "net/admission/connection_gate.h"
#include "net/identity/identity.h"
#include "net/identity/tls.h"

namespace grpc {
class Server;
class ServerBuilder;
class ServerContextBase;
namespace experimental {
class ExternalConnectionAcceptor;
}
}  // namespace grpc

namespace shoal::net {

struct PeerServerOptions {
  std::string listen;  // host:port, port 0: any free one
  std::shared_ptr<const Identity> identity;
  Admission admission;
  int message_bytes_max = 0;
  // What gRPC may hold for all connections together.
  std::size_t memory_bytes = 0;
  ConnectionLimits connections{};
};

class PeerServer {
 public:
  // The services that `add` registers must outlive the server. They may ask the gate as soon as
  // they are called. Unavailable: port in use, or not an address of this machine.
  static Result<std::unique_ptr<PeerServer>> Start(
      const PeerServerOptions& options, const std::shared_ptr<ConnectionGate>& gate,
      const std::function<void(grpc::ServerBuilder*)>& add);
  ~PeerServer();  // Stop

  // Takes no connection any more, cancels all calls and waits for their end.
  void Stop();

 private:
  PeerServer(std::shared_ptr<ConnectionGate> gate,
             std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor,
             std::unique_ptr<grpc::Server> server);

  const std::shared_ptr<ConnectionGate> gate_;
  const std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;
};

// Who calls; the call proves its connection to the gate, so it comes first in every handler.
Result<PeerId> CallerOf(const grpc::ServerContextBase* context, ConnectionGate* gate);

}  // namespace shoal::net

#endif  // SHOAL_NET_ADMISSION_PEER_SERVER_H_
