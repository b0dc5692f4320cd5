#include "net/links/racing_stream.h"

#include <algorithm>
#include <utility>

#include "net/relay/relay_address.h"

namespace shoal::net {

class RacingStream::AttemptSink final : public StreamSink {
 public:
  AttemptSink(std::shared_ptr<RacingStream> race, std::size_t index)
      : race_(std::move(race)), index_(index) {}

  void OnOpen(BulkStream*) override { race_->OnAttemptOpen(index_); }
  void OnRead(BulkStream*, const ByteSlices& message) override {
    if (const auto sink = race_->sink()) sink->OnRead(race_.get(), message);
  }
  void OnWritten(BulkStream*) override {
    if (const auto sink = race_->sink()) sink->OnWritten(race_.get());
  }
  void OnGone(BulkStream*, const Status& status) override { race_->OnAttemptGone(index_, status); }

 private:
  const std::shared_ptr<RacingStream> race_;
  const std::size_t index_;
};

std::shared_ptr<BulkStream> RacingStream::Dial(DialOne dial,
                                               const std::vector<std::string>& addresses,
                                               Executor* executor,
                                               std::shared_ptr<StreamSink> sink) {
  SHOAL_CHECK(!addresses.empty());
  const std::shared_ptr<RacingStream> race(new RacingStream(std::move(dial), std::move(sink)));
  MutexLock lock(race->mutex_);
  for (const bool relays : {false, true}) {
    std::chrono::milliseconds after = relays ? kRelaysAfter : std::chrono::milliseconds(0);
    for (const std::string& address : addresses) {
      if (IsRelayAddress(address) != relays) continue;
      race->attempts_.push_back({address, after, nullptr, false});
      after += kNextAfter;
    }
  }
  race->BeginLocked(0);
  for (std::size_t i = 1; i < race->attempts_.size(); ++i) {
    executor->PostAfter("link.next_address", race->attempts_[i].after,
                        [weak = race->weak_from_this(), i] {
                          if (const auto self = weak.lock()) self->Begin(i);
                        });
  }
  return race;
}

void RacingStream::Begin(std::size_t index) {
  MutexLock lock(mutex_);
  BeginLocked(index);
}

void RacingStream::BeginLocked(std::size_t index) {
  Attempt& attempt = attempts_[index];
  if (attempt.begun || winner_ || closed_) return;
  attempt.begun = true;
  attempt.stream = dial_(attempt.address, std::make_shared<AttemptSink>(shared_from_this(), index));
}

bool RacingStream::UnderWay() const {
  return std::any_of(attempts_.begin(), attempts_.end(),
                     [](const Attempt& each) { return each.stream != nullptr; });
}

void RacingStream::BeginNext() {
  for (std::size_t i = 0; i < attempts_.size() && !UnderWay(); ++i) BeginLocked(i);
}

void RacingStream::OnAttemptOpen(std::size_t index) {
  std::shared_ptr<StreamSink> sink;
  {
    MutexLock lock(mutex_);
    const std::shared_ptr<BulkStream> stream = attempts_[index].stream;
    if (!stream) return;
    if (winner_ || closed_) {
      stream->Close(Cancelled("another address answered first"));
      return;
    }
    winner_ = stream;
    for (const Attempt& other : attempts_) {
      if (other.stream && other.stream != stream) {
        other.stream->Close(Cancelled("another address answered first"));
      }
    }
    sink = sink_;
  }
  if (sink) sink->OnOpen(this);
}

void RacingStream::OnAttemptGone(std::size_t index, const Status& status) {
  std::shared_ptr<StreamSink> sink;
  Status told = status;
  {
    MutexLock lock(mutex_);
    Attempt& attempt = attempts_[index];
    const bool won = winner_ && winner_ == attempt.stream;
    const std::string text =
        ShownAddress(attempt.address) + (status.ok() ? ": hung up" : ": " + status.message());
    attempt.stream = nullptr;
    if (winner_ && !won) return;
    if (!won) {
      const std::string before = failure_.ok() ? "" : failure_.message() + "; ";
      // It is the peer, which does not expect this one, or not yet: no other way changes that.
      if (status.code() == StatusCode::kPermissionDenied) EndAll(status);
      const StatusCode code = failure_.code() == StatusCode::kPermissionDenied ? failure_.code()
                              : status.ok() ? StatusCode::kUnavailable
                                            : status.code();
      failure_ = Status(code, before + text);
      BeginNext();
      if (UnderWay()) return;
      told = attempts_.size() == 1 ? status : failure_;
    }
    if (std::exchange(told_gone_, true)) return;
    sink = std::move(sink_);
    sink_ = nullptr;
  }
  if (sink) sink->OnGone(this, told);
}

std::shared_ptr<BulkStream> RacingStream::winner() const {
  MutexLock lock(mutex_);
  return winner_;
}

std::shared_ptr<StreamSink> RacingStream::sink() const {
  MutexLock lock(mutex_);
  return sink_;
}

bool RacingStream::SetSink(std::shared_ptr<StreamSink> sink) {
  MutexLock lock(mutex_);
  if (closed_ || told_gone_) return false;
  sink_ = std::move(sink);
  return true;
}

void RacingStream::Write(std::string head, std::shared_ptr<const Buffer> payload,
                         std::size_t offset, std::size_t size) {
  if (const auto stream = winner()) {
    stream->Write(std::move(head), std::move(payload), offset, size);
  }
}

void RacingStream::Read() {
  if (const auto stream = winner()) stream->Read();
}

// Those that are under way end, and the last one tells.
void RacingStream::Close(const Status& reason) {
  MutexLock lock(mutex_);
  EndAll(reason);
}

void RacingStream::EndAll(const Status& reason) {
  closed_ = true;
  for (const Attempt& attempt : attempts_) {
    if (attempt.stream) attempt.stream->Close(reason);
  }
}

std::string RacingStream::address() const {
  MutexLock lock(mutex_);
  if (winner_) return winner_->address();
  std::string all;
  for (const Attempt& attempt : attempts_) {
    all += (all.empty() ? "" : ", ") + ShownAddress(attempt.address);
  }
  return all;
}

std::string RacingStream::peer_address() const {
  const auto stream = winner();
  return stream ? stream->peer_address() : "";
}

}  // namespace shoal::net
