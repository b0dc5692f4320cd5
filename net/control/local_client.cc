#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <unistd.h>

#include <chrono>
#include <functional>

#include "common/open_file.h"
#include "common/units.h"
#include "net/control/local_control.h"
#include "net/identity/grpc_setup.h"
#include "proto/local.grpc.pb.h"

namespace shoal::net {
namespace {

namespace pb = local::v1;

using Call = std::function<grpc::Status(pb::Local::Stub*, grpc::ClientContext*)>;

Status Ask(const std::string& socket_path, Duration timeout, const Call& call) {
  PrepareGrpc();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kControlMessageBytesMax);
  const auto channel = grpc::CreateCustomChannel("unix:" + socket_path,
                                                 grpc::InsecureChannelCredentials(), arguments);
  const auto stub = pb::Local::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout));
  const Status status = FromGrpc(call(stub.get(), &context));
  if (status.code() == StatusCode::kUnavailable) {
    SHOAL_RETURN_IF_ERROR(CheckAccess(socket_path, R_OK | W_OK));
    return Unavailable("nobody listens on " + socket_path + "; start the daemon first");
  }
  if (status.code() == StatusCode::kDeadlineExceeded) {
    return DeadlineExceeded("the daemon on " + socket_path + " did not answer within " +
                            FormatDuration(timeout) + "; look at its log");
  }
  return status;
}

}  // namespace

Result<std::string> LocalStatus(const std::string& socket_path, Duration timeout) {
  pb::StatusReply reply;
  SHOAL_RETURN_IF_ERROR(
      Ask(socket_path, timeout, [&reply](pb::Local::Stub* stub, grpc::ClientContext* context) {
        return stub->Status(context, pb::StatusRequest(), &reply);
      }));
  return reply.json();
}

Result<CommandResult> LocalCommand(const std::string& socket_path, const std::string& name,
                                   const std::map<std::string, std::string>& arguments,
                                   Duration timeout) {
  pb::CommandRequest request;
  request.set_name(name);
  request.mutable_arguments()->insert(arguments.begin(), arguments.end());
  pb::CommandReply reply;
  SHOAL_RETURN_IF_ERROR(
      Ask(socket_path, timeout, [&](pb::Local::Stub* stub, grpc::ClientContext* context) {
        return stub->Command(context, request, &reply);
      }));
  return CommandResult{reply.message(), reply.json()};
}

}  // namespace shoal::net
