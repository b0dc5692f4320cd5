#include "net/identity/grpc_setup.h"

#include <absl/synchronization/mutex.h>
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <mutex>
#include <vector>

#include "common/log.h"
#include "common/text.h"
#include "net/identity/tls.h"

namespace shoal::net {
namespace {

// gRPC's own names for what it does where a proxy is between.
constexpr char kConnectServer[] = "grpc.http_connect_server";
constexpr char kConnectHeaders[] = "grpc.http_connect_headers";

constexpr std::size_t kRemoteTextMax = 1024;  // of an error that the other end wrote

void LogLine(gpr_log_func_args* args) {
  SHOAL_LOG(kDebug, "grpc", "line", {"severity", gpr_log_severity_string(args->severity)},
            {"text", std::string_view(args->message)});
}

// A peer's malformed message makes protobuf complain; that must not reach the user's terminal.
void ProtobufLine(google::protobuf::LogLevel, const char*, int, const std::string& text) {
  SHOAL_LOG(kDebug, "protobuf", "line", {"text", text});
}

// gRPC's callback threads end with their last user, and the one who drops the last reference joins
// them. When that is one of these threads itself (a reaction that ends the last call), gRPC 1.51
// aborts. One call on a channel that is never destroyed keeps the threads for the process's life.
void KeepCallbackThreads() {
  struct Holder {
    std::shared_ptr<grpc::Channel> channel =
        grpc::CreateChannel("unix:shoal-nobody-listens", grpc::InsecureChannelCredentials());
    grpc::GenericStub stub{channel};
    grpc::ClientContext context;
    grpc::ByteBuffer request{nullptr, 0};  // empty, but a message
    grpc::ByteBuffer response;
  };
  static Holder* const holder = new Holder;
  holder->context.set_deadline(std::chrono::system_clock::now());
  holder->stub.UnaryCall(&holder->context, "/shoal.none/None", grpc::StubOptions(),
                         &holder->request, &holder->response, [](const grpc::Status&) {});
}

}  // namespace

void PrepareGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Debian's build watches the order of all of gRPC's locks: a search in a graph per lock taken.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    gpr_set_log_function(&LogLine);
    google::protobuf::SetLogHandler(&ProtobufLine);
    KeepCallbackThreads();
  });
}

std::shared_ptr<grpc::Channel> NewPinnedChannel(const ChannelAddress& address,
                                                const Identity& identity, const PeerId& peer,
                                                int message_bytes_max,
                                                std::shared_ptr<std::atomic<bool>> reached,
                                                const Keepalive& keepalive) {
  PrepareGrpc();
  const auto ms = [](Duration time) {
    return static_cast<int>(time / std::chrono::milliseconds(1));
  };
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, ms(keepalive.every));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ms(keepalive.answer));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  arguments.SetMaxReceiveMessageSize(message_bytes_max);
  arguments.SetServiceConfigJSON("{}");
  if (!address.connect_to.empty()) {
    arguments.SetString(kConnectServer, address.connect_to);
    arguments.SetString(kConnectHeaders, address.connect_header);
  }
  return grpc::CreateCustomChannel(address.host_port, ClientTls(identity, peer, std::move(reached)),
                                   arguments);
}

Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return Status::Ok();
  const int code = static_cast<int>(status.error_code());
  return Status(code > 0 && code <= 16 ? static_cast<StatusCode>(code) : StatusCode::kUnknown,
                CleanText(status.error_message(), kRemoteTextMax));
}

grpc::Status ToGrpc(const Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), status.message());
}

std::string PeerAddress(const std::string& grpc_peer) {
  std::string address = grpc_peer.substr(grpc_peer.find(':') + 1);
  for (const auto& [code, bracket] : {std::pair{"%5B", "["}, std::pair{"%5D", "]"}}) {
    if (const std::size_t at = address.find(code); at != std::string::npos) {
      address.replace(at, 3, bracket);
    }
  }
  return address;
}

}  // namespace shoal::net
