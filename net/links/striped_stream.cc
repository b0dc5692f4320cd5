#include "net/links/striped_stream.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace shoal::net {
namespace {

// Of open stripes, one that moves, and those that retire.
constexpr std::size_t kPlacesMax = 2 * StripedStream::kStripesMax + 1;

}  // namespace

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

std::shared_ptr<StripedStream> StripedStream::Dial(DialStripe dial,
                                                   const std::vector<std::string>& addresses,
                                                   Executor* executor,
                                                   std::shared_ptr<StreamSink> sink) {
  const std::shared_ptr<StripedStream> striped(new StripedStream(std::move(dial), executor));
  MutexLock lock(striped->mutex_);
  striped->sink_ = std::move(sink);
  Stripe& first = striped->stripes_.emplace_back();
  first.first = true;
  first.dialled = true;
  first.stream = striped->dial_(addresses, std::make_shared<StripeSink>(striped, 0));
  return striped;
}

std::shared_ptr<StripedStream> StripedStream::Accepted(std::shared_ptr<BulkStream> first,
                                                       DialStripe dial, Executor* executor) {
  const std::shared_ptr<StripedStream> striped(new StripedStream(std::move(dial), executor));
  MutexLock lock(striped->mutex_);
  striped->stripes_.emplace_back();
  striped->stripes_[0].stream = std::move(first);
  return striped;
}

// Before any further stripe.
bool StripedStream::SetSink(std::shared_ptr<StreamSink> sink) {
  MutexLock lock(mutex_);
  if (closed_ || !stripes_[0].stream) return false;
  sink_ = std::move(sink);
  return stripes_[0].stream->SetSink(std::make_shared<StripeSink>(shared_from_this(), 0));
}

std::optional<std::size_t> StripedStream::NewStripe() {
  const auto gone = std::find_if(stripes_.begin(), stripes_.end(), [](const Stripe& stripe) {
    return stripe.state == StripeState::kGone;
  });
  const auto index = static_cast<std::size_t>(gone - stripes_.begin());
  if (gone == stripes_.end()) {
    if (index >= kPlacesMax) return std::nullopt;
    stripes_.emplace_back();
  }
  stripes_[index] = Stripe();
  stripes_[index].born = ++last_born_;
  return index;
}

const StripedStream::Stripe* StripedStream::Front() const {
  const Stripe* front = nullptr;
  for (const Stripe& stripe : stripes_) {
    if (stripe.state != StripeState::kOpen) continue;
    if (front == nullptr || stripe.born < front->born) front = &stripe;
  }
  return front;
}

std::size_t StripedStream::OpenStripes() const {
  return static_cast<std::size_t>(
      std::count_if(stripes_.begin(), stripes_.end(),
                    [](const Stripe& stripe) { return stripe.state == StripeState::kOpen; }));
}

bool StripedStream::Dialling() const {
  return std::any_of(stripes_.begin(), stripes_.end(), [](const Stripe& stripe) {
    return stripe.state == StripeState::kDialling || stripe.state == StripeState::kGreeting;
  });
}

bool StripedStream::DialStripeAt(const std::vector<std::string>& addresses,
                                 bulk::v1::LinkHello hello, bool moves) {
  const auto index = NewStripe();
  if (!index) return false;
  Stripe& stripe = stripes_[*index];
  stripe.state = StripeState::kDialling;
  stripe.dialled = true;
  stripe.moves = moves;
  hello.set_stripe(static_cast<std::uint32_t>(std::max<std::size_t>(OpenStripes(), 1)));
  hello.set_moves(moves);
  stripe.hello = std::move(hello);
  stripe.stream = dial_(addresses, std::make_shared<StripeSink>(shared_from_this(), *index));
  return true;
}

bool StripedStream::Grow(bulk::v1::LinkHello hello) {
  MutexLock lock(mutex_);
  const Stripe* const front = Front();
  if (!dial_ || closed_ || refused_ || Dialling() || front == nullptr || !front->dialled ||
      OpenStripes() >= kStripesMax) {
    return false;
  }
  return DialStripeAt({front->stream->address()}, std::move(hello), false);
}

bool StripedStream::Move(bulk::v1::LinkHello hello, const std::vector<std::string>& addresses,
                         Duration patience) {
  MutexLock lock(mutex_);
  if (!dial_ || closed_ || Dialling() || addresses.empty() || Front() == nullptr) return false;
  for (Stripe& stripe : stripes_) stripe.replaced = stripe.state == StripeState::kOpen;
  if (!DialStripeAt(addresses, std::move(hello), true)) return false;
  EndMoveAfter(patience, last_born_, StripeState::kDialling);
  return true;
}

// One that is reached has as long again to be greeted.
void StripedStream::EndMoveAfter(Duration patience, std::uint64_t born, StripeState from) {
  executor_->PostAfter("link.move_timeout", patience,
                       [weak = weak_from_this(), patience, born, from] {
                         const auto self = weak.lock();
                         if (!self) return;
                         MutexLock late(self->mutex_);
                         for (Stripe& stripe : self->stripes_) {
                           if (stripe.born != born || !stripe.stream) continue;
                           if (stripe.state == from) {
                             stripe.stream->Close(Cancelled("no answer"));
                           } else if (stripe.state == StripeState::kGreeting) {
                             self->EndMoveAfter(patience, born, StripeState::kGreeting);
                           }
                         }
                       });
}

bool StripedStream::Join(const std::shared_ptr<BulkStream>& stream, std::string head, bool moves) {
  MutexLock lock(mutex_);
  if (closed_ || OpenStripes() >= kStripesMax + (moves ? 1 : 0)) return false;
  const auto index = NewStripe();
  if (!index) return false;
  Stripe& stripe = stripes_[*index];
  if (!stream->SetSink(std::make_shared<StripeSink>(shared_from_this(), *index))) {
    stripe.state = StripeState::kGone;
    return false;
  }
  stripe.stream = stream;
  stripe.untried = true;
  stripe.writing = true;
  ++changes_;
  stream->Write(std::move(head), nullptr, 0, 0);
  ReadStripes();
  return true;
}

std::size_t StripedStream::stripes() const {
  MutexLock lock(mutex_);
  return OpenStripes();
}

std::vector<std::string> StripedStream::peer_addresses() const {
  MutexLock lock(mutex_);
  std::vector<std::string> addresses;
  for (const Stripe& stripe : stripes_) {
    if (stripe.state == StripeState::kOpen) addresses.push_back(stripe.stream->peer_address());
  }
  return addresses;
}

bool StripedStream::dialled() const {
  MutexLock lock(mutex_);
  const Stripe* const front = Front();
  return front != nullptr && front->dialled;
}

std::uint64_t StripedStream::changes() const {
  MutexLock lock(mutex_);
  return changes_;
}

void StripedStream::OnStripeOpen(std::size_t index) {
  std::shared_ptr<StreamSink> sink;
  {
    MutexLock lock(mutex_);
    Stripe& stripe = stripes_[index];
    if (closed_) return;
    if (stripe.first) {
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
    ++changes_;
    if (stripe->moves) RetireReplaced();
    ReadStripes();
    WriteWaiting();
    if (owed_) PostWritten();
  } else {
    refused_ = refused_ || !stripe->moves;
    stripe->stream->Close(Cancelled("the link needs one connection less"));
  }
}

void StripedStream::OnStripeGone(std::size_t index, const Status& status) {
  std::shared_ptr<StreamSink> sink;
  bool unused = false;
  {
    MutexLock lock(mutex_);
    Stripe& stripe = stripes_[index];
    const bool never_open =
        stripe.state == StripeState::kDialling || stripe.state == StripeState::kGreeting;
    // The other end has read all, or this end has and was told so.
    const bool retired = stripe.state == StripeState::kRetiring && stripe.ended;
    // Where it was open at the other end, that ends the link.
    const bool given_up = stripe.untried && stripe.state == StripeState::kOpen && OpenStripes() > 1;
    unused = (never_open || retired || given_up) && !closed_;
    if (given_up) ++changes_;
    stripe.state = StripeState::kGone;
    stripe.stream = nullptr;
    stripe.held.reset();
    if (unused) {
      refused_ = refused_ || (never_open && !stripe.moves);
      SHOAL_LOG(kDebug, "net", retired ? "link.stripe_retired" : "link.stripe_refused",
                {"stripe", index}, {"error", status.message()});
    } else {
      End(Cancelled("another connection of the link broke"));
      if (!std::exchange(told_gone_, true)) sink = sink_;
      sink_ = nullptr;
    }
  }
  if (unused) Deliver();  // it may have been the last one that could have the next message
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

std::shared_ptr<StreamSink> StripedStream::Fail() {
  End(Cancelled("the other end broke the protocol"));
  return std::exchange(told_gone_, true) ? nullptr : sink_;
}

std::string StripedStream::address() const {
  MutexLock lock(mutex_);
  const Stripe* const front = Front();
  return front != nullptr ? front->stream->address() : "";
}

std::string StripedStream::peer_address() const {
  MutexLock lock(mutex_);
  const Stripe* const front = Front();
  return front != nullptr ? front->stream->peer_address() : "";
}

// ---- moving ----

void StripedStream::RetireReplaced() {
  for (Stripe& stripe : stripes_) {
    if (!stripe.replaced || stripe.state != StripeState::kOpen) continue;
    stripe.state = StripeState::kRetiring;
    ++changes_;
    Note(&stripe, false);
  }
}

void StripedStream::Note(Stripe* stripe, bool seen) {
  bulk::v1::ChunkHeader header;
  header.mutable_retire()->set_seen(seen);
  stripe->notes.push_back(ChunkHead(header));
  WriteNotes(stripe);
}

void StripedStream::WriteNotes(Stripe* stripe) {
  if (stripe->writing || stripe->notes.empty() || !stripe->stream) return;
  std::string note = std::move(stripe->notes.front());
  stripe->notes.pop_front();
  stripe->writing = true;
  stripe->stream->Write(std::move(note), nullptr, 0, 0);
}

bool StripedStream::OnRetire(Stripe* stripe, bool seen) {
  const bool asked = stripe->state == StripeState::kRetiring;
  if (seen) {
    if (!asked) return false;
    stripe->ended = true;
    stripe->stream->Close(Status::Ok());
    return true;
  }
  if (stripe->ended || (!asked && OpenStripes() < 2)) return false;
  stripe->ended = true;
  if (!asked) ++changes_;
  stripe->state = StripeState::kRetiring;
  Note(stripe, true);
  stripe->reading = true;  // the answer to this end's own, or the end
  stripe->stream->Read();
  return true;
}

// ---- writing ----

bool StripedStream::CanWrite() const { return std::ranges::any_of(stripes_, IsFree); }

void StripedStream::Write(std::string head, std::shared_ptr<const Buffer> payload,
                          std::size_t offset, std::size_t size) {
  MutexLock lock(mutex_);
  if (closed_) return;
  SHOAL_CHECK(!owed_);
  owed_ = true;
  waiting_ = Outgoing{std::move(head), std::move(payload), offset, size};
  WriteWaiting();
}

void StripedStream::WriteWaiting() {
  const auto stripe = std::ranges::find_if(stripes_, IsFree);
  if (!waiting_ || stripe == stripes_.end()) return;
  Outgoing message = *std::exchange(waiting_, std::nullopt);
  stripe->writing = true;
  stripe->untried = false;
  stripe->stream->Write(std::move(message.head), std::move(message.payload), message.offset,
                        message.size);
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
    if (closed_ || !owed_ || waiting_ || !CanWrite()) return;
    owed_ = false;
    sink = sink_;
  }
  if (sink) sink->OnWritten(this);
}

void StripedStream::OnStripeWritten(std::size_t index) {
  {
    MutexLock lock(mutex_);
    stripes_[index].writing = false;
    if (closed_) return;
    WriteNotes(&stripes_[index]);
    WriteWaiting();
  }
  TellWritten();
}

// ---- reading ----

void StripedStream::ReadStripes() {
  if (!wanted_ || closed_) return;
  for (Stripe& stripe : stripes_) {
    const bool open = stripe.state == StripeState::kOpen || stripe.state == StripeState::kRetiring;
    if (!open || stripe.reading || stripe.held || stripe.ended) continue;
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
           stripe.ended || stripe.held.has_value();
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
  bool wrong = false;
  {
    MutexLock lock(mutex_);
    Stripe& stripe = stripes_[index];
    stripe.reading = false;
    stripe.untried = false;
    if (closed_ || stripe.state == StripeState::kGone) return;
    const auto& header = chunk.ok() ? chunk->header : bulk::v1::ChunkHeader::default_instance();
    if (stripe.state == StripeState::kDialling || stripe.state == StripeState::kGreeting) {
      return OnAnswer(&stripe, header.has_accept() && header.accept().code() == 0);
    }
    if (header.has_retire() || stripe.ended) {
      if (!header.has_retire() || !OnRetire(&stripe, header.retire().seen())) sink = Fail();
      wrong = sink != nullptr;
    } else if (wanted_ && !delivering_ && IsNext(sequence)) {
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
  if (wrong) {
    sink->OnGone(this, InvalidArgument("a connection of the link was retired against the rules"));
    return;
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
        sink = Fail();
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
