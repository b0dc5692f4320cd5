#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <utility>
#include <vector>

#include "common/log.h"
#include "common/mutex.h"
#include "net/base/host_port.h"
#include "net/base/local_addresses.h"
#include "net/base/wire_bytes.h"
#include "net/control/artefact_client.h"
#include "net/control/control.h"
#include "net/identity/grpc_setup.h"
#include "net/identity/join_ticket.h"
#include "net/identity/tls.h"
#include "net/relay/dial_address.h"
#include "net/relay/relay_address.h"
#include "proto/control.grpc.pb.h"

namespace shoal::net {
namespace {

namespace pb = control::v1;

constexpr std::size_t kQueueMessagesMax = 256;
constexpr std::size_t kQueueBytesMax = 64 << 20;

// Well below what a ticket may be old (relay_ticket.h).
constexpr Duration kRelayedChannelAge = std::chrono::minutes(30);

class AttendCall;

// What the client object shares with its calls and tasks. Handlers and the choice of addresses
// are the executor's.
struct ClientState {
  ControlClientOptions options;
  ControlClientHandlers handlers;
  std::shared_ptr<ExecutorGate> executor;
  bool closed = false;
  bool ended = false;  // on_closed ran, or nothing is to be said any more
  bool open = false;
  std::size_t next_address = 0;
  std::string failures;
  std::string address;
  std::shared_ptr<AttendCall> call;
  std::deque<pb::PeerMessage> early;  // queued before the stream is open
  std::size_t early_bytes = 0;
  std::atomic<std::uint64_t> sent_wire_bytes = 0;
  std::atomic<std::uint64_t> received_wire_bytes = 0;
};

// Among several schedulers, one whose machine is gone must not keep a peer from the next.
Keepalive KeepaliveOf(const ClientState& state) {
  if (state.options.addresses.size() == 1) return {};
  return {kLeaderPingEvery, kLeaderPingAnswer};
}
Duration ConnectTimeoutOf(const ClientState& state) {
  const bool last = state.next_address >= state.options.addresses.size();
  return last ? kConnectTimeout : kConnectOneTimeout;
}

void Opened(const std::shared_ptr<ClientState>& state, AttendCall* call);
void Ended(const std::shared_ptr<ClientState>& state, AttendCall* call, const Status& status);

// The stream to one address.
class AttendCall final : public grpc::ClientBidiReactor<pb::PeerMessage, pb::SchedulerMessage>,
                         public std::enable_shared_from_this<AttendCall> {
 public:
  AttendCall(std::shared_ptr<ClientState> state, const std::string& address)
      : state_(std::move(state)),
        channel_(NewPinnedChannel(DialAddress(address, state_->options.scheduler),
                                  *state_->options.identity, state_->options.scheduler,
                                  kControlMessageBytesMax, reached_, KeepaliveOf(*state_))),
        stub_(pb::Control::NewStub(channel_)) {}

  void Start() {
    self_ = shared_from_this();
    stub_->async()->Attend(&context_, this);
    AddHold();
    StartCall();
    state_->executor->PostAfter("control.connect_timeout", ConnectTimeoutOf(*state_),
                                [weak = weak_from_this()] {
                                  if (const auto self = weak.lock()) self->ConnectTimeout();
                                });
  }

  Status Send(pb::PeerMessage message) {
    const std::size_t bytes = message.ByteSizeLong();
    MutexLock lock(mutex_);
    if (ended_) return Unavailable("the connection to the scheduler is closed");
    if (queue_.size() >= kQueueMessagesMax || queued_bytes_ + bytes > kQueueBytesMax) {
      return ResourceExhausted("the scheduler does not read our messages");
    }
    queued_bytes_ += bytes;
    queue_.push_back(std::move(message));
    WriteNext();
    return Status::Ok();
  }

  // `broken`: gRPC knows it already. It tells how a call ended only after all earlier messages were
  // read, so reading goes on and finds that end. Else the call is cancelled, and nothing more read.
  void End(const Status& reason, bool broken) {
    MutexLock lock(mutex_);
    if (!std::exchange(ended_, true) && !broken) failure_ = reason;
    if (broken || !reading_on_) return;
    context_.TryCancel();
    ReadNoMore();
  }

  void OnReadInitialMetadataDone(bool ok) override {
    if (!ok) {
      EndOfReading();
      return;
    }
    {
      MutexLock lock(mutex_);
      connected_ = true;
    }
    state_->executor->Post("control.open", [self = shared_from_this()] {
      Opened(self->state_, self.get());
      self->ReadNext();
    });
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      EndOfReading();
      return;
    }
    state_->received_wire_bytes += WireBytes(read_.ByteSizeLong());
    state_->executor->Post("control.message", [self = shared_from_this()] {
      ClientState& state = *self->state_;
      pb::SchedulerMessage message = std::move(self->read_);
      self->read_ = pb::SchedulerMessage();
      self->ReadNext();
      if (state.closed || state.call.get() != self.get()) return;
      if (state.handlers.on_message) state.handlers.on_message(std::move(message));
    });
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      End(Status::Ok(), true);
      return;
    }
    MutexLock lock(mutex_);
    writing_ = false;
    queued_bytes_ -= queue_.front().ByteSizeLong();
    queue_.pop_front();
    WriteNext();
  }

  void OnDone(const grpc::Status& status) override {
    Status outcome;
    {
      MutexLock lock(mutex_);
      ended_ = true;
      outcome = failure_.ok() ? FromGrpc(status) : failure_;
      // The right scheduler ended the connection before the first message: so it refuses a key.
      if (outcome.code() == StatusCode::kUnavailable && *reached_ && !connected_) {
        outcome = PermissionDenied(
            "it does not let this machine in: the invite is used up, expired, revoked or of "
            "another "
            "run, or the organiser removed this machine, or the scheduler runs another version of "
            "shoal; ask the organiser for a new invite (`shoal swarm invite` makes one), then: "
            "shoal join shoal1_...");
      }
    }
    state_->executor->Post("control.closed", [self = shared_from_this(), outcome] {
      Ended(self->state_, self.get(), outcome);
    });
    self_.reset();  // may delete this
  }

 private:
  void ConnectTimeout() {
    {
      MutexLock lock(mutex_);
      if (connected_) return;
    }
    End(DeadlineExceeded("no answer"), false);
  }

  void ReadNext() {
    MutexLock lock(mutex_);
    if (reading_on_) StartRead(&read_);
  }

  void EndOfReading() {
    End(Status::Ok(), true);
    MutexLock lock(mutex_);
    ReadNoMore();
  }

  // Reads and writes are started from outside of reactions until now.
  void ReadNoMore() SHOAL_REQUIRES(mutex_) {
    if (std::exchange(reading_on_, false)) RemoveHold();
  }

  void WriteNext() SHOAL_REQUIRES(mutex_) {
    if (ended_ || writing_ || queue_.empty()) return;
    writing_ = true;
    state_->sent_wire_bytes += WireBytes(queue_.front().ByteSizeLong());
    StartWrite(&queue_.front());
  }

  const std::shared_ptr<ClientState> state_;
  const std::shared_ptr<std::atomic<bool>> reached_ = std::make_shared<std::atomic<bool>>(false);
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<pb::Control::Stub> stub_;
  grpc::ClientContext context_;
  pb::SchedulerMessage read_;
  std::shared_ptr<AttendCall> self_;

  Mutex mutex_;
  bool connected_ SHOAL_GUARDED_BY(mutex_) = false;
  bool ended_ SHOAL_GUARDED_BY(mutex_) = false;
  bool reading_on_ SHOAL_GUARDED_BY(mutex_) = true;  // there is a hold
  bool writing_ SHOAL_GUARDED_BY(mutex_) = false;
  Status failure_ SHOAL_GUARDED_BY(mutex_);
  std::size_t queued_bytes_ SHOAL_GUARDED_BY(mutex_) = 0;
  std::deque<pb::PeerMessage> queue_ SHOAL_GUARDED_BY(mutex_);  // front: being written
};

// on_closed, once.
void Finish(const std::shared_ptr<ClientState>& state, const Status& status) {
  if (state->closed || state->ended) return;
  state->ended = true;
  state->call = nullptr;
  if (state->handlers.on_closed) state->handlers.on_closed(status);
}

// What gRPC says about a failed dial, without what only its authors need.
std::string DialFailure(const std::string& message) {
  constexpr std::string_view kRemote = "remote host: ";
  const std::size_t key = message.find(kOtherKey);
  if (key != std::string::npos) {
    return message.substr(key) + ", so it is not the scheduler of this invite";
  }
  const std::size_t cause = message.rfind(kRemote);
  return cause == std::string::npos ? message : message.substr(cause + kRemote.size());
}

void TryNextAddress(const std::shared_ptr<ClientState>& state) {
  const auto& addresses = state->options.addresses;
  if (state->next_address >= addresses.size()) {
    const bool other_run = state->failures.find(kOtherKey) != std::string::npos;
    Finish(state, Unavailable("the scheduler cannot be reached" + state->failures +
                              (other_run ? "; the invite belongs to another run or to an earlier "
                                           "scheduler: ask the organiser for a new one"
                                         : "; check that it runs and that its port is open")));
    return;
  }
  state->address = addresses[state->next_address++];
  state->call = std::make_shared<AttendCall>(state, state->address);
  state->call->Start();
}

void Opened(const std::shared_ptr<ClientState>& state, AttendCall* call) {
  if (state->closed || state->call.get() != call) return;
  state->open = true;
  for (pb::PeerMessage& message : state->early) {
    const Status status = call->Send(std::move(message));
    if (!status.ok()) call->End(status, false);
  }
  state->early.clear();
  if (state->handlers.on_open) state->handlers.on_open();
}

void Ended(const std::shared_ptr<ClientState>& state, AttendCall* call, const Status& status) {
  if (state->closed || state->call.get() != call) return;
  if (state->open) {
    // OK from gRPC means that the scheduler ended the stream without a reason.
    Finish(state, status.ok() ? Unavailable("the scheduler closed the connection") : status);
    return;
  }
  if (status.code() != StatusCode::kUnavailable && status.code() != StatusCode::kDeadlineExceeded) {
    Finish(state, status);  // it was reached, and refused us
    return;
  }
  const std::string failure = DialFailure(status.message());
  state->failures +=
      (state->failures.empty() ? " (" : "; ") + ShownAddress(state->address) + ": " + failure;
  // An address that does not answer takes seconds, and an invite may have many. The end of the last
  // one is told with all of them.
  const auto& addresses = state->options.addresses;
  if (state->next_address < addresses.size()) {
    if (!state->options.tries_again) {
      SHOAL_LOG(kWarning, "net", "control.dial_failed", {"address", ShownAddress(state->address)},
                {"error", failure}, {"next", ShownAddress(addresses[state->next_address])});
    }
  } else {
    state->failures += ")";
  }
  TryNextAddress(state);
}

// Of this machine towards others: a loopback address stands for a line in demos and benches.
bool IsOwnAddress(const std::string& address) {
  const Result<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok() || parsed->host.starts_with("127.")) return false;
  const std::vector<std::string> own = LocalAddresses();
  return std::ranges::find(own, parsed->host) != own.end();
}

class GrpcControlClient final : public ControlClient {
 public:
  GrpcControlClient(const ControlClientOptions& options, Executor* executor,
                    std::shared_ptr<RateLimiter> upload, std::shared_ptr<RateLimiter> download,
                    ControlClientHandlers handlers)
      : executor_(executor),
        state_(std::make_shared<ClientState>()),
        artefacts_(std::make_shared<ArtefactContext>()) {
    state_->options = options;
    const auto with_ticket = WithTicket(*options.identity, options.join_secret, options.scheduler);
    if (with_ticket.ok()) state_->options.identity = *with_ticket;
    state_->handlers = std::move(handlers);
    state_->executor = std::make_shared<ExecutorGate>(executor);
    artefacts_->executor = state_->executor;
    upload_ = std::move(upload);
    download_ = std::move(download);
    // Not from the constructor: no handler may run before the caller has the client.
    executor->Post("control.dial", [state = state_, status = with_ticket.status()] {
      if (state->closed) return;
      status.ok() ? TryNextAddress(state) : Finish(state, status);
    });
  }

  // Waits for nothing: calls end in the background, whatever their peers and limits do meanwhile.
  ~GrpcControlClient() override {
    SHOAL_ASSERT_ON(*executor_);
    state_->closed = true;
    if (state_->call) state_->call->End(Cancelled("the client was closed"), false);
    CloseArtefacts(artefacts_.get());
    // Not at once: this may be a handler that destroys its own client.
    state_->executor->Post("control.drop_handlers", [state = state_] {
      state->handlers = {};
      state->call = nullptr;
    });
    state_->executor->Close();
  }

  Status Send(pb::PeerMessage message) override {
    SHOAL_ASSERT_ON(*executor_);
    if (state_->ended) return Unavailable("the connection to the scheduler is closed");
    if (state_->open && state_->call) return state_->call->Send(std::move(message));
    state_->early_bytes += message.ByteSizeLong();
    if (state_->early.size() >= kQueueMessagesMax || state_->early_bytes > kQueueBytesMax) {
      return ResourceExhausted("too many messages wait for the scheduler");
    }
    state_->early.push_back(std::move(message));
    return Status::Ok();
  }

  void Fetch(const std::string& hash, std::uint64_t offset,
             std::function<Status(std::string chunk)> on_chunk,
             std::function<void(Status)> on_done) override {
    SHOAL_ASSERT_ON(*executor_);
    StartFetch(artefacts_, Channel(), hash, offset, std::move(on_chunk), std::move(on_done));
  }

  void Upload(const std::string& hash, std::uint64_t size,
              std::function<Result<std::string>(std::uint64_t, std::size_t)> read,
              std::function<void(Status)> on_done) override {
    SHOAL_ASSERT_ON(*executor_);
    StartUpload(artefacts_, Channel(), hash, size, std::move(read), std::move(on_done));
  }

  std::string address() const override {
    SHOAL_ASSERT_ON(*executor_);
    return state_->address;
  }

  ControlStats stats() const override {
    ControlStats stats;
    stats.artefact_sent_bytes = artefacts_->sent_wire_bytes;
    stats.artefact_received_bytes = artefacts_->received_wire_bytes;
    stats.fetch_bps = artefacts_->fetch_bps;
    stats.upload_bps = artefacts_->upload_bps;
    stats.sent_wire_bytes = state_->sent_wire_bytes + stats.artefact_sent_bytes;
    stats.received_wire_bytes = state_->received_wire_bytes + stats.artefact_received_bytes;
    return stats;
  }

 private:
  // A connection of its own, so that control messages never queue behind artefacts.
  const std::shared_ptr<grpc::Channel>& Channel() {
    const std::string& address =
        state_->address.empty() ? state_->options.addresses.at(0) : state_->address;
    // A relay's ticket goes with each connection of the channel, also those that it makes later.
    const TimePoint now = SystemClock().Now();
    const bool old = IsRelayAddress(address) && now - channel_made_at_ > kRelayedChannelAge;
    if (!channel_ || channel_address_ != address || old) {
      channel_made_at_ = now;
      channel_ = NewPinnedChannel(DialAddress(address, state_->options.scheduler),
                                  *state_->options.identity, state_->options.scheduler,
                                  kControlMessageBytesMax);
      channel_address_ = address;
      // What stays on this machine takes nothing of its line, nor tells how much that takes.
      const bool here = IsOwnAddress(address);
      const auto unlimited = std::make_shared<RateLimiter>(&SystemClock());
      artefacts_->upload = here ? unlimited : upload_;
      artefacts_->download = here ? unlimited : download_;
    }
    return channel_;
  }

  Executor* const executor_;
  const std::shared_ptr<ClientState> state_;
  const std::shared_ptr<ArtefactContext> artefacts_;
  std::shared_ptr<RateLimiter> upload_, download_;
  std::shared_ptr<grpc::Channel> channel_;
  std::string channel_address_;
  TimePoint channel_made_at_{};
};

}  // namespace

std::unique_ptr<ControlClient> NewControlClient(const ControlClientOptions& options,
                                                Executor* executor,
                                                std::shared_ptr<RateLimiter> upload,
                                                std::shared_ptr<RateLimiter> download,
                                                ControlClientHandlers handlers) {
  SHOAL_CHECK(options.identity && !options.addresses.empty() && upload && download);
  return std::make_unique<GrpcControlClient>(options, executor, std::move(upload),
                                             std::move(download), std::move(handlers));
}

}  // namespace shoal::net
