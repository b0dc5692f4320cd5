#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <deque>
#include <map>
#include <utility>

#include "common/log.h"
#include "net/admission/peer_server.h"
#include "net/base/wire_bytes.h"
#include "net/control/artefact_service.h"
#include "net/control/control.h"
#include "net/identity/grpc_setup.h"
#include "net/identity/tls.h"
#include "net/relay/relay_door.h"
#include "proto/control.grpc.pb.h"

namespace shoal::net {
namespace {

namespace pb = control::v1;

// What may wait for a peer that does not read: a few plans.
constexpr std::size_t kQueueMessagesMax = 256;
constexpr std::size_t kQueueBytesMax = 64 << 20;
constexpr std::size_t kUnhandledMax = 64;
constexpr int kPeerMessageBytesMax = 1 << 20;  // a heartbeat carries 256 KiB of status
// One is enough; a peer whose old connection is not known to be dead yet comes back by a new one.
constexpr std::size_t kConnectionsPerPeerMax = 4;
constexpr std::size_t kMemoryBytesMax = 512 << 20;

constexpr Duration kLastWord = std::chrono::seconds(5);

class ControlStream;

// What outlives the server object: streams that wind up and tasks that were posted.
struct ConnectionTable {
  ControlServerHandlers handlers;  // executor thread only
  Executor* executor = nullptr;
  bool closed = false;  // executor thread only: no handler runs any more

  std::shared_ptr<ConnectionGate> gate;  // before the server starts

  std::atomic<std::uint64_t> sent_wire_bytes = 0;
  std::atomic<std::uint64_t> received_wire_bytes = 0;

  Mutex mutex;
  bool stopping SHOAL_GUARDED_BY(mutex) = false;
  ConnectionId last_id SHOAL_GUARDED_BY(mutex) = 0;
  std::map<ConnectionId, std::shared_ptr<ControlStream>> connections SHOAL_GUARDED_BY(mutex);

  std::shared_ptr<ControlStream> Find(ConnectionId id) {
    MutexLock lock(mutex);
    const auto found = connections.find(id);
    return found == connections.end() ? nullptr : found->second;
  }
};

// Posts a call of a handler of the server, unless that is gone by then.
template <typename Call>
void PostTo(const std::shared_ptr<ConnectionTable>& table, const char* name, Call call) {
  table->executor->Post(name, [table, call = std::move(call)]() mutable {
    if (!table->closed) call(table->handlers);
  });
}

// One peer's stream.
class ControlStream final : public grpc::ServerBidiReactor<pb::PeerMessage, pb::SchedulerMessage>,
                            public std::enable_shared_from_this<ControlStream> {
 public:
  ControlStream(std::shared_ptr<ConnectionTable> table, grpc::CallbackServerContext* context)
      : table_(std::move(table)), context_(context) {}

  void Start(const Result<PeerId>& peer) {
    self_ = shared_from_this();
    Status status = peer.status();
    std::shared_ptr<ControlStream> displaced;
    if (peer.ok()) status = Register(*peer, &displaced);
    if (displaced) displaced->End(Aborted("the peer opened a newer connection"));
    if (!status.ok()) {
      End(status);
      return;
    }
    const std::string address = PeerAddress(context_->peer());
    PostTo(table_, "control.connect",
           [id = id_, caller = ControlCaller{*peer, InviteOf(context_->auth_context().get()),
                                             table_->gate->IsRelayed(address) ? "" : address}](
               const ControlServerHandlers& handlers) {
             if (handlers.on_connect) handlers.on_connect(id, caller);
           });
    MutexLock lock(mutex_);
    if (finished_) return;
    StartSendInitialMetadata();
    reading_ = true;
    StartRead(&read_);
  }

  void Send(pb::SchedulerMessage message) {
    const std::size_t bytes = message.ByteSizeLong();
    {
      MutexLock lock(mutex_);
      if (finished_) return;
      if (queue_.size() < kQueueMessagesMax && queued_bytes_ + bytes <= kQueueBytesMax) {
        queued_bytes_ += bytes;
        queue_.push_back(std::move(message));
        WriteNext();
        return;
      }
    }
    End(ResourceExhausted("the peer does not read its messages"));
  }

  void End(const Status& reason) {
    MutexLock lock(mutex_);
    if (finished_) return;
    finished_ = true;
    reason_ = reason;
    // A write that waits for a peer that does not read would hold the end up.
    if (writing_) context_->TryCancel();
    Finish(ToGrpc(reason));
  }

  // Lets the queue drain first, so that a last word still arrives.
  void EndSoftly(const Status& reason) {
    {
      MutexLock lock(mutex_);
      if (finished_) return;
      if (writing_) {
        ending_ = true;
        end_reason_ = reason;
        // Whoever does not read gets no last word, and no longer a stream.
        table_->executor->PostAfter("control.last_word", kLastWord,
                                    [weak = weak_from_this(), reason] {
                                      if (const auto self = weak.lock()) self->End(reason);
                                    });
        return;
      }
    }
    End(reason);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      End(Unavailable("the peer hung up"));
      return;
    }
    table_->received_wire_bytes += WireBytes(read_.ByteSizeLong());
    // Handled one by one; a peer that sends faster than we handle waits.
    const auto message = std::make_shared<pb::PeerMessage>(std::move(read_));
    read_ = pb::PeerMessage();
    // Posted before the lock is given up: a handled message starts the next read, whose message
    // must not be posted first.
    MutexLock lock(mutex_);
    reading_ = false;
    ++unhandled_;
    table_->executor->Post("control.message", [self = shared_from_this(), message] {
      if (!self->table_->closed && self->table_->handlers.on_message) {
        self->table_->handlers.on_message(self->id_, std::move(*message));
      }
      self->Handled();
    });
    ReadNext();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      End(Unavailable("the connection broke"));
      return;
    }
    bool end = false;
    Status reason;
    {
      MutexLock lock(mutex_);
      writing_ = false;
      queued_bytes_ -= queue_.front().ByteSizeLong();
      queue_.pop_front();
      if (!finished_) WriteNext();
      end = ending_ && queue_.empty();
      reason = end_reason_;
    }
    if (end) End(reason);
  }

  void OnCancel() override { End(Unavailable("the connection broke")); }

  void OnDone() override {
    Status reason;
    {
      MutexLock lock(mutex_);
      reason = reason_;
    }
    if (id_ != 0) {
      {
        MutexLock lock(table_->mutex);
        table_->connections.erase(id_);
      }
      PostTo(table_, "control.disconnect",
             [id = id_, reason](const ControlServerHandlers& handlers) {
               if (handlers.on_disconnect) handlers.on_disconnect(id, reason);
             });
    }
    self_.reset();
  }

 private:
  // `displaced`: the peer's oldest, if it has too many.
  Status Register(const PeerId& peer, std::shared_ptr<ControlStream>* displaced) {
    MutexLock lock(table_->mutex);
    if (table_->stopping) return Unavailable("the scheduler is stopping");
    std::size_t own = 0;
    for (const auto& [id, connection] : table_->connections) {
      if (connection->peer_ != peer) continue;
      if (own++ == 0) *displaced = connection;
    }
    if (own < kConnectionsPerPeerMax) *displaced = nullptr;
    peer_ = peer;
    if (table_->connections.size() >= kControlConnectionsMax) {
      return ResourceExhausted("too many connections; try again later");
    }
    id_ = ++table_->last_id;
    table_->connections.emplace(id_, shared_from_this());
    return Status::Ok();
  }

  void Handled() {
    MutexLock lock(mutex_);
    --unhandled_;
    ReadNext();
  }

  void ReadNext() SHOAL_REQUIRES(mutex_) {
    if (finished_ || reading_ || unhandled_ >= kUnhandledMax) return;
    reading_ = true;
    StartRead(&read_);
  }

  void WriteNext() SHOAL_REQUIRES(mutex_) {
    if (writing_ || queue_.empty()) return;
    writing_ = true;
    table_->sent_wire_bytes += WireBytes(queue_.front().ByteSizeLong());
    StartWrite(&queue_.front());
  }

  const std::shared_ptr<ConnectionTable> table_;
  grpc::CallbackServerContext* const context_;  // gRPC's, valid until Finish
  ConnectionId id_ = 0;                         // 0: refused
  PeerId peer_;                                 // the same under table_->mutex, once registered
  pb::PeerMessage read_;
  std::shared_ptr<ControlStream> self_;

  Mutex mutex_;
  bool finished_ SHOAL_GUARDED_BY(mutex_) = false;
  bool reading_ SHOAL_GUARDED_BY(mutex_) = false;
  bool writing_ SHOAL_GUARDED_BY(mutex_) = false;
  bool ending_ SHOAL_GUARDED_BY(mutex_) = false;
  Status end_reason_ SHOAL_GUARDED_BY(mutex_);
  Status reason_ SHOAL_GUARDED_BY(mutex_);
  std::size_t unhandled_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::size_t queued_bytes_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::deque<pb::SchedulerMessage> queue_ SHOAL_GUARDED_BY(mutex_);  // front: being written
};

class ControlService final : public pb::Control::CallbackService {
 public:
  explicit ControlService(std::shared_ptr<ConnectionTable> table) : table_(std::move(table)) {}

  grpc::ServerBidiReactor<pb::PeerMessage, pb::SchedulerMessage>* Attend(
      grpc::CallbackServerContext* context) override {
    const auto stream = std::make_shared<ControlStream>(table_, context);
    stream->Start(CallerOf(context, table_->gate.get()));
    return stream.get();
  }

 private:
  const std::shared_ptr<ConnectionTable> table_;
};

class GrpcControlServer final : public ControlServer {
 public:
  GrpcControlServer(Executor* executor, Executor* blocking, ControlServerHandlers handlers)
      : table_(std::make_shared<ConnectionTable>()), backend_(std::make_shared<ArtefactBackend>()) {
    backend_->handlers = handlers;
    backend_->blocking = blocking;
    table_->handlers = std::move(handlers);
    table_->executor = executor;
    control_ = std::make_unique<ControlService>(table_);
    artefacts_ = NewArtefactService(backend_);
  }

  // Streams end at gRPC's hand alone; nothing here needs the executors.
  ~GrpcControlServer() override {
    if (!server_) return;
    SHOAL_ASSERT_ON(*table_->executor);
    table_->closed = true;
    std::vector<std::shared_ptr<ControlStream>> connections;
    {
      MutexLock lock(table_->mutex);
      table_->stopping = true;
      for (const auto& [id, connection] : table_->connections) connections.push_back(connection);
    }
    for (const auto& connection : connections) connection->End(Unavailable("the scheduler stops"));
    connections.clear();
    door_.reset();
    server_->Stop();
    backend_->gate.Close();
  }

  // Once, before anything else. Thread: any.
  Status Start(const ControlServerOptions& options) {
    SHOAL_ASSIGN_OR_RETURN(table_->gate,
                           ConnectionGate::Listen(options.listen, options.connections));
    backend_->connections = table_->gate;
    PeerServerOptions server;
    server.listen = options.listen;
    server.identity = options.identity;
    server.message_bytes_max = kPeerMessageBytesMax;
    server.memory_bytes = kMemoryBytesMax;
    server.admission = options.admission;
    SHOAL_ASSIGN_OR_RETURN(
        server_, PeerServer::Start(server, table_->gate, [this](grpc::ServerBuilder* builder) {
          builder->RegisterService(control_.get());
          builder->RegisterService(artefacts_.get());
        }));
    const std::vector<RelayAddress> relays = RelaysAmong(options.relays);
    if (relays.empty()) return Status::Ok();
    door_ = NewRelayDoor(options.identity, table_->gate->port(),
                         [gate = table_->gate](int fd) { gate->TakeRelayed(fd); });
    door_->Use(relays);
    return Status::Ok();
  }

  std::uint16_t port() const override { return table_->gate->port(); }

  void Send(ConnectionId connection, pb::SchedulerMessage message) override {
    SHOAL_ASSERT_ON(*table_->executor);
    if (const auto found = table_->Find(connection)) found->Send(std::move(message));
  }

  void Disconnect(ConnectionId connection, Status reason) override {
    SHOAL_ASSERT_ON(*table_->executor);
    if (const auto found = table_->Find(connection)) found->EndSoftly(reason);
  }

  // Thread: any.
  std::vector<RelayState> relays() const override {
    return door_ ? door_->states() : std::vector<RelayState>();
  }

  ControlStats stats() const override {
    ControlStats stats;
    stats.artefact_sent_bytes = backend_->sent_wire_bytes;
    stats.artefact_received_bytes = backend_->received_wire_bytes;
    stats.sent_wire_bytes = table_->sent_wire_bytes + stats.artefact_sent_bytes;
    stats.received_wire_bytes = table_->received_wire_bytes + stats.artefact_received_bytes;
    return stats;
  }

 private:
  const std::shared_ptr<ConnectionTable> table_;
  const std::shared_ptr<ArtefactBackend> backend_;
  std::unique_ptr<ControlService> control_;
  std::unique_ptr<grpc::Service> artefacts_;
  std::unique_ptr<PeerServer> server_;
  std::unique_ptr<RelayDoor> door_;  // null: no relay is used
};

}  // namespace

Result<std::unique_ptr<ControlServer>> NewControlServer(const ControlServerOptions& options,
                                                        Executor* executor, Executor* blocking,
                                                        ControlServerHandlers handlers) {
  SHOAL_CHECK(options.identity && options.admission && executor != nullptr && blocking != nullptr);
  auto server = std::make_unique<GrpcControlServer>(executor, blocking, std::move(handlers));
  SHOAL_RETURN_IF_ERROR(server->Start(options));
  return std::unique_ptr<ControlServer>(std::move(server));
}

}  // namespace shoal::net
