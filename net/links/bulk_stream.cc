#include "net/links/bulk_stream.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "net/identity/grpc_setup.h"
#include "net/identity/tls.h"
#include "net/relay/dial_address.h"

namespace shoal::net {
namespace {

// A slice that keeps what it views alive.
template <typename Owner>
grpc::Slice SliceOf(std::shared_ptr<Owner> owner, const void* data, std::size_t size) {
  auto* const held = new std::shared_ptr<Owner>(std::move(owner));
  return grpc::Slice(
      const_cast<void*>(data), size,  // NOLINT: gRPC only reads it
      [](void* user) { delete static_cast<std::shared_ptr<Owner>*>(user); }, held);
}

grpc::ByteBuffer MessageOf(std::string head, std::shared_ptr<const Buffer> payload,
                           std::size_t offset, std::size_t size) {
  std::vector<grpc::Slice> slices;
  slices.emplace_back(head);
  if (size > 0) {
    const std::byte* const data = payload->data() + offset;
    slices.push_back(SliceOf(std::move(payload), data, size));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// What both kinds of stream share: buffers, the sink, and who may still call gRPC. `Reactor` is the
// gRPC reactor base.
template <typename Reactor>
class StreamBase : public Reactor,
                   public BulkStream,
                   public std::enable_shared_from_this<StreamBase<Reactor>> {
 public:
  bool SetSink(std::shared_ptr<StreamSink> sink) override {
    MutexLock lock(mutex_);
    if (closing_) return false;
    sink_ = std::move(sink);
    return true;
  }

  void Write(std::string head, std::shared_ptr<const Buffer> payload, std::size_t offset,
             std::size_t size) override {
    MutexLock lock(mutex_);
    if (closing_) return;
    SHOAL_CHECK(!writing_);  // gRPC would abort without a word
    write_buffer_ = MessageOf(std::move(head), std::move(payload), offset, size);
    writing_ = true;
    this->StartWrite(&write_buffer_);
  }

  void Read() override {
    MutexLock lock(mutex_);
    if (closing_) return;
    this->StartRead(&read_buffer_);
  }

  void Close(const Status& reason) override { End(reason, false); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      End(Unavailable("the connection ended"), true);
      return;
    }
    const std::shared_ptr<StreamSink> sink = this->sink();
    std::vector<grpc::Slice> slices;
    if (!sink || !read_buffer_.Dump(&slices).ok()) {
      Close(Internal("a message could not be parsed"));
      return;
    }
    ByteSlices views;
    views.reserve(slices.size());
    for (const grpc::Slice& slice : slices) {
      views.emplace_back(reinterpret_cast<const std::byte*>(slice.begin()), slice.size());
    }
    read_buffer_.Clear();
    sink->OnRead(this, views);
  }

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      writing_ = false;
      if (ok && !closing_) write_buffer_.Clear();
    }
    if (!ok) {
      WriteFailed();
    } else if (const auto sink = this->sink()) {
      sink->OnWritten(this);
    }
  }

 protected:
  explicit StreamBase(std::shared_ptr<StreamCount> count) : count_(std::move(count)) {
    count_->Add();
  }

  // `broken`: gRPC already knows that the call is over.
  void End(const Status& reason, bool broken) {
    MutexLock lock(mutex_);
    if (closing_) return;
    closing_ = true;
    reason_ = reason;
    EndCall(reason, broken);
  }

  // The other end does not take any more.
  virtual void WriteFailed() = 0;
  // Makes gRPC wind the call up. Once; nothing is started afterwards.
  virtual void EndCall(const Status& reason, bool broken) SHOAL_REQUIRES(mutex_) = 0;

  std::shared_ptr<StreamSink> sink() {
    MutexLock lock(mutex_);
    return sink_;
  }

  void HoldUntilDone() { self_ = this->shared_from_this(); }

  // gRPC is done with this object; last thing that a reactor does.
  void Gone(const Status& status) {
    std::shared_ptr<StreamSink> sink;
    {
      MutexLock lock(mutex_);
      closing_ = true;
      sink = std::move(sink_);
    }
    if (sink) sink->OnGone(this, status);
    sink.reset();
    const std::shared_ptr<StreamCount> count = count_;
    self_.reset();  // may delete this
    count->Remove();
  }

  Status reason() {
    MutexLock lock(mutex_);
    return reason_;
  }

  Mutex mutex_;
  bool closing_ SHOAL_GUARDED_BY(mutex_) = false;
  bool writing_ SHOAL_GUARDED_BY(mutex_) = false;
  Status reason_ SHOAL_GUARDED_BY(mutex_);

 private:
  const std::shared_ptr<StreamCount> count_;
  std::shared_ptr<StreamSink> sink_ SHOAL_GUARDED_BY(mutex_);
  std::shared_ptr<BulkStream> self_;
  grpc::ByteBuffer read_buffer_;
  grpc::ByteBuffer write_buffer_;
};

class ClientStream final
    : public StreamBase<grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  ClientStream(std::string address, std::shared_ptr<StreamCount> count)
      : StreamBase(std::move(count)), address_(std::move(address)) {}

  void Start(const Identity& identity, const PeerId& peer) {
    HoldUntilDone();
    channel_ = NewPinnedChannel(DialAddress(address_, peer), identity, peer, kBulkMessageBytesMax,
                                reached_);
    grpc::GenericStub(channel_).PrepareBidiStreamingCall(&context_, kExchangeMethod, {}, this);
    // Reads and writes are started from outside of reactions until EndCall.
    this->AddHold();
    this->StartCall();
  }

  void OnReadInitialMetadataDone(bool ok) override {
    opened_ = ok;
    if (!ok) {
      End(Unavailable("the connection could not be made"), true);
    } else if (const auto sink = this->sink()) {
      sink->OnOpen(this);
    }
  }

  void OnDone(const grpc::Status& status) override {
    const bool refused = status.error_code() == grpc::StatusCode::UNAVAILABLE && *reached_;
    Gone(refused && !opened_ ? PermissionDenied("it does not take this peer's key")
                             : FromGrpc(status));
  }

  std::string address() const override { return address_; }
  std::string peer_address() const override { return PeerAddress(context_.peer()); }

 protected:
  void EndCall(const Status&, bool broken) SHOAL_REQUIRES(mutex_) override {
    // A cancellation could hide what the other end gave as the reason.
    if (!broken) context_.TryCancel();
    this->RemoveHold();
  }
  // gRPC reports the end of a call only after all earlier messages were read. Reading goes on and
  // finds that end, with the other end's reason.
  void WriteFailed() override {}

 private:
  const std::string address_;
  const std::shared_ptr<std::atomic<bool>> reached_ = std::make_shared<std::atomic<bool>>(false);
  std::atomic<bool> opened_ = false;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
};

class ServerStream final : public StreamBase<grpc::ServerGenericBidiReactor> {
 public:
  ServerStream(grpc::CallbackServerContext* context, std::shared_ptr<StreamCount> count)
      : StreamBase(std::move(count)), context_(context), address_(PeerAddress(context->peer())) {}

  void Start(std::shared_ptr<StreamSink> sink) {
    HoldUntilDone();
    SetSink(std::move(sink));
    {
      MutexLock lock(mutex_);
      this->StartSendInitialMetadata();
    }
    Read();
  }
  void Refuse(const Status& reason) {
    HoldUntilDone();
    Close(reason);
  }

  void OnCancel() override { End(Unavailable("the connection broke"), true); }
  void OnDone() override { Gone(reason()); }

  std::string address() const override { return address_; }
  std::string peer_address() const override { return address_; }

 protected:
  void EndCall(const Status& reason, bool) SHOAL_REQUIRES(mutex_) override {
    // A write that waits for a peer that does not read would hold the end up.
    if (writing_) context_->TryCancel();
    this->Finish(ToGrpc(reason));
  }
  void WriteFailed() override { End(Unavailable("the connection ended"), true); }

 private:
  grpc::CallbackServerContext* const context_;  // gRPC's, valid until Finish
  const std::string address_;
};

class StreamService final : public grpc::CallbackGenericService {
 public:
  StreamService(AcceptStream accept, std::shared_ptr<StreamCount> count)
      : accept_(std::move(accept)), count_(std::move(count)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    const auto stream = std::make_shared<ServerStream>(context, count_);
    const auto peer = PeerOf(context->auth_context().get());
    if (context->method() != kExchangeMethod) {
      stream->Refuse(Unimplemented("there is no method " + context->method() + " here"));
    } else if (!peer.ok()) {
      stream->Refuse(peer.status());
    } else if (auto sink = accept_(stream, *peer)) {
      stream->Start(std::move(sink));
    } else {
      stream->Refuse(
          ResourceExhausted("this peer takes no more streams from here; try again later"));
    }
    return stream.get();
  }

 private:
  const AcceptStream accept_;
  const std::shared_ptr<StreamCount> count_;
};

}  // namespace

std::shared_ptr<BulkStream> DialStream(const std::string& address, const Identity& identity,
                                       const PeerId& peer, std::shared_ptr<StreamCount> count,
                                       std::shared_ptr<StreamSink> sink) {
  auto stream = std::make_shared<ClientStream>(address, std::move(count));
  stream->SetSink(std::move(sink));
  stream->Start(identity, peer);
  return stream;
}

std::unique_ptr<grpc::CallbackGenericService> NewStreamService(AcceptStream accept,
                                                               std::shared_ptr<StreamCount> count) {
  return std::make_unique<StreamService>(std::move(accept), std::move(count));
}

}  // namespace shoal::net
