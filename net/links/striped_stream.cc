#include "net/links/striped_stream.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace shoal::net {

class StripedStream::LaneSink final : public StreamSink {
 public:
  LaneSink(std::shared_ptr<StripedStream> owner, std::size_t index)
      : owner_(std::move(owner)), index_(index) {}

  void OnOpen(BulkStream*) override { owner_->OnLaneOpen(index_); }
  void OnRead(BulkStream*, const ByteSlices& message) override {
    owner_->OnLaneRead(index_, message);
  }
  void OnWritten(BulkStream*) override { owner_->OnLaneWritten(index_); }
  void OnGone(BulkStream*, const Status& status) override { owner_->OnLaneGone(index_, status); }

 private:
  const std::shared_ptr<StripedStream> owner_;
  const std::size_t index_;
};

// ---- lanes ----

std::shared_ptr<StripedStream> StripedStream::Dial(DialLane dial, Executor* executor,
                                                   std::shared_ptr<StreamSink> sink) {
  const std::shared_ptr<StripedStream> striped(new StripedStream(std::move(dial), executor));
  MutexLock lock(striped->mutex_);
  striped->sink_ = std::move(sink);
  striped->lanes_.emplace_back();
  striped->lanes_[0].stream = striped->dial_(std::make_shared<LaneSink>(striped, 0));
  return striped;
}

std::shared_ptr<StripedStream> StripedStream::Accepted(std::shared_ptr<BulkStream> first,
                                                       Executor* executor) {
  const std::shared_ptr<StripedStream> striped(new StripedStream(nullptr, executor));
  MutexLock lock(striped->mutex_);
  striped->lanes_.emplace_back();
  striped->lanes_[0].stream = std::move(first);
  return striped;
}

bool StripedStream::SetSink(std::shared_ptr<StreamSink> sink) {
  MutexLock lock(mutex_);
  if (closed_ || !lanes_[0].stream) return false;
  sink_ = std::move(sink);
  return lanes_[0].stream->SetSink(std::make_shared<LaneSink>(shared_from_this(), 0));
}

bool StripedStream::Grow(bulk::v1::LinkHello hello) {
  MutexLock lock(mutex_);
  const bool dialling = std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) {
    return lane.state == LaneState::kDialling || lane.state == LaneState::kGreeting;
  });
  if (!dial_ || closed_ || refused_ || dialling || lanes_.size() >= kLanesMax) return false;
  const std::size_t index = lanes_.size();
  hello.set_lane(static_cast<std::uint32_t>(index));
  lanes_.emplace_back();
  lanes_[index].state = LaneState::kDialling;
  lanes_[index].hello = std::move(hello);
  lanes_[index].stream = dial_(std::make_shared<LaneSink>(shared_from_this(), index));
  return true;
}

bool StripedStream::Join(const std::shared_ptr<BulkStream>& stream, std::string head) {
  MutexLock lock(mutex_);
  if (closed_ || lanes_.size() >= kLanesMax) return false;
  if (!stream->SetSink(std::make_shared<LaneSink>(shared_from_this(), lanes_.size()))) return false;
  Lane& lane = lanes_.emplace_back();
  lane.stream = stream;
  lane.writing = true;
  stream->Write(std::move(head), nullptr, 0, 0);
  ReadLanes();
  return true;
}

std::size_t StripedStream::lanes() const {
  MutexLock lock(mutex_);
  return static_cast<std::size_t>(std::count_if(lanes_.begin(), lanes_.end(), [](const Lane& lane) {
    return lane.state == LaneState::kOpen;
  }));
}

std::vector<std::string> StripedStream::peer_addresses() const {
  MutexLock lock(mutex_);
  std::vector<std::string> addresses;
  for (const Lane& lane : lanes_) {
    if (lane.state == LaneState::kOpen) addresses.push_back(lane.stream->peer_address());
  }
  return addresses;
}

void StripedStream::OnLaneOpen(std::size_t index) {
  std::shared_ptr<StreamSink> sink;
  {
    MutexLock lock(mutex_);
    Lane& lane = lanes_[index];
    if (closed_) return;
    if (index == 0) {
      sink = sink_;
    } else {
      lane.state = LaneState::kGreeting;
      lane.writing = true;
      lane.reading = true;
      bulk::v1::ChunkHeader header;
      *header.mutable_hello() = lane.hello;
      lane.stream->Write(ChunkHead(header), nullptr, 0, 0);
      lane.stream->Read();
    }
  }
  if (sink) sink->OnOpen(this);
}

void StripedStream::OnAnswer(Lane* lane, bool accepted) {
  if (accepted) {
    lane->state = LaneState::kOpen;
    ReadLanes();
    if (owed_) PostWritten();
  } else {
    refused_ = true;
    lane->stream->Close(Cancelled("one connection less will do"));
  }
}

void StripedStream::OnLaneGone(std::size_t index, const Status& status) {
  std::shared_ptr<StreamSink> sink;
  bool refused = false;
  {
    MutexLock lock(mutex_);
    Lane& lane = lanes_[index];
    refused = lane.state != LaneState::kOpen && !closed_;
    lane.state = LaneState::kGone;
    lane.stream = nullptr;
    lane.held.reset();
    if (refused) {
      refused_ = true;
      SHOAL_LOG(kDebug, "net", "link.lane_refused", {"lane", index}, {"error", status.message()});
    } else {
      End(Cancelled("another connection of the link broke"));
      if (!std::exchange(told_gone_, true)) sink = sink_;
      sink_ = nullptr;
    }
  }
  if (refused) Deliver();  // it may have been the last one that could have the next message
  if (sink) sink->OnGone(this, status);
}

void StripedStream::Close(const Status& reason) {
  MutexLock lock(mutex_);
  End(reason);
}

void StripedStream::End(const Status& reason) {
  closed_ = true;
  for (Lane& lane : lanes_) {
    if (lane.stream) lane.stream->Close(reason);
  }
}

std::string StripedStream::address() const {
  MutexLock lock(mutex_);
  return lanes_[0].stream ? lanes_[0].stream->address() : "";
}

std::string StripedStream::peer_address() const {
  MutexLock lock(mutex_);
  return lanes_[0].stream ? lanes_[0].stream->peer_address() : "";
}

// ---- writing ----

bool StripedStream::CanWrite() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) {
    return lane.state == LaneState::kOpen && !lane.writing;
  });
}

void StripedStream::Write(std::string head, std::shared_ptr<const Buffer> payload,
                          std::size_t offset, std::size_t size) {
  MutexLock lock(mutex_);
  if (closed_) return;
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), [](const Lane& one) {
    return one.state == LaneState::kOpen && !one.writing;
  });
  SHOAL_CHECK(lane != lanes_.end() && !owed_);
  lane->writing = true;
  owed_ = true;
  lane->stream->Write(std::move(head), std::move(payload), offset, size);
  if (CanWrite()) PostWritten();
}

void StripedStream::PostWritten() {
  executor_->Post("link.written", [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->TellWritten();
  });
}

void StripedStream::TellWritten() {
  std::shared_ptr<StreamSink> sink;
  {
    MutexLock lock(mutex_);
    if (closed_ || !owed_ || !CanWrite()) return;
    owed_ = false;
    sink = sink_;
  }
  if (sink) sink->OnWritten(this);
}

void StripedStream::OnLaneWritten(std::size_t index) {
  {
    MutexLock lock(mutex_);
    lanes_[index].writing = false;
  }
  TellWritten();
}

// ---- reading ----

void StripedStream::ReadLanes() {
  if (!wanted_ || closed_) return;
  for (Lane& lane : lanes_) {
    if (lane.state != LaneState::kOpen || lane.reading || lane.held) continue;
    lane.reading = true;
    lane.stream->Read();
  }
}

StripedStream::Lane* StripedStream::HoldsNext() {
  for (Lane& lane : lanes_) {
    if (lane.held && IsNext(lane.held->sequence)) return &lane;
  }
  return nullptr;
}

// Each lane's messages are in order, so one of the lanes must have the next: also one whose answer
// is not here yet, since who accepts a lane may send by it at once.
bool StripedStream::Misses() const {
  const auto too_early = [](const Lane& lane) {
    return lane.state == LaneState::kDialling || lane.state == LaneState::kGone ||
           lane.held.has_value();
  };
  return !delivering_ && std::all_of(lanes_.begin(), lanes_.end(), too_early);
}

void StripedStream::Read() {
  MutexLock lock(mutex_);
  if (closed_) return;
  wanted_ = true;
  ReadLanes();
  // Whoever delivers goes on by itself.
  if (delivering_ || HoldsNext() == nullptr) return;
  executor_->Post("link.read", [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Deliver();
  });
}

void StripedStream::OnLaneRead(std::size_t index, const ByteSlices& message) {
  // What cannot be parsed is for the sink to refuse.
  const auto chunk = ParseChunk(message);
  const std::uint64_t sequence = chunk.ok() ? chunk->header.sequence() : 0;
  std::shared_ptr<StreamSink> sink;
  {
    MutexLock lock(mutex_);
    Lane& lane = lanes_[index];
    lane.reading = false;
    if (closed_ || lane.state == LaneState::kGone) return;
    if (lane.state != LaneState::kOpen) {
      const auto& header = chunk.ok() ? chunk->header : bulk::v1::ChunkHeader::default_instance();
      return OnAnswer(&lane, header.has_accept() && header.accept().code() == 0);
    }
    if (wanted_ && !delivering_ && IsNext(sequence)) {
      Take(sequence);
      sink = sink_;
    } else {
      Held held{sequence, {}};
      for (const auto& slice : message) {
        held.bytes.insert(held.bytes.end(), slice.begin(), slice.end());
      }
      lane.held = std::move(held);
    }
  }
  if (sink) {
    sink->OnRead(this, message);
    Taken();
  }
  Deliver();
}

void StripedStream::Take(std::uint64_t sequence) {
  wanted_ = false;
  delivering_ = true;
  if (sequence == next_) ++next_;
}

void StripedStream::Taken() {
  MutexLock lock(mutex_);
  delivering_ = false;
  ReadLanes();
}

void StripedStream::Deliver() {
  for (;;) {
    std::shared_ptr<StreamSink> sink;
    std::optional<Held> held;
    {
      MutexLock lock(mutex_);
      if (closed_ || !wanted_ || delivering_) return;
      Lane* const lane = HoldsNext();
      if (lane == nullptr && !Misses()) return;
      sink = sink_;
      if (lane != nullptr) {
        held = std::exchange(lane->held, std::nullopt);
        Take(held->sequence);
      } else {
        End(Cancelled("chunks are missing"));
        told_gone_ = true;
      }
    }
    if (!held) {
      if (sink) sink->OnGone(this, InvalidArgument("chunks of the link are missing"));
      return;
    }
    if (sink) sink->OnRead(this, {std::span<const std::byte>(held->bytes)});
    Taken();
  }
}

}  // namespace shoal::net
