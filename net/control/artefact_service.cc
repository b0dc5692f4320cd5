#include "net/control/artefact_service.h"

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <string>
#include <utility>

#include "net/admission/peer_server.h"
#include "net/base/wire_bytes.h"
#include "net/identity/grpc_setup.h"
#include "proto/control.grpc.pb.h"

namespace shoal::net {
namespace {

namespace pb = control::v1;

constexpr std::size_t kHashBytes = 32;

Status CheckMember(const ArtefactBackend& backend, const Result<PeerId>& peer) {
  if (!peer.ok()) return peer.status();
  if (!backend.handlers.may_fetch || !backend.handlers.may_fetch(*peer)) {
    return PermissionDenied("peer " + peer->ToShort() + " is not a member of this swarm; join it");
  }
  return Status::Ok();
}

Status CheckHash(const std::string& hash) {
  if (hash.size() == kHashBytes) return Status::Ok();
  return InvalidArgument("an artefact's hash must have 32 bytes");
}

// A server reactor of which other threads hold a reference. They may call gRPC only until Finish.
// The object lives until both gRPC and these threads let go of it.
template <typename Reactor>
class SharedReactor : public Reactor, public std::enable_shared_from_this<SharedReactor<Reactor>> {
 public:
  SharedReactor(std::shared_ptr<ArtefactBackend> backend, Result<PeerId> peer)
      : backend_(std::move(backend)), peer_(std::move(peer)) {}

  void OnCancel() override { End(Cancelled("the other end left")); }
  void OnDone() override {
    std::shared_ptr<SharedReactor> self;  // let go of after the lock: it may hold the mutex
    MutexLock lock(mutex_);
    self = std::move(self_);
  }

 protected:
  void Hold() {
    MutexLock lock(mutex_);
    self_ = this->shared_from_this();
  }

  void End(const Status& status) {
    MutexLock lock(mutex_);
    if (finished_) return;
    finished_ = true;
    this->Finish(ToGrpc(status));
  }

  // Runs `act`, which may start an operation, unless the call has been finished.
  template <typename Act>
  void IfAlive(Act act) {
    MutexLock lock(mutex_);
    if (!finished_) act();
  }

  // Runs `work` on the blocking executor, unless the server goes first.
  template <typename Work>
  void RunBlocking(const char* name, Work work) {
    backend_->blocking->Post(name, [self = this->shared_from_this(), work = std::move(work)] {
      if (!self->backend_->gate.Enter()) return;
      work();
      self->backend_->gate.Leave();
    });
  }

  const std::shared_ptr<ArtefactBackend> backend_;
  const Result<PeerId> peer_;

 private:
  Mutex mutex_;
  bool finished_ SHOAL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<SharedReactor> self_ SHOAL_GUARDED_BY(mutex_);
};

class FetchReactor final : public SharedReactor<grpc::ServerWriteReactor<pb::Chunk>> {
 public:
  FetchReactor(std::shared_ptr<ArtefactBackend> backend, Result<PeerId> peer,
               const pb::FetchRequest& request)
      : SharedReactor(std::move(backend), std::move(peer)),
        hash_(request.hash()),
        offset_(request.offset()) {}

  void Start() {
    Hold();
    RunBlocking("artefact.fetch", [this] {
      Status status = CheckMember(*backend_, peer_);
      if (status.ok()) status = CheckHash(hash_);
      status.ok() ? ReadNext() : End(status);
    });
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      End(Cancelled("the other end left"));
      return;
    }
    IfAlive([this] { RunBlocking("artefact.read", [this] { ReadNext(); }); });
  }

 private:
  // One chunk per turn: nothing piles up if the other end is slow.
  void ReadNext() {
    auto data = backend_->handlers.read_artefact(hash_, offset_, kArtefactChunkBytes);
    if (!data.ok() || data->empty()) {
      End(data.status());
      return;
    }
    offset_ += data->size();
    chunk_.set_data(std::move(data).value());
    backend_->sent_wire_bytes += WireBytes(chunk_.ByteSizeLong());
    IfAlive([this] { this->StartWrite(&chunk_); });
  }

  const std::string hash_;
  std::uint64_t offset_;
  pb::Chunk chunk_;
};

class OffsetReactor final : public SharedReactor<grpc::ServerUnaryReactor> {
 public:
  OffsetReactor(std::shared_ptr<ArtefactBackend> backend, Result<PeerId> peer,
                const pb::UploadOffsetRequest& request, pb::UploadOffsetReply* reply)
      : SharedReactor(std::move(backend), std::move(peer)), request_(request), reply_(reply) {}

  void Start() {
    Hold();
    RunBlocking("artefact.offset", [this] {
      Status status = CheckMember(*backend_, peer_);
      if (status.ok()) status = CheckHash(request_.hash());
      if (status.ok()) {
        const auto offset =
            backend_->handlers.upload_offset(*peer_, request_.hash(), request_.size());
        status = offset.status();
        if (offset.ok()) IfAlive([&] { reply_->set_offset(*offset); });
      }
      End(status);
    });
  }

 private:
  const pb::UploadOffsetRequest request_;
  pb::UploadOffsetReply* const reply_;  // gRPC's, valid until the call is finished
};

class UploadReactor final : public SharedReactor<grpc::ServerReadReactor<pb::UploadChunk>> {
 public:
  UploadReactor(std::shared_ptr<ArtefactBackend> backend, Result<PeerId> peer,
                pb::UploadOffsetReply* reply)
      : SharedReactor(std::move(backend), std::move(peer)), reply_(reply) {}

  void Start() {
    Hold();
    RunBlocking("artefact.upload", [this] {
      const Status status = CheckMember(*backend_, peer_);
      if (!status.ok()) {
        End(status);
      } else {
        IfAlive([this] { this->StartRead(&chunk_); });
      }
    });
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      IfAlive([this] { reply_->set_offset(offset_); });
      End(Status::Ok());
      return;
    }
    backend_->received_wire_bytes += WireBytes(chunk_.ByteSizeLong());
    IfAlive([this] { RunBlocking("artefact.write", [this] { WriteChunk(); }); });
  }

 private:
  Status Check() const {
    SHOAL_RETURN_IF_ERROR(CheckHash(chunk_.hash()));
    if (chunk_.data().size() > kArtefactChunkBytes) {
      return InvalidArgument("an upload's chunk is larger than 256 KiB");
    }
    if (chunk_.offset() > chunk_.size() || chunk_.data().size() > chunk_.size() - chunk_.offset()) {
      return InvalidArgument("an upload's chunk runs over its end");
    }
    return Status::Ok();
  }

  // A call that broke may still write its last chunk after the next call has asked where to go on.
  // That chunk then comes twice, with the same bytes. `refused`: why the chunk does not fit.
  Result<std::uint64_t> AlreadyHeld(const Status& refused) const {
    const auto held = backend_->handlers.upload_offset(*peer_, chunk_.hash(), chunk_.size());
    if (held.ok() && chunk_.offset() + chunk_.data().size() <= *held) return *held;
    return refused;
  }

  void WriteChunk() {
    Status status = Check();
    if (status.ok()) {
      auto offset = backend_->handlers.write_artefact(*peer_, chunk_.hash(), chunk_.size(),
                                                      chunk_.offset(), chunk_.data());
      if (offset.status().code() == StatusCode::kOutOfRange) offset = AlreadyHeld(offset.status());
      status = offset.status();
      if (offset.ok()) offset_ = *offset;
    }
    if (!status.ok()) {
      End(status);
    } else {
      IfAlive([this] { this->StartRead(&chunk_); });
    }
  }

  pb::UploadOffsetReply* const reply_;
  pb::UploadChunk chunk_;
  std::uint64_t offset_ = 0;
};

class ArtefactService final : public pb::Artefacts::CallbackService {
 public:
  explicit ArtefactService(std::shared_ptr<ArtefactBackend> backend)
      : backend_(std::move(backend)) {}

  grpc::ServerWriteReactor<pb::Chunk>* Fetch(grpc::CallbackServerContext* context,
                                             const pb::FetchRequest* request) override {
    const auto reactor = std::make_shared<FetchReactor>(
        backend_, CallerOf(context, backend_->connections.get()), *request);
    reactor->Start();
    return reactor.get();
  }

  grpc::ServerUnaryReactor* UploadOffset(grpc::CallbackServerContext* context,
                                         const pb::UploadOffsetRequest* request,
                                         pb::UploadOffsetReply* reply) override {
    const auto reactor = std::make_shared<OffsetReactor>(
        backend_, CallerOf(context, backend_->connections.get()), *request, reply);
    reactor->Start();
    return reactor.get();
  }

  grpc::ServerReadReactor<pb::UploadChunk>* Upload(grpc::CallbackServerContext* context,
                                                   pb::UploadOffsetReply* reply) override {
    const auto reactor = std::make_shared<UploadReactor>(
        backend_, CallerOf(context, backend_->connections.get()), reply);
    reactor->Start();
    return reactor.get();
  }

 private:
  const std::shared_ptr<ArtefactBackend> backend_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewArtefactService(std::shared_ptr<ArtefactBackend> backend) {
  return std::make_unique<ArtefactService>(std::move(backend));
}

}  // namespace shoal::net
