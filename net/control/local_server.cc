#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/server_callback.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "common/mutex.h"
#include "net/control/local_control.h"
#include "net/identity/grpc_setup.h"
#include "proto/local.grpc.pb.h"

namespace shoal::net {
namespace {

namespace pb = local::v1;

constexpr mode_t kSocketMode = 0660;

struct LocalState {
  LocalHandlers handlers;
  Executor* executor = nullptr;
  bool closed = false;  // executor thread only: no handler runs any more
};

// One call. The answer may come late, twice by mistake, or after the caller has left.
template <typename Reply>
class LocalCall final : public grpc::ServerUnaryReactor,
                        public std::enable_shared_from_this<LocalCall<Reply>> {
 public:
  explicit LocalCall(Reply* reply) : reply_(reply) {}

  void Hold() {
    MutexLock lock(mutex_);
    self_ = this->shared_from_this();
  }

  // Fills the reply and ends the call, unless it has ended.
  template <typename Fill>
  void Answer(const Status& status, Fill fill) {
    MutexLock lock(mutex_);
    if (finished_) return;
    finished_ = true;
    if (status.ok()) fill(reply_);
    Finish(ToGrpc(status));
  }

  void OnCancel() override {
    Answer(Cancelled("the caller left"), [](Reply*) {});
  }
  void OnDone() override {
    std::shared_ptr<LocalCall> self;  // let go of after the lock: it may hold the mutex
    MutexLock lock(mutex_);
    self = std::move(self_);
  }

 private:
  Reply* const reply_;  // gRPC's, valid until the call is finished
  Mutex mutex_;
  bool finished_ SHOAL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<LocalCall> self_ SHOAL_GUARDED_BY(mutex_);
};

class LocalService final : public pb::Local::CallbackService {
 public:
  explicit LocalService(std::shared_ptr<LocalState> state) : state_(std::move(state)) {}

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext*, const pb::StatusRequest*,
                                   pb::StatusReply* reply) override {
    const auto call = std::make_shared<LocalCall<pb::StatusReply>>(reply);
    call->Hold();
    state_->executor->Post("local.status", [state = state_, call] {
      if (state->closed || !state->handlers.on_status) {
        call->Answer(Unavailable("the daemon is stopping"), [](pb::StatusReply*) {});
        return;
      }
      state->handlers.on_status([state, call](std::string json) {
        SHOAL_ASSERT_ON(*state->executor);
        call->Answer(shoal::Status::Ok(),
                     [&json](pb::StatusReply* out) { out->set_json(std::move(json)); });
      });
    });
    return call.get();
  }

  grpc::ServerUnaryReactor* Command(grpc::CallbackServerContext*, const pb::CommandRequest* request,
                                    pb::CommandReply* reply) override {
    const auto call = std::make_shared<LocalCall<pb::CommandReply>>(reply);
    call->Hold();
    std::map<std::string, std::string> arguments(request->arguments().begin(),
                                                 request->arguments().end());
    state_->executor->Post("local.command", [state = state_, call, name = request->name(),
                                             arguments = std::move(arguments)] {
      if (state->closed || !state->handlers.on_command) {
        call->Answer(Unavailable("the daemon is stopping"), [](pb::CommandReply*) {});
        return;
      }
      state->handlers.on_command(name, arguments, [state, call](Result<CommandResult> result) {
        SHOAL_ASSERT_ON(*state->executor);
        call->Answer(result.status(), [&result](pb::CommandReply* out) {
          out->set_message(result->message);
          out->set_json(result->json);
        });
      });
    });
    return call.get();
  }

 private:
  const std::shared_ptr<LocalState> state_;
};

class GrpcLocalServer final : public LocalServer {
 public:
  GrpcLocalServer(std::shared_ptr<LocalState> state, std::unique_ptr<LocalService> service,
                  std::unique_ptr<grpc::Server> server)
      : state_(std::move(state)), service_(std::move(service)), server_(std::move(server)) {}

  // An answer that waits elsewhere is overtaken: the caller sees the call cancelled.
  ~GrpcLocalServer() override {
    SHOAL_ASSERT_ON(*state_->executor);
    state_->closed = true;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

 private:
  const std::shared_ptr<LocalState> state_;
  const std::unique_ptr<LocalService> service_;
  const std::unique_ptr<grpc::Server> server_;
};

// Makes way for a new socket: a file that nobody listens on is removed. Already exists: somebody
// listens, or it is no socket.
Status ClearSocket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return InvalidArgument("the path of the local socket is longer than " +
                           std::to_string(sizeof(address.sun_path) - 1) + " bytes: " + path +
                           "; choose a shorter state folder");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? Status::Ok() : FromErrno(errno, "look at local socket " + path);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return AlreadyExists(path + " exists and is not a socket; move it away");
  }
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return FromErrno(errno, "make a local socket");
  const int connected = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int error = errno;
  ::close(fd);
  if (connected == 0) {
    return AlreadyExists("another daemon listens on " + path +
                         "; stop it first, or use another state folder");
  }
  if (error != ECONNREFUSED) return FromErrno(error, "connect to local socket " + path);
  if (::unlink(path.c_str()) != 0) return FromErrno(errno, "remove stale socket " + path);
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<LocalServer>> NewLocalServer(const std::string& socket_path,
                                                    Executor* executor, LocalHandlers handlers) {
  PrepareGrpc();
  SHOAL_RETURN_IF_ERROR(ClearSocket(socket_path));
  auto state = std::make_shared<LocalState>();
  state->handlers = std::move(handlers);
  state->executor = executor;
  auto service = std::make_unique<LocalService>(state);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + socket_path, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(kControlMessageBytesMax);
  builder.RegisterService(service.get());
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || ::chmod(socket_path.c_str(), kSocketMode) != 0) {
    const int error = errno;
    if (server) {
      server->Shutdown(std::chrono::system_clock::now());
      server->Wait();
    }
    return Unavailable("cannot listen on local socket " + socket_path + ": " +
                       std::strerror(error) + "; check that its folder exists and is writable");
  }
  return std::unique_ptr<LocalServer>(
      std::make_unique<GrpcLocalServer>(std::move(state), std::move(service), std::move(server)));
}

}  // namespace shoal::net
