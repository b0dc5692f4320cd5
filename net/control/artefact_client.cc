#include "net/control/artefact_client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <chrono>
#include <type_traits>
#include <utility>

#include "common/mutex.h"
#include "net/base/flow_meter.h"
#include "net/base/wire_bytes.h"
#include "net/identity/grpc_setup.h"
#include "proto/control.grpc.pb.h"

namespace shoal::net {
namespace {

namespace pb = control::v1;

constexpr Duration kWaitSlice = std::chrono::milliseconds(100);
constexpr Duration kWaitMin = std::chrono::milliseconds(1);
constexpr Duration kWatchInterval = std::chrono::seconds(5);
constexpr std::chrono::seconds kOffsetDeadline{30};
constexpr std::size_t kChunkBytesMin = 16 * 1024;
constexpr double kChunkSeconds = 0.010;

// Calls `then` on the executor once the limiter lets `ticket` through, following changes of the
// cap.
void WaitForTicket(const std::shared_ptr<ExecutorGate>& executor,
                   const std::shared_ptr<RateLimiter>& limiter, RateLimiter::Ticket ticket,
                   std::function<void()> then) {
  const Duration wait = limiter->WaitFor(ticket, kWaitMin);
  if (wait == Duration::zero()) {
    executor->Post("artefact.go", std::move(then));
    return;
  }
  executor->PostAfter("artefact.wait", std::min(wait, kWaitSlice),
                      [executor, limiter, ticket, then = std::move(then)] {
                        WaitForTicket(executor, limiter, ticket, then);
                      });
}

// What both directions share: the call's context, its end, and a watchdog. `Reactor` is the gRPC
// reactor base. State is the executor's, but for what the mutex guards.
template <typename Reactor>
class Transfer : public Reactor,
                 public ArtefactTransfer,
                 public std::enable_shared_from_this<Transfer<Reactor>> {
 public:
  Transfer(std::shared_ptr<ArtefactContext> context, std::shared_ptr<grpc::Channel> channel,
           std::function<void(Status)> on_done)
      : context_(std::move(context)), channel_(std::move(channel)), on_done_(std::move(on_done)) {}

  void Cancel() override { End(Cancelled("the transfer was stopped")); }

  void OnDone(const grpc::Status& status) override {
    {
      MutexLock lock(mutex_);
      ended_ = true;
      if (failure_.ok()) failure_ = Outcome(FromGrpc(status));
    }
    context_->executor->Post("artefact.done", [self = this->shared_from_this()] {
      self->done_ = true;
      if (!self->context_->closed) self->on_done_(self->failure());
    });
    self_.reset();  // may delete this
  }

 protected:
  // Unary calls start all their operations at once and need no hold.
  static constexpr bool kStreams = !std::is_base_of_v<grpc::ClientUnaryReactor, Reactor>;

  // The result of a call that gRPC says ended with `status`.
  virtual Status Outcome(Status status) = 0;

  void Begin() {
    self_ = this->shared_from_this();
    auto& under_way = context_->under_way;
    std::erase_if(under_way, [](const auto& weak) { return weak.expired(); });
    under_way.push_back(self_);
    if constexpr (kStreams) this->AddHold();
    this->StartCall();
    Progress();
    Watch();
  }

  // Our own reason to stop; wins over what gRPC says about a cancelled call.
  void End(const Status& reason) {
    MutexLock lock(mutex_);
    if (ended_) return;
    ended_ = true;
    failure_ = reason;
    call_.TryCancel();
    if constexpr (kStreams) this->RemoveHold();
  }

  // The call ends by itself: no operation is started any more.
  void LetEnd() {
    MutexLock lock(mutex_);
    if (ended_) return;
    ended_ = true;
    if constexpr (kStreams) this->RemoveHold();
  }

  template <typename Act>
  void IfAlive(Act act) {
    MutexLock lock(mutex_);
    if (!ended_) act();
  }

  Status failure() {
    MutexLock lock(mutex_);
    return failure_;
  }

  void Progress() {
    MutexLock lock(mutex_);
    progress_at_ = context_->executor->Now();
  }

  void Watch() {
    context_->executor->PostAfter(
        "artefact.watch", kWatchInterval,
        [weak = std::weak_ptr<Transfer>(this->shared_from_this())] {
          const auto self = weak.lock();
          if (!self || self->done_) return;
          bool stalled = false;
          {
            MutexLock lock(self->mutex_);
            stalled = self->context_->executor->Now() - self->progress_at_ > kTransferStall;
          }
          if (stalled)
            self->End(DeadlineExceeded("the transfer made no progress for " +
                                       FormatDuration(kTransferStall)));
          self->Watch();
        });
  }

  const std::shared_ptr<ArtefactContext> context_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext call_;

 private:
  const std::function<void(Status)> on_done_;
  std::shared_ptr<Transfer> self_;
  bool done_ = false;  // executor thread only
  Mutex mutex_;
  bool ended_ SHOAL_GUARDED_BY(mutex_) = false;
  Status failure_ SHOAL_GUARDED_BY(mutex_);
  TimePoint progress_at_ SHOAL_GUARDED_BY(mutex_){};
};

class FetchCall final : public Transfer<grpc::ClientReadReactor<pb::Chunk>> {
 public:
  FetchCall(std::shared_ptr<ArtefactContext> context, std::shared_ptr<grpc::Channel> channel,
            const std::string& hash, std::uint64_t offset,
            std::function<Status(std::string)> on_chunk, std::function<void(Status)> on_done)
      : Transfer(std::move(context), channel, std::move(on_done)),
        stub_(pb::Artefacts::NewStub(channel)),
        on_chunk_(std::move(on_chunk)) {
    request_.set_hash(hash);
    request_.set_offset(offset);
  }

  void Start() {
    stub_->async()->Fetch(&call_, &request_, this);
    Begin();
    IfAlive([this] { StartRead(&chunk_); });
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      LetEnd();
      return;
    }
    Progress();
    const std::uint64_t wire = WireBytes(chunk_.ByteSizeLong());
    context_->received_wire_bytes += wire;
    const RateLimiter::Ticket ticket = context_->download->Take(wire).end();
    context_->executor->Post("artefact.chunk", [self = Self(), ticket, wire] {
      const double bps = self->flow_.Add(wire, self->context_->executor->Now());
      if (bps > 0) self->context_->fetch_bps = bps;
      self->HandChunk(ticket);
    });
  }

 protected:
  Status Outcome(Status status) override { return status; }

 private:
  std::shared_ptr<FetchCall> Self() {
    return std::static_pointer_cast<FetchCall>(shared_from_this());
  }

  void HandChunk(RateLimiter::Ticket ticket) {
    if (context_->closed) return;
    if (chunk_.data().size() > kArtefactChunkBytes) {
      End(InvalidArgument("the scheduler sent a chunk larger than 256 KiB"));
      return;
    }
    const Status status = on_chunk_(std::move(*chunk_.mutable_data()));
    if (!status.ok()) {
      End(status);
      return;
    }
    WaitForTicket(context_->executor, context_->download, ticket, [self = Self()] {
      self->Progress();
      self->IfAlive([&self] { self->StartRead(&self->chunk_); });
    });
  }

  const std::unique_ptr<pb::Artefacts::Stub> stub_;
  const std::function<Status(std::string)> on_chunk_;
  pb::FetchRequest request_;
  pb::Chunk chunk_;
  FlowMeter flow_;
};

class UploadCall final : public Transfer<grpc::ClientWriteReactor<pb::UploadChunk>> {
 public:
  UploadCall(std::shared_ptr<ArtefactContext> context, std::shared_ptr<grpc::Channel> channel,
             const std::string& hash, std::uint64_t size, std::uint64_t offset,
             std::function<Result<std::string>(std::uint64_t, std::size_t)> read,
             std::function<void(Status)> on_done)
      : Transfer(std::move(context), channel, std::move(on_done)),
        stub_(pb::Artefacts::NewStub(channel)),
        read_(std::move(read)),
        size_(size),
        offset_(offset) {
    chunk_.set_hash(hash);
    chunk_.set_size(size);
  }

  void Start() {
    stub_->async()->Upload(&call_, &reply_, this);
    Begin();
    Next();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      LetEnd();
      return;
    }
    Progress();
    context_->executor->Post("artefact.sent", [self = Self()] {
      const double bps = self->flow_.Add(self->writing_bytes_, self->context_->executor->Now());
      if (bps > 0) self->context_->upload_bps = bps;
      self->Next();
    });
  }
  void OnWritesDoneDone(bool) override { LetEnd(); }

 protected:
  Status Outcome(Status status) override {
    if (!status.ok()) return status;
    if (reply_.offset() == size_) return status;
    return DataLoss("the scheduler kept " + std::to_string(reply_.offset()) + " of " +
                    std::to_string(size_) + " bytes; upload again");
  }

 private:
  std::shared_ptr<UploadCall> Self() {
    return std::static_pointer_cast<UploadCall>(shared_from_this());
  }

  std::size_t ChunkBytes() const {
    const BitsPerSecond rate = context_->upload->rate();
    if (rate.value == 0) return kArtefactChunkBytes;
    const double wanted = rate.bytes_per_second() * kChunkSeconds;
    if (wanted >= static_cast<double>(kArtefactChunkBytes)) return kArtefactChunkBytes;
    return std::max(kChunkBytesMin, static_cast<std::size_t>(wanted));
  }

  void Next() {
    if (context_->closed) return;
    if (offset_ >= size_ && started_) {
      IfAlive([this] { StartWritesDone(); });
      return;
    }
    const std::size_t wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(ChunkBytes(), size_ - offset_));
    auto data = read_(offset_, wanted);
    if (!data.ok() || data->size() != wanted) {
      End(data.ok() ? DataLoss("the file became shorter while it was uploaded") : data.status());
      return;
    }
    started_ = true;  // an empty blob is one empty chunk
    chunk_.set_offset(offset_);
    chunk_.set_data(std::move(data).value());
    offset_ += wanted;
    const std::uint64_t wire = WireBytes(chunk_.ByteSizeLong());
    WaitForTicket(context_->executor, context_->upload, context_->upload->Take(wire),
                  [self = Self(), wire] {
                    self->Progress();
                    self->context_->sent_wire_bytes += wire;
                    self->writing_bytes_ = wire;
                    self->IfAlive([&self] { self->StartWrite(&self->chunk_); });
                  });
  }

  const std::unique_ptr<pb::Artefacts::Stub> stub_;
  const std::function<Result<std::string>(std::uint64_t, std::size_t)> read_;
  const std::uint64_t size_;
  std::uint64_t offset_;
  bool started_ = false;
  std::uint64_t writing_bytes_ = 0;  // of the chunk that is on its way
  FlowMeter flow_;
  pb::UploadChunk chunk_;
  pb::UploadOffsetReply reply_;
};

// Asks where to resume, then hands over to an UploadCall.
class UploadStart final : public Transfer<grpc::ClientUnaryReactor> {
 public:
  UploadStart(std::shared_ptr<ArtefactContext> context, std::shared_ptr<grpc::Channel> channel,
              const std::string& hash, std::uint64_t size,
              std::function<Result<std::string>(std::uint64_t, std::size_t)> read,
              std::function<void(Status)> on_done)
      : Transfer(context, channel, [this](Status status) { Answered(std::move(status)); }),
        stub_(pb::Artefacts::NewStub(channel)),
        read_(std::move(read)),
        on_done_(std::move(on_done)) {
    request_.set_hash(hash);
    request_.set_size(size);
  }

  void Start() {
    call_.set_deadline(std::chrono::system_clock::now() + kOffsetDeadline);
    stub_->async()->UploadOffset(&call_, &request_, &reply_, this);
    Begin();
    LetEnd();
  }

 protected:
  Status Outcome(Status status) override { return status; }

 private:
  void Answered(Status status) {
    const std::uint64_t offset = reply_.offset();
    if (status.ok() && offset > request_.size()) {
      status = InvalidArgument("the scheduler wants to resume behind the end");
    }
    if (!status.ok() || (offset == request_.size() && offset > 0)) {
      on_done_(status);
      return;
    }
    std::make_shared<UploadCall>(context_, channel_, request_.hash(), request_.size(), offset,
                                 read_, on_done_)
        ->Start();
  }

  const std::unique_ptr<pb::Artefacts::Stub> stub_;
  const std::function<Result<std::string>(std::uint64_t, std::size_t)> read_;
  const std::function<void(Status)> on_done_;
  pb::UploadOffsetRequest request_;
  pb::UploadOffsetReply reply_;
};

}  // namespace

void StartFetch(std::shared_ptr<ArtefactContext> context, std::shared_ptr<grpc::Channel> channel,
                const std::string& hash, std::uint64_t offset,
                std::function<Status(std::string chunk)> on_chunk,
                std::function<void(Status)> on_done) {
  std::make_shared<FetchCall>(std::move(context), std::move(channel), hash, offset,
                              std::move(on_chunk), std::move(on_done))
      ->Start();
}

void StartUpload(std::shared_ptr<ArtefactContext> context, std::shared_ptr<grpc::Channel> channel,
                 const std::string& hash, std::uint64_t size,
                 std::function<Result<std::string>(std::uint64_t, std::size_t)> read,
                 std::function<void(Status)> on_done) {
  std::make_shared<UploadStart>(std::move(context), std::move(channel), hash, size, std::move(read),
                                std::move(on_done))
      ->Start();
}

void CloseArtefacts(ArtefactContext* context) {
  context->closed = true;
  for (const auto& weak : std::exchange(context->under_way, {})) {
    if (const auto transfer = weak.lock()) transfer->Cancel();
  }
}

}  // namespace shoal::net
