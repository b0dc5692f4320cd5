#include "net/links/punched_stream.h"

#include <utility>

namespace shoal::net {

void PunchWay::Use(RelayDoor* door) {
  MutexLock lock(mutex_);
  door_ = door;
}

bool PunchWay::Punch(const RelayAddress& relay, const PeerId& peer, PunchDone done) {
  MutexLock lock(mutex_);
  if (door_ == nullptr) return false;
  door_->Punch(relay, peer, std::move(done));
  return true;
}

std::shared_ptr<BulkStream> PunchedStream::Dial(const std::string& address, const PeerId& peer,
                                                PunchWay* way, DialEntry dial, Executor* executor,
                                                std::shared_ptr<StreamSink> sink) {
  const std::shared_ptr<PunchedStream> stream(
      new PunchedStream(address, std::move(dial), executor, std::move(sink)));
  const auto relay = RelayOfPunch(address);
  const bool begun = relay.ok() && way->Punch(*relay, peer, [stream](Result<PunchedWay> punched) {
    stream->OnPunched(punched);
  });
  if (!begun) stream->Close(Unavailable("this peer is registered at no relay"));
  return stream;
}

void PunchedStream::OnPunched(const Result<PunchedWay>& way) {
  MutexLock lock(mutex_);
  if (closed_) return;
  if (!way.ok()) {
    closed_ = true;
    return PostGone(way.status());
  }
  other_end_ = way->other_end;
  stream_ = dial_(way->entry, std::exchange(sink_, nullptr));
}

// Whoever closes may hold locks that the sink takes.
void PunchedStream::PostGone(const Status& reason) {
  executor_->Post("link.punch_gone",
                  [self = shared_from_this(), sink = std::exchange(sink_, nullptr), reason] {
                    if (sink) sink->OnGone(self.get(), reason);
                  });
}

bool PunchedStream::SetSink(std::shared_ptr<StreamSink> sink) {
  MutexLock lock(mutex_);
  if (closed_) return false;
  if (stream_) return stream_->SetSink(std::move(sink));
  sink_ = std::move(sink);
  return true;
}

void PunchedStream::Write(std::string head, std::shared_ptr<const Buffer> payload,
                          std::size_t offset, std::size_t size) {
  if (const auto it = stream()) it->Write(std::move(head), std::move(payload), offset, size);
}

void PunchedStream::Read() {
  if (const auto it = stream()) it->Read();
}

void PunchedStream::Close(const Status& reason) {
  if (const auto it = stream()) return it->Close(reason);
  MutexLock lock(mutex_);
  if (stream_) return stream_->Close(reason);
  if (std::exchange(closed_, true)) return;
  PostGone(reason);
}

std::string PunchedStream::peer_address() const {
  MutexLock lock(mutex_);
  return other_end_;
}

std::shared_ptr<BulkStream> PunchedStream::stream() const {
  MutexLock lock(mutex_);
  return stream_;
}

}  // namespace shoal::net
