#include "net/admission/peer_server.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>

#include <chrono>
#include <utility>

#include "net/identity/grpc_setup.h"

namespace shoal::net {
namespace {

// A server counts pings that come faster than its minimum as strikes, so the minimum stays well
// below the clients' interval.
constexpr int kPingMinimumMs = 1'000;
constexpr int kPingStrikes = 2;
// Ends with the client's SETTINGS. What follows, the gate bounds (ConnectionLimits::proof_time).
constexpr int kHandshakeMs = 10'000;
constexpr int kStreamsPerConnection = 16;
// A connection without a call; artefact connections rest between checkpoints, and come back.
constexpr int kIdleMs = 120'000;

void Bound(const PeerServerOptions& options, grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kPingMinimumMs);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, kPingStrikes);
  builder->SetMaxReceiveMessageSize(options.message_bytes_max);
  grpc::ResourceQuota quota("shoal " + options.listen);
  quota.Resize(options.memory_bytes);
  builder->SetResourceQuota(quota);
}

}  // namespace

PeerServer::PeerServer(std::shared_ptr<ConnectionGate> gate,
                       std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor,
                       std::unique_ptr<grpc::Server> server)
    : gate_(std::move(gate)), acceptor_(std::move(acceptor)), server_(std::move(server)) {}

PeerServer::~PeerServer() { Stop(); }

Result<std::unique_ptr<PeerServer>> PeerServer::Start(
    const PeerServerOptions& options, const std::shared_ptr<ConnectionGate>& gate,
    const std::function<void(grpc::ServerBuilder*)>& add) {
  PrepareGrpc();
  grpc::ServerBuilder builder;
  auto acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      ServerTls(*options.identity, options.admission));
  Bound(options, &builder);
  add(&builder);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return Internal("gRPC cannot start a server for " + options.listen);
  std::unique_ptr<PeerServer> made(new PeerServer(gate, std::move(acceptor), std::move(server)));
  gate->Open([taker = made->acceptor_.get()](int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.fd = fd;
    taker->HandleNewConnection(&parameters);
  });
  return made;
}

void PeerServer::Stop() {
  if (!server_) return;
  gate_->Close();  // first: gRPC would lose a descriptor that comes while it stops
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

Result<PeerId> CallerOf(const grpc::ServerContextBase* context, ConnectionGate* gate) {
  SHOAL_ASSIGN_OR_RETURN(const PeerId peer, PeerOf(context->auth_context().get()));
  if (!gate->Prove(PeerAddress(context->peer()), peer)) {
    return ResourceExhausted("too many connections; close some, or try again later");
  }
  return peer;
}

}  // namespace shoal::net
