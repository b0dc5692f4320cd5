#include "net/links/link_greeter.h"

#include <algorithm>

#include "common/log.h"
#include "net/control/control.h"

namespace shoal::net {
namespace {

constexpr std::size_t kCallersMax = 256;
constexpr int kCallersPerPeerMax = 16;
constexpr Duration kRefusalTimeout = std::chrono::seconds(5);  // for a caller that does not read

// What a hello has otherwise than the link; OK if nothing.
Status Compare(const bulk::v1::LinkHello& hello, const LinkTarget& target) {
  if (hello.run() != target.run.value) {
    return FailedPrecondition("your run is " + RunId{hello.run()}.ToHex() + ", here it is " +
                              target.run.ToHex() + "; join the same run");
  }
  if (hello.generation() < target.generation) {
    return FailedPrecondition("your plan is generation " + std::to_string(hello.generation()) +
                              ", here it is " + std::to_string(target.generation) +
                              "; wait for the new plan");
  }
  if (hello.generation() > target.generation) {
    return Unavailable("your plan is generation " + std::to_string(hello.generation()) +
                       ", here it is still " + std::to_string(target.generation));
  }
  return Status::Ok();
}

}  // namespace

struct LinkGreeter::Caller {
  PeerId peer;
  std::shared_ptr<BulkStream> stream;
  bool greeted = false;  // hello read
  bool refused = false;
  bulk::v1::LinkHello hello;
  std::uint64_t hello_bytes = 0;
};

class LinkGreeter::CallerSink final : public StreamSink {
 public:
  CallerSink(std::shared_ptr<LinkGreeter> greeter, std::shared_ptr<Caller> caller)
      : greeter_(std::move(greeter)), caller_(std::move(caller)) {}

  void OnOpen(BulkStream*) override {}
  void OnRead(BulkStream*, const ByteSlices& message) override {
    greeter_->OnHello(caller_, message);
  }
  // The only thing written here is a refusal.
  void OnWritten(BulkStream* stream) override { stream->Close(Status::Ok()); }
  void OnGone(BulkStream*, const Status&) override { greeter_->Forget(caller_); }

 private:
  const std::shared_ptr<LinkGreeter> greeter_;
  const std::shared_ptr<Caller> caller_;
};

void LinkGreeter::Admit(const std::vector<PeerId>& peers) {
  MutexLock lock(mutex_);
  admitted_ = std::set<PeerId>(peers.begin(), peers.end());
}

bool LinkGreeter::Admits(const PeerId& peer) {
  MutexLock lock(mutex_);
  return admitted_.contains(peer) ||
         std::any_of(expected_.begin(), expected_.end(), [&peer](const auto& weak) {
           const auto link = weak.lock();
           return link && link->target().peer == peer && !link->closed();
         });
}

std::shared_ptr<StreamSink> LinkGreeter::Greet(const std::shared_ptr<BulkStream>& stream,
                                               const PeerId& peer) {
  const auto caller = std::make_shared<Caller>();
  caller->peer = peer;
  caller->stream = stream;
  {
    MutexLock lock(mutex_);
    const auto same = [&peer](const std::shared_ptr<Caller>& other) { return other->peer == peer; };
    if (stopped_ || callers_.size() >= kCallersMax ||
        std::count_if(callers_.begin(), callers_.end(), same) >= kCallersPerPeerMax) {
      return nullptr;
    }
    callers_.push_back(caller);
  }
  executor_->PostAfter("link.hello_timeout", kHelloTimeout,
                       [weak = weak_from_this(), weak_caller = std::weak_ptr<Caller>(caller)] {
                         const auto self = weak.lock();
                         const auto late = weak_caller.lock();
                         if (!self || !late) return;
                         MutexLock lock(self->mutex_);
                         if (!late->greeted) self->Refuse(late, DeadlineExceeded("no hello came"));
                       });
  return std::make_shared<CallerSink>(shared_from_this(), caller);
}

void LinkGreeter::OnHello(const std::shared_ptr<Caller>& caller, const ByteSlices& message) {
  const auto chunk = ParseChunk(message);
  MutexLock lock(mutex_);
  if (caller->greeted || caller->refused) return;
  caller->greeted = true;
  if (!chunk.ok()) {
    Refuse(caller, chunk.status());
    return;
  }
  if (!chunk->header.has_hello() || chunk->payload_bytes > 0 ||
      chunk->header.hello().channel().size() > kChannelNameBytesMax) {
    Refuse(caller, InvalidArgument("the first message must be a hello"));
    return;
  }
  caller->hello = chunk->header.hello();
  for (const auto& slice : message) caller->hello_bytes += slice.size();
  if (caller->hello.protocol() != kProtocolVersion) {
    Refuse(caller,
           FailedPrecondition("the calling peer speaks link protocol " +
                              std::to_string(caller->hello.protocol()) + ", the called one " +
                              std::to_string(kProtocolVersion) + "; use the same version"));
    return;
  }
  const Status status = stopped_ ? Aborted("this peer is stopping") : Match(*caller);
  if (status.ok()) {
    callers_.remove(caller);
  } else if (status.code() != StatusCode::kUnavailable || caller->hello.stripe() != 0) {
    // A link that takes no further connection now will not later.
    Refuse(caller, status);
  } else {
    executor_->PostAfter("link.caller_timeout", patience_,
                         [weak = weak_from_this(), weak_caller = std::weak_ptr<Caller>(caller)] {
                           const auto self = weak.lock();
                           const auto late = weak_caller.lock();
                           if (self && late) self->Expire(late);
                         });
  }
}

void LinkGreeter::Expire(const std::shared_ptr<Caller>& caller) {
  MutexLock lock(mutex_);
  if (caller->refused) return;
  if (std::find(callers_.begin(), callers_.end(), caller) == callers_.end()) return;
  const Status status = Match(*caller);
  if (status.ok()) {
    callers_.remove(caller);
  } else {
    Refuse(caller, FailedPrecondition(status.message()));
  }
}

void LinkGreeter::Forget(const std::shared_ptr<Caller>& caller) {
  MutexLock lock(mutex_);
  callers_.remove(caller);
}

Status LinkGreeter::Match(const Caller& caller) {
  std::erase_if(expected_, [](const std::weak_ptr<LinkCore>& weak) {
    const auto link = weak.lock();
    return !link || link->closed();
  });
  Status found = Unavailable("no link '" + caller.hello.channel() + "' with peer " +
                             caller.peer.ToShort() + " is expected here");
  for (const std::weak_ptr<LinkCore>& weak : expected_) {
    const auto link = weak.lock();
    if (!link || link->target().peer != caller.peer ||
        link->target().channel != caller.hello.channel()) {
      continue;
    }
    Status status = Compare(caller.hello, link->target());
    if (status.ok()) status = link->Show(caller.hello.membership());
    const bool first = caller.hello.stripe() == 0;
    if (status.ok() &&
        (first ? link->Attach(caller.stream, caller.hello_bytes)
               : link->Join(caller.stream, caller.hello_bytes, caller.hello.moves()))) {
      return Status::Ok();
    }
    if (!status.ok()) found = status;
  }
  return found;
}

void LinkGreeter::Refuse(const std::shared_ptr<Caller>& caller, const Status& reason) {
  if (caller->refused) return;
  caller->refused = true;
  SHOAL_LOG(kDebug, "net", "link.refuse_caller", {"peer", caller->peer.ToShort()},
            {"address", caller->stream->address()}, {"error", reason.message()});
  bulk::v1::ChunkHeader header;
  header.mutable_accept()->set_code(static_cast<int>(reason.code()));
  header.mutable_accept()->set_error(reason.message());
  caller->stream->Write(ChunkHead(header), nullptr, 0, 0);
  executor_->PostAfter("link.refusal_timeout", kRefusalTimeout,
                       [weak = std::weak_ptr<BulkStream>(caller->stream), reason] {
                         if (const auto stream = weak.lock()) stream->Close(reason);
                       });
}

void LinkGreeter::Expect(const std::shared_ptr<LinkCore>& link) {
  MutexLock lock(mutex_);
  expected_.push_back(link);
  std::vector<std::shared_ptr<Caller>> waiting(callers_.begin(), callers_.end());
  for (const std::shared_ptr<Caller>& caller : waiting) {
    if (!caller->greeted || caller->refused || caller->peer != link->target().peer) continue;
    const Status status = Match(*caller);
    if (status.ok()) {
      callers_.remove(caller);
    } else if (status.code() != StatusCode::kUnavailable) {
      Refuse(caller, status);
    }
  }
}

void LinkGreeter::LookAgain() {
  MutexLock lock(mutex_);
  const std::vector<std::shared_ptr<Caller>> waiting(callers_.begin(), callers_.end());
  for (const std::shared_ptr<Caller>& caller : waiting) {
    if (caller->greeted && !caller->refused && Match(*caller).ok()) callers_.remove(caller);
  }
}

void LinkGreeter::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  for (const std::shared_ptr<Caller>& caller : callers_) {
    caller->stream->Close(Aborted("this peer is stopping"));
  }
}

}  // namespace shoal::net
