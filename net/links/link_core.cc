#include "net/links/link_core.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "net/base/wire_bytes.h"
#include "net/relay/relay_address.h"

namespace shoal::net {
namespace {

constexpr Duration kTick = std::chrono::seconds(1);
constexpr Duration kBetterWayPatience = std::chrono::seconds(10);  // a punch takes up to 8 s
constexpr Duration kBetterWayWaitMax = std::chrono::minutes(10);
constexpr int kSecondWaitFactor = 5;  // where the first try comes soon

}  // namespace

LinkCore::LinkCore(LinkTarget target, LinkHandlers handlers, LinkContext context)
    : target_(std::move(target)),
      context_(std::move(context)),
      handlers_(std::move(handlers)),
      intake_(target_.run, target_.generation, context_.limits.frame_bytes_max,
              context_.unfinished),
      addresses_(target_.addresses),
      handshake_(target_),
      sender_(context_.limits, context_.upload, context_.stripes_most),
      receiver_(context_.download) {}

void LinkCore::PostHandler(const char* name, std::function<void(const LinkHandlers&)> call) {
  context_.executor->Post(name, [self = shared_from_this(), call = std::move(call)] {
    if (!self->detached_) call(self->handlers_);
  });
}

void LinkCore::After(const char* name, Duration delay, void (LinkCore::*then)()) {
  context_.executor->PostAfter(name, delay, [weak = weak_from_this(), then] {
    const auto self = weak.lock();
    if (!self) return;
    MutexLock lock(self->mutex_);
    if (!self->handshake_.closed()) ((*self).*then)();
  });
}

void LinkCore::Start(Dialer dialer, Duration delay, bool lower) {
  SHOAL_ASSERT_ON(*context_.executor);
  MutexLock lock(mutex_);
  lower_ = lower;
  rates_.Start(Now());
  After("link.open_timeout", context_.limits.timeouts.link_open, &LinkCore::OpenTimeout);
  dialer_ = std::move(dialer);
  if (!dialer_) return;
  if (delay == Duration::zero()) return DialNext();
  After("link.dial", delay, &LinkCore::DialNext);
}

void LinkCore::Detach() {
  SHOAL_ASSERT_ON(*context_.executor);
  detached_ = true;
  {
    MutexLock lock(mutex_);
    Close(Cancelled("the link was closed"));
  }
  // Not at once: this may be a handler that destroys its own link.
  context_.executor->Post("link.drop_handlers",
                          [self = shared_from_this()] { self->handlers_ = {}; });
}

Status LinkCore::Send(Frame frame) {
  const TimePoint now = Now();
  MutexLock lock(mutex_);
  if (handshake_.closed()) return Unavailable("the link to " + PeerText() + " is closed");
  SHOAL_RETURN_IF_ERROR(sender_.Push(std::move(frame), now).WithContext("link to " + PeerText()));
  Pump();
  return Status::Ok();
}

bool LinkCore::Attach(const std::shared_ptr<BulkStream>& stream, std::uint64_t hello_bytes) {
  MutexLock lock(mutex_);
  if (handshake_.open() || handshake_.closed()) return false;
  // The lower end's hello may have been accepted by now; then the other end drops this stream.
  if (stream_ && lower_ && handshake_.phase() == LinkPhase::kGreeting) return false;
  const auto striped = StripedStream::Accepted(stream, dialer_, context_.executor);
  if (!striped->SetSink(shared_from_this())) return false;
  if (stream_) {
    stream_->Close(Cancelled("the other end dialled sooner"));
    sender_.Restart();
    receiver_.Restart();
  }
  stream_ = striped;
  dialled_ = false;
  receiver_.CountWire(WireBytes(hello_bytes));
  bulk::v1::ChunkHeader header;
  header.mutable_accept()->set_membership(OwnMembership());
  QueueControl(header);
  Opened();
  ReadMore();
  return true;
}

Status LinkCore::Show(const std::string& membership) {
  MutexLock lock(mutex_);
  return TakeMembership(membership);
}

bool LinkCore::Join(const std::shared_ptr<BulkStream>& stream, std::uint64_t hello_bytes,
                    bool moves) {
  MutexLock lock(mutex_);
  const std::size_t most = context_.limits.connections_max + (moves ? 1 : 0);
  if (!handshake_.open() || stream_->stripes() >= most) return false;
  bulk::v1::ChunkHeader header;
  header.mutable_accept();
  std::string head = ChunkHead(header);
  const std::uint64_t accept_bytes = head.size();
  if (!stream_->Join(stream, std::move(head), moves)) return false;
  receiver_.CountWire(WireBytes(hello_bytes));
  sender_.CountWire(WireBytes(accept_bytes));
  return true;
}

void LinkCore::UseAddresses(const std::vector<std::string>& addresses) {
  MutexLock lock(mutex_);
  if (addresses.empty() || addresses == addresses_) return;
  addresses_ = addresses;
  better_wait_ = context_.limits.better_after;
  better_at_ = TimePoint{};
}

void LinkCore::Fail(const Status& reason) {
  MutexLock lock(mutex_);
  Close(reason);
}

void LinkCore::ResumeTransfers() {
  MutexLock lock(mutex_);
  Resume();
}

void LinkCore::Resume() {
  UploadWaited();
  if (receiver_.Waited()) ReadMore();
}

bool LinkCore::closed() const {
  MutexLock lock(mutex_);
  return handshake_.closed();
}

LinkStats LinkCore::stats() const {
  MutexLock lock(mutex_);
  LinkStats stats;
  stats.peer = target_.peer;
  stats.channel = target_.channel;
  stats.address = handshake_.address();
  stats.connected = handshake_.open();
  if (stats.connected) stats.path = PathName(path_);
  stats.connections = stats.connected ? static_cast<std::uint32_t>(stream_->stripes()) : 0;
  stats.send_bps = rates_.send_bps();
  stats.receive_bps = rates_.receive_bps();
  sender_.AddTo(&stats);
  receiver_.AddTo(&stats);
  liveness_.AddTo(&stats);
  return stats;
}

std::optional<LinkPulse> LinkCore::TakePulse(bool probe) {
  MutexLock lock(mutex_);
  const TimePoint now = Now();
  const bool on_a_line = handshake_.open() && !sockets_.empty();
  if (probe && on_a_line && liveness_.IdleProbeDue(now)) SendPing(now);
  if (!handshake_.open()) return std::nullopt;  // also because too many pings wait unread
  return LinkPulse{sockets_,
                   sender_.sent_wire_bytes(),
                   sender_.TakeLimited(),
                   liveness_.TakeQueueLeast(),
                   liveness_.round_trip_least(),
                   stream_->stripes()};
}

// ---- opening and closing ----

void LinkCore::DialNext() {
  const auto attempt = handshake_.Dial();
  if (!attempt) return;
  dialled_ = true;
  stream_ = StripedStream::Dial(dialer_, addresses_, context_.executor, shared_from_this());
  context_.executor->PostAfter("link.connect_timeout", kConnectTimeout,
                               [weak = weak_from_this(), number = *attempt] {
                                 const auto self = weak.lock();
                                 if (!self) return;
                                 MutexLock lock(self->mutex_);
                                 self->ConnectTimeout(number);
                               });
}

void LinkCore::ConnectTimeout(std::uint64_t attempt) {
  if (!handshake_.Unanswered(attempt)) return;
  const std::shared_ptr<BulkStream> stream = std::move(stream_);
  stream_ = nullptr;
  stream->Close(Cancelled("no answer"));
  AttemptFailed(DeadlineExceeded("no answer from " + ShownAddress(stream->address())));
}

void LinkCore::AttemptFailed(const Status& status) {
  stream_ = nullptr;
  dialled_ = false;
  if (context_.attempt_failed) context_.executor->Post("link.callers", context_.attempt_failed);
  sender_.Restart();
  receiver_.Restart();
  SHOAL_LOG(kDebug, "net", "link.dial_failed", {"peer", target_.peer.ToShort()},
            {"error", status.message()});
  After("link.dial", handshake_.AttemptFailed(status), &LinkCore::DialNext);
}

void LinkCore::OpenTimeout() {
  if (!handshake_.open()) Close(handshake_.Late(lower_));
}

void LinkCore::OnOpen(BulkStream* stream) {
  MutexLock lock(mutex_);
  if (stream != stream_.get() || handshake_.phase() != LinkPhase::kConnecting) return;
  handshake_.Greet(ShownAddress(stream_->address()));
  bulk::v1::ChunkHeader header;
  *header.mutable_hello() = MakeHello();
  QueueControl(header);
  ReadMore();
}

void LinkCore::OnGone(BulkStream* stream, const Status& status) {
  MutexLock lock(mutex_);
  if (stream != stream_.get() || handshake_.closed()) return;
  if (handshake_.open()) {
    const std::string why = status.message().empty() ? "" : " (" + status.message() + ")";
    Close(Unavailable(PeerText() + " at " + handshake_.address() + " closed the link '" +
                      target_.channel + "' or died" + why));
  } else if (dialer_) {
    AttemptFailed(status.ok() ? Unavailable("the other end hung up") : status);
  } else {
    Close(Unavailable(PeerText() + " hung up"));
  }
}

void LinkCore::Opened() {
  const TimePoint now = Now();
  handshake_.Open();
  LookAtWay();
  PlanFirstTry(now);
  liveness_.Heard(now);
  stripe_demand_.Start(now, context_.upload->taken());
  SendPing(now);  // the line may be idle now, and never again
  PostHandler("link.open", [](const LinkHandlers& handlers) {
    if (handlers.on_open) handlers.on_open();
  });
  After("link.tick", kTick, &LinkCore::Tick);
}

void LinkCore::LookAtWay() {
  const std::string address = stream_->address();
  dialled_ = stream_->dialled();
  const bool punched =
      dialled_ ? IsPunchAddress(address) : context_.is_punched && context_.is_punched(address);
  const bool relayed = !punched && (dialled_ ? IsRelayAddress(address)
                                             : context_.is_relayed && context_.is_relayed(address));
  path_ = punched   ? LinkPath::kPunched
          : relayed ? LinkPath::kRelay
                    : PathOf(stream_->peer_address());
  if (punched) {
    handshake_.Reached(stream_->peer_address());
  } else {
    handshake_.Reached(dialled_ || !relayed ? ShownAddress(address) : "relay " + address);
  }
  seen_changes_ = stream_->changes();
  sockets_ = TuneForBulk(stream_->peer_addresses());
}

void LinkCore::Close(const Status& reason) {
  if (handshake_.closed()) return;
  handshake_.Close();
  if (stream_) stream_->Close(Cancelled("the link was closed by the other end"));
  stream_ = nullptr;
  dialer_ = nullptr;
  dialled_ = false;
  sender_.Clear();
  rates_.Stop();
  PostHandler("link.closed", [reason](const LinkHandlers& handlers) {
    if (handlers.on_closed) handlers.on_closed(reason);
  });
}

// ---- membership ----

Status LinkCore::TakeMembership(const std::string& bytes) {
  if (!context_.members) return Status::Ok();
  const auto until = context_.members->Until(bytes, target_.peer, target_.run, Now());
  if (!until.ok()) return until.status().WithContext(PeerText());
  member_until_ = std::max(member_until_, *until);
  return Status::Ok();
}

std::string LinkCore::OwnMembership() {
  if (!context_.members) return "";
  shown_version_ = context_.members->version();
  return context_.members->own();
}

bulk::v1::LinkHello LinkCore::MakeHello() {
  bulk::v1::LinkHello hello = handshake_.Hello();
  hello.set_membership(OwnMembership());
  return hello;
}

// ---- once a second ----

void LinkCore::Tick() {
  if (!handshake_.open()) return;
  const TimePoint now = Now();
  rates_.Update(now, sender_.sent_wire_bytes(), receiver_.received_wire_bytes());
  LookAtStripes();
  if (!handshake_.open()) return;
  // Only while we listen: a cap or a slow executor of ours is not the other end's fault.
  if (receiver_.reading() && liveness_.Silent(now, context_.limits.timeouts.link_silence)) {
    Close(DeadlineExceeded("no sign of life from " + PeerText() + " at " + handshake_.address() +
                           " for " + FormatDuration(context_.limits.timeouts.link_silence)));
    return;
  }
  if (!receiver_.reading()) intake_.Excuse(now);
  if (intake_.Overdue(now, context_.limits.timeouts.frame_stall)) {
    Close(DeadlineExceeded("a frame of " + PeerText() + " at " + handshake_.address() +
                           " was begun and not finished"));
    return;
  }
  if (context_.members && now >= member_until_) {
    Close(Unauthenticated("the membership of " + PeerText() + " in the run has ended"));
    return;
  }
  const bool renewed = context_.members && context_.members->version() != shown_version_;
  if (renewed || liveness_.PingDue(now, context_.limits.timeouts.ping_interval)) SendPing(now);
  After("link.tick", kTick, &LinkCore::Tick);
}

void LinkCore::LookAtStripes() {
  if (stream_->changes() != seen_changes_) {
    const LinkPath before = path_;
    LookAtWay();
    if (path_ != before) {
      better_wait_ = context_.limits.better_after;
      liveness_.NewWay();
      SHOAL_LOG(kInfo, "net", "link.moved", {"peer", target_.peer.ToShort()},
                {"from", PathName(before)}, {"to", PathName(path_)});
    }
  }
  TryBetterWay(Now());
  if (dialled_ && stream_->stripes() < context_.limits.connections_first) Grow();
  const TimePoint now = Now();
  const bool wanted = stripe_demand_.Tick(now, sender_.stall_network_ms(), context_.upload->taken(),
                                          context_.upload->rate());
  if (!wanted || sockets_.empty() || stream_->stripes() >= context_.limits.connections_max) return;
  if (dialled_) {
    Grow();
  } else {
    SendPing(now, true);
  }
}

// Not MakeHello: whether the other end hears this one is not known.
bulk::v1::LinkHello LinkCore::MakeStripeHello() {
  bulk::v1::LinkHello hello = handshake_.Hello();
  if (context_.members) hello.set_membership(context_.members->own());
  return hello;
}

// The ends take turns: one way that both find is enough. Through a relay it is the rule that
// routers are in the way, and they let a connection through that both ends begin.
void LinkCore::PlanFirstTry(TimePoint now) {
  const LinkLimits& limits = context_.limits;
  const bool soon = lower_ && path_ == LinkPath::kRelay;
  const Duration first = std::min(limits.relayed_better_after, limits.better_after);
  better_wait_ =
      soon ? std::min(kSecondWaitFactor * first, limits.better_after) : limits.better_after;
  better_at_ = now + (soon ? first : limits.better_after);
  if (!lower_) better_at_ += limits.better_after / 2;
}

// What was in the way may be gone: a port is open by now, a cable is plugged in, the relay answered
// first only because the line was full.
void LinkCore::TryBetterWay(TimePoint now) {
  if (now < better_at_ || context_.limits.better_after == Duration::zero()) return;
  const auto better = BetterThan(path_, addresses_);
  if (better.empty()) {  // nor will there be any: ways only get better, until addresses change
    better_at_ = TimePoint::max();
    return;
  }
  if (!stream_->Move(MakeStripeHello(), better, kBetterWayPatience)) return;
  better_at_ = now + better_wait_;
  better_wait_ = std::min<Duration>(2 * better_wait_, kBetterWayWaitMax);
}

void LinkCore::Grow() {
  if (stream_->stripes() >= context_.limits.connections_max) return;
  if (!stream_->Grow(MakeStripeHello())) return;
  SHOAL_LOG(kDebug, "net", "link.grow", {"peer", target_.peer.ToShort()},
            {"stripes", stream_->stripes() + 1});
}

// ---- sending ----

void LinkCore::QueueControl(const bulk::v1::ChunkHeader& header) {
  if (sender_.QueueControl(header)) {
    Pump();
  } else {
    Close(ResourceExhausted(PeerText() + " sends without reading answers"));
  }
}

void LinkCore::SendPing(TimePoint now, bool crowded) {
  bulk::v1::ChunkHeader header;
  header.mutable_ping()->set_id(liveness_.Ping(now, sender_.sent_wire_bytes()));
  header.mutable_ping()->set_crowded(crowded);
  if (context_.members && context_.members->version() != shown_version_) {
    header.mutable_ping()->set_membership(OwnMembership());
  }
  QueueControl(header);
}

void LinkCore::Pump() {
  if (handshake_.closed() || !stream_ || sender_.writing()) return;
  const TimePoint now = Now();
  if (auto head = sender_.StartControl(now)) {
    stream_->Write(std::move(*head), nullptr, 0, 0);
    return;
  }
  if (!handshake_.open() || sender_.waiting()) return;
  const auto wait = sender_.PrepareChunk(now);
  if (!wait) return;
  if (*wait > Duration::zero()) {
    After("link.upload_wait", *wait, &LinkCore::UploadWaited);
    return;
  }
  // Before the chunk: what the limiter let pass earlier has left by now, so that the ping waits in
  // nobody's queue but the line's.
  if (!sockets_.empty() && liveness_.ProbeDue(now, sender_.sent_wire_bytes())) {
    SendPing(now);
    return;  // the chunk follows when the ping is written
  }
  const OutChunk& chunk = sender_.StartChunk(now);
  stream_->Write(chunk.head, chunk.payload, chunk.offset, chunk.size);
}

void LinkCore::UploadWaited() {
  if (sender_.Waited(Now())) Pump();
}

void LinkCore::OnWritten(BulkStream* stream) {
  MutexLock lock(mutex_);
  if (stream != stream_.get() || !sender_.writing()) return;
  if (const auto sent = sender_.Written(Now())) {
    PostHandler("link.sent", [frame = *sent](const LinkHandlers& handlers) {
      if (handlers.on_sent) handlers.on_sent(frame.kind, frame.micro_batch, frame.elapsed_ms);
    });
  }
  Pump();
}

// ---- receiving ----

void LinkCore::OnRead(BulkStream* stream, const ByteSlices& message) {
  std::uint64_t bytes = 0;
  for (const auto& slice : message) bytes += slice.size();
  {
    MutexLock lock(mutex_);
    if (stream != stream_.get()) return;
  }
  auto incoming = intake_.Take(message, Now());

  MutexLock lock(mutex_);
  if (stream != stream_.get() || handshake_.closed()) return;
  receiver_.Read(WireBytes(bytes));
  liveness_.Heard(Now());
  if (incoming.ok() && context_.low_water) {
    context_.low_water->OnMessage(sockets_, bytes, incoming->more);
  }
  const Status status =
      incoming.ok() ? HandleIncoming(std::move(incoming).value()) : incoming.status();
  if (!status.ok()) {
    SHOAL_LOG(kDebug, "net", "link.refused", {"peer", target_.peer.ToShort()},
              {"error", status.ToString()});
    Close(status.WithContext("link '" + target_.channel + "' with " + PeerText()));
    return;
  }
  ReadMore();
}

Status LinkCore::HandleIncoming(FrameIntake::Incoming incoming) {
  const bulk::v1::ChunkHeader& header = incoming.header;
  if (handshake_.phase() == LinkPhase::kGreeting) {
    SHOAL_RETURN_IF_ERROR(LinkHandshake::CheckAnswer(header));
    SHOAL_RETURN_IF_ERROR(TakeMembership(header.accept().membership()));
    Opened();
    Pump();
    return Status::Ok();
  }
  if (header.frame() != 0) {
    if (incoming.frame) Deliver(std::move(*incoming.frame));
    return Status::Ok();
  }
  if (!header.has_ping()) return InvalidArgument("a message that is neither chunk nor ping");
  return HandlePing(header.ping());
}

Status LinkCore::HandlePing(const bulk::v1::Ping& ping) {
  if (!ping.membership().empty()) SHOAL_RETURN_IF_ERROR(TakeMembership(ping.membership()));
  const TimePoint heard = liveness_.heard_at();
  if (ping.reply()) {
    if (liveness_.Answered(ping.id(), ping.at())) SendPing(heard);
    return Status::Ok();
  }
  if (ping.crowded() && dialled_) Grow();
  bulk::v1::ChunkHeader header;
  header.mutable_ping()->set_id(ping.id());
  header.mutable_ping()->set_reply(true);
  header.mutable_ping()->set_at(static_cast<std::uint64_t>(heard.time_since_epoch().count()));
  QueueControl(header);
  return Status::Ok();
}

void LinkCore::Deliver(Frame frame) {
  const std::uint64_t bytes = frame.payload.size();
  receiver_.Handed(bytes);
  // std::function wants something that can be copied.
  const auto shared = std::make_shared<Frame>(std::move(frame));
  context_.executor->Post("link.frame", [self = shared_from_this(), shared, bytes] {
    if (!self->detached_ && self->handlers_.on_frame) self->handlers_.on_frame(std::move(*shared));
    MutexLock lock(self->mutex_);
    self->receiver_.Taken(bytes);
    self->ReadMore();
  });
}

void LinkCore::ReadMore() {
  if (handshake_.closed() || !stream_) return;
  const auto wait = receiver_.StartRead();
  if (!wait) return;
  if (*wait > Duration::zero()) {
    After("link.download_wait", *wait, &LinkCore::Resume);
    return;
  }
  liveness_.Heard(Now());  // deaf until now, if we waited
  stream_->Read();
}

}  // namespace shoal::net
