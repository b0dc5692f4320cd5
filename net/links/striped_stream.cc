#include "net/links/striped_stream.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace shoal::net {

class StripedStream::StripeSink final : public StreamSink {
 public:
  StripeSink(std::shared_ptr<StripedStream> owner, std::size_t index)
      : owner_(std::move(owner)), index_(index) {}

  void OnOpen(BulkStream*) override { owner_->OnStripeOpen(index_); }
  void OnRead(BulkStream*, const ByteSlices& message) override {
    owner_->OnStripeRead(index_, message);
  }
  void OnWritten(BulkStream*) override { owner_->OnStripeWritten(index_); }
  void OnGone(BulkStream*, const Status& status) override { owner_->OnStripeGone(index_, status); }

 private:
  const std::shared_ptr<StripedStream> owner_;
  const std::size_t index_;
};

// ---- stripes ----

std::shared_ptr<StripedStream> StripedStream::Dial(DialStripe dial, Executor* executor,
                                                   std::shared_ptr<StreamSink> sink) {
  const std::shared_ptr<StripedStream> striped(new StripedStream(std::move(dial), executor));
  MutexLock lock(striped->mutex_);
  striped->sink_ = std::move(sink);
  striped->stripes_.emplace_back();
  striped->stripes_[0].stream = striped->dial_("", std::make_shared<StripeSink>(striped, 0));
  return striped;
}

std::shared_ptr<StripedStream> StripedStream::Accepted(std::shared_ptr<BulkStream> first,
                                                       Executor* executor) {
  const std::shared_ptr<StripedStream> striped(new StripedStream(nullptr, executor));
  MutexLock lock(striped->mutex_);
  striped->stripes_.emplace_back();
  striped->stripes_[0].stream = std::move(first);
  return striped;
}

bool StripedStream::SetSink(std::shared_ptr<StreamSink> sink) {
  MutexLock lock(mutex_);
  if (closed_ || !stripes_[0].stream) return false;
  sink_ = std::move(sink);
  return stripes_[0].stream->SetSink(std::make_shared<StripeSink>(shared_from_this(), 0));
}

bool StripedStream::Grow(bulk::v1::LinkHello hello) {
  MutexLock lock(mutex_);
  const bool dialling = std::any_of(stripes_.begin(), stripes_.end(), [](const Stripe& stripe) {
    return stripe.state == StripeState::kDialling || stripe.state == StripeState::kGreeting;
  });
  if (!dial_ || closed_ || refused_ || dialling || !stripes_[0].stream ||
      stripes_.size() >= kStripesMax)
    return false;
  const std::size_t index = stripes_.size();
  hello.set_stripe(static_cast<std::uint32_t>(index));
  stripes_.emplace_back();
  stripes_[index].state = StripeState::kDialling;
  stripes_[index].hello = std::move(hello);
  stripes_[index].stream =
      dial_(stripes_[0].stream->address(), std::make_shared<StripeSink>(shared_from_this(), index));
  return true;
}

bool StripedStream::Join(const std::shared_ptr<BulkStream>& stream, std::string head) {
  MutexLock lock(mutex_);
  if (closed_ || stripes_.size() >= kStripesMax) return false;
  if (!stream->SetSink(std::make_shared<StripeSink>(shared_from_this(), stripes_.size())))
    return false;
  Stripe& stripe = stripes_.emplace_back();
  stripe.stream = stream;
  stripe.writing = true;
  stream->Write(std::move(head), nullptr, 0, 0);
  ReadStripes();
  return true;
}

std::size_t StripedStream::stripes() const {
  MutexLock lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(stripes_.begin(), stripes_.end(),
                    [](const Stripe& stripe) { return stripe.state == StripeState::kOpen; }));
}

std::vector<std::string> StripedStream::peer_addresses() const {
  MutexLock lock(mutex_);
  std::vector<std::string> addresses;
  for (const Stripe& stripe : stripes_) {
    if (stripe.state == StripeState::kOpen) addresses.push_back(stripe.stream->peer_address());
  }
  return addresses;
}

void StripedStream::OnStripeOpen(std::size_t index) {
  std::shared_ptr<StreamSink> sink;
  {
    MutexLock lock(mutex_);
    Stripe& stripe = stripes_[index];
    if (closed_) return;
    if (index == 0) {
      sink = sink_;
    } else {
      stripe.state = StripeState::kGreeting;
      stripe.writing = true;
      stripe.reading = true;
      bulk::v1::ChunkHeader header;
      *header.mutable_hello() = stripe.hello;
      stripe.stream->Write(ChunkHead(header), nullptr, 0, 0);
      stripe.stream->Read();
    }
  }
  if (sink) sink->OnOpen(this);
}

void StripedStream::OnAnswer(Stripe* stripe, bool accepted) {
  if (accepted) {
    stripe->state = StripeState::kOpen;
    ReadStripes();
    if (owed_) PostWritten();
  } else {
    refused_ = true;
    stripe->stream->Close(Cancelled("the link needs one connection less"));
  }
}

void StripedStream::OnStripeGone(std::size_t index, const Status& status) {
  std::shared_ptr<StreamSink> sink;
  bool refused = false;
  {
    MutexLock lock(mutex_);
    Stripe& stripe = stripes_[index];
    refused = stripe.state != StripeState::kOpen && !closed_;
    stripe.state = StripeState::kGone;
    stripe.stream = nullptr;
    stripe.held.reset();
    if (refused) {
      refused_ = true;
      SHOAL_LOG(kDebug, "net", "link.stripe_refused", {"stripe", index},
                {"error", status.message()});
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
  for (Stripe& stripe : stripes_) {
    if (stripe.stream) stripe.stream->Close(reason);
  }
}

std::string StripedStream::address() const {
  MutexLock lock(mutex_);
  return stripes_[0].stream ? stripes_[0].stream->address() : "";
}

std::string StripedStream::peer_address() const {
  MutexLock lock(mutex_);
  return stripes_[0].stream ? stripes_[0].stream->peer_address() : "";
}

// ---- writing ----

bool StripedStream::CanWrite() const {
  return std::any_of(stripes_.begin(), stripes_.end(), [](const Stripe& stripe) {
    return stripe.state == StripeState::kOpen && !stripe.writing;
  });
}

void StripedStream::Write(std::string head, std::shared_ptr<const Buffer> payload,
                          std::size_t offset, std::size_t size) {
  MutexLock lock(mutex_);
  if (closed_) return;
  const auto stripe = std::find_if(stripes_.begin(), stripes_.end(), [](const Stripe& one) {
    return one.state == StripeState::kOpen && !one.writing;
  });
  SHOAL_CHECK(stripe != stripes_.end() && !owed_);
  stripe->writing = true;
  owed_ = true;
  stripe->stream->Write(std::move(head), std::move(payload), offset, size);
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

void StripedStream::OnStripeWritten(std::size_t index) {
  {
    MutexLock lock(mutex_);
    stripes_[index].writing = false;
  }
  TellWritten();
}

// ---- reading ----

void StripedStream::ReadStripes() {
  if (!wanted_ || closed_) return;
  for (Stripe& stripe : stripes_) {
    if (stripe.state != StripeState::kOpen || stripe.reading || stripe.held) continue;
    stripe.reading = true;
    stripe.stream->Read();
  }
}

StripedStream::Stripe* StripedStream::HoldsNext() {
  for (Stripe& stripe : stripes_) {
    if (stripe.held && IsNext(stripe.held->sequence)) return &stripe;
  }
  return nullptr;
}

// Each stripe's messages are in order, so one of the stripes must have the next message. That may
// be a stripe whose answer is not here yet: the end that accepts a stripe may send by it at once.
bool StripedStream::Misses() const {
  const auto too_early = [](const Stripe& stripe) {
    return stripe.state == StripeState::kDialling || stripe.state == StripeState::kGone ||
           stripe.held.has_value();
  };
  return !delivering_ && std::all_of(stripes_.begin(), stripes_.end(), too_early);
}

void StripedStream::Read() {
  MutexLock lock(mutex_);
  if (closed_) return;
  wanted_ = true;
  ReadStripes();
  // Whoever delivers goes on by itself.
  if (delivering_ || HoldsNext() == nullptr) return;
  executor_->Post("link.read", [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Deliver();
  });
}

void StripedStream::OnStripeRead(std::size_t index, const ByteSlices& message) {
  // What cannot be parsed is for the sink to refuse.
  const auto chunk = ParseChunk(message);
  const std::uint64_t sequence = chunk.ok() ? chunk->header.sequence() : 0;
  std::shared_ptr<StreamSink> sink;
  {
    MutexLock lock(mutex_);
    Stripe& stripe = stripes_[index];
    stripe.reading = false;
    if (closed_ || stripe.state == StripeState::kGone) return;
    if (stripe.state != StripeState::kOpen) {
      const auto& header = chunk.ok() ? chunk->header : bulk::v1::ChunkHeader::default_instance();
      return OnAnswer(&stripe, header.has_accept() && header.accept().code() == 0);
    }
    if (wanted_ && !delivering_ && IsNext(sequence)) {
      Take(sequence);
      sink = sink_;
    } else {
      Held held{sequence, {}};
      for (const auto& slice : message) {
        held.bytes.insert(held.bytes.end(), slice.begin(), slice.end());
      }
      stripe.held = std::move(held);
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
  ReadStripes();
}

void StripedStream::Deliver() {
  for (;;) {
    std::shared_ptr<StreamSink> sink;
    std::optional<Held> held;
    {
      MutexLock lock(mutex_);
      if (closed_ || !wanted_ || delivering_) return;
      Stripe* const stripe = HoldsNext();
      if (stripe == nullptr && !Misses()) return;
      sink = sink_;
      if (stripe != nullptr) {
        held = std::exchange(stripe->held, std::nullopt);
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
