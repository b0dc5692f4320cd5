#include "net/links/link_core.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "net/base/wire_bytes.h"
#include "net/control/control.h"

namespace shoal::net {
namespace {

using std::chrono::milliseconds;

constexpr Duration kConnectTimeout = std::chrono::seconds(5);  // per address
constexpr Duration kBackoffFirst = milliseconds(200);
constexpr Duration kBackoffMax = std::chrono::seconds(2);
constexpr Duration kTick = std::chrono::seconds(1);
constexpr Duration kPingInterval = std::chrono::seconds(2);
// While chunks go out, pings measure how long they wait on their way: so often, but on a slow line
// not more than one in so many bytes, or in so much time.
constexpr Duration kProbeInterval = milliseconds(25);
constexpr std::uint64_t kProbeBytes = 64 * 1024;
constexpr Duration kProbeIntervalMax = milliseconds(100);
// Waits for a cap are cut into these, so that a change of the cap is felt at once.
constexpr Duration kWaitSlice = milliseconds(100);
// Shorter waits are not worth a timer; the limiter catches up at the next chunk.
constexpr Duration kWaitMin = milliseconds(1);
constexpr std::size_t kChunkBytesMin = 16 * 1024;
constexpr double kChunkSeconds = 0.010;
// A peer that pings without reading answers is broken. Ours waits for some of them.
constexpr std::size_t kControlQueueMax = 64;
constexpr std::size_t kPingsMax = 32;
constexpr std::uint64_t kUndeliveredMax = 64ull << 20;

double Milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

}  // namespace

LinkCore::LinkCore(LinkTarget target, LinkHandlers handlers, LinkContext context)
    : target_(std::move(target)),
      context_(std::move(context)),
      handlers_(std::move(handlers)),
      intake_(target_.run, target_.generation, context_.limits.frame_bytes_max,
              context_.unfinished),
      queue_(context_.limits.frame_bytes_max, context_.limits.queue_bytes_max) {
  stats_.peer = target_.peer;
  stats_.channel = target_.channel;
}

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
    if (self->phase_ != Phase::kClosed) ((*self).*then)();
  });
}

void LinkCore::Start(Dialer dialer) {
  MutexLock lock(mutex_);
  rates_at_ = context_.executor->clock().Now();
  After("link.open_timeout", context_.limits.open_timeout, &LinkCore::OpenTimeout);
  dialer_ = std::move(dialer);
  if (dialer_) DialNext();
}

void LinkCore::Detach() {
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
  const TimePoint now = context_.executor->clock().Now();
  MutexLock lock(mutex_);
  if (phase_ == Phase::kClosed) return Unavailable("the link to " + PeerText() + " is closed");
  SHOAL_RETURN_IF_ERROR(queue_.Push(std::move(frame), now).WithContext("link to " + PeerText()));
  Pump();
  return Status::Ok();
}

bool LinkCore::Attach(const std::shared_ptr<BulkStream>& stream, std::uint64_t hello_bytes) {
  MutexLock lock(mutex_);
  if (phase_ != Phase::kConnecting || stream_ || dialer_) return false;
  const auto striped = StripedStream::Accepted(stream, context_.executor);
  if (!striped->SetSink(shared_from_this())) return false;
  stream_ = striped;
  stats_.received_wire_bytes += WireBytes(hello_bytes);
  bulk::v1::ChunkHeader header;
  header.mutable_accept();
  QueueControl(header);
  Opened();
  ReadMore();
  return true;
}

bool LinkCore::Join(const std::shared_ptr<BulkStream>& stream, std::uint64_t hello_bytes) {
  MutexLock lock(mutex_);
  if (phase_ != Phase::kOpen || stream_->stripes() >= context_.limits.connections_max) return false;
  bulk::v1::ChunkHeader header;
  header.mutable_accept();
  std::string head = ChunkHead(header);
  const std::uint64_t accept_bytes = head.size();
  if (!stream_->Join(stream, std::move(head))) return false;
  stats_.received_wire_bytes += WireBytes(hello_bytes);
  stats_.sent_wire_bytes += WireBytes(accept_bytes);
  return true;
}

void LinkCore::Fail(const Status& reason) {
  MutexLock lock(mutex_);
  Close(reason);
}

void LinkCore::ResumeTransfers() {
  MutexLock lock(mutex_);
  if (waiting_upload_) UploadWaited();
  if (waiting_download_) {
    waiting_download_ = false;
    ReadMore();
  }
}

bool LinkCore::closed() const {
  MutexLock lock(mutex_);
  return phase_ == Phase::kClosed;
}

LinkStats LinkCore::stats() const {
  MutexLock lock(mutex_);
  LinkStats stats = stats_;
  stats.connected = phase_ == Phase::kOpen;
  stats.connections = stats.connected ? static_cast<std::uint32_t>(stream_->stripes()) : 0;
  stats.queued_bytes = queue_.queued_bytes();
  if (next_chunk_) stats.queued_bytes += next_chunk_->queue_bytes;
  if (written_chunk_) stats.queued_bytes += written_chunk_->queue_bytes;
  return stats;
}

std::optional<LinkPulse> LinkCore::TakePulse(bool probe) {
  MutexLock lock(mutex_);
  const TimePoint now = context_.executor->clock().Now();
  const bool idle = phase_ == Phase::kOpen && !sockets_.empty() && pings_.empty();
  if (probe && idle && now - ping_sent_ >= kProbeIntervalMax) SendPing(now);
  if (phase_ != Phase::kOpen) return std::nullopt;  // also because too many pings wait unread
  const bool waited = std::exchange(waited_upload_, false) || waiting_upload_;
  return LinkPulse{
      sockets_,          stats_.sent_wire_bytes, waited, std::exchange(queue_least_, std::nullopt),
      round_trip_least_, stream_->stripes()};
}

// ---- opening and closing ----

void LinkCore::DialNext() {
  if (attempt_running_ || target_.addresses.empty()) return;
  const std::string& address = target_.addresses[attempts_ % target_.addresses.size()];
  const std::uint64_t attempt = ++attempts_;
  attempt_running_ = true;
  phase_ = Phase::kConnecting;
  stats_.address = address;
  stream_ = dialer_(address, shared_from_this());
  context_.executor->PostAfter("link.connect_timeout", kConnectTimeout,
                               [weak = weak_from_this(), attempt] {
                                 const auto self = weak.lock();
                                 if (!self) return;
                                 MutexLock lock(self->mutex_);
                                 self->ConnectTimeout(attempt);
                               });
}

void LinkCore::ConnectTimeout(std::uint64_t attempt) {
  if (phase_ != Phase::kConnecting || attempt != attempts_ || !attempt_running_) return;
  const std::shared_ptr<BulkStream> stream = std::move(stream_);
  stream_ = nullptr;
  stream->Close(Cancelled("no answer"));
  AttemptFailed(DeadlineExceeded("no answer from " + stream->address()));
}

void LinkCore::AttemptFailed(const Status& status) {
  attempt_running_ = false;
  stream_ = nullptr;
  writing_ = false;
  reading_ = false;
  control_.clear();
  phase_ = Phase::kConnecting;
  last_failure_ = status;
  const std::uint64_t rounds = attempts_ / target_.addresses.size();
  const bool round_ends = attempts_ % target_.addresses.size() == 0;
  SHOAL_LOG(kDebug, "net", "link.dial_failed", {"peer", target_.peer.ToShort()},
            {"address", stats_.address}, {"error", status.message()});
  Duration delay = Duration::zero();
  if (round_ends) {
    delay = std::min<Duration>(kBackoffFirst * (1u << std::min<std::uint64_t>(rounds - 1, 5)),
                               kBackoffMax);
  }
  After("link.dial", delay, &LinkCore::DialNext);
}

void LinkCore::OpenTimeout() {
  if (phase_ == Phase::kOpen) return;
  const std::string where = "link '" + target_.channel + "' with " + PeerText();
  if (!dialer_) {
    Close(DeadlineExceeded(where + ": the peer did not connect in time; check that it runs and can "
                                   "reach this machine's port"));
  } else if (phase_ == Phase::kGreeting) {
    Close(DeadlineExceeded(where + ": reached at " + stats_.address +
                           ", but it did not accept the link of generation " +
                           std::to_string(target_.generation) + " in time; its plan may differ"));
  } else if (last_failure_.code() == StatusCode::kPermissionDenied) {
    Close(DeadlineExceeded(where + ": " + stats_.address +
                           " is reached, but does not take this peer's key; this peer is not in "
                           "its plan, or not yet"));
  } else {
    Close(DeadlineExceeded(where + ": not reached in time (" +
                           (last_failure_.ok() ? "no answer" : last_failure_.message()) +
                           "); check that it runs and that its port is open"));
  }
}

void LinkCore::OnOpen(BulkStream* stream) {
  MutexLock lock(mutex_);
  if (stream != stream_.get() || phase_ != Phase::kConnecting) return;
  phase_ = Phase::kGreeting;
  bulk::v1::ChunkHeader header;
  *header.mutable_hello() = Hello();
  QueueControl(header);
  ReadMore();
}

bulk::v1::LinkHello LinkCore::Hello() const {
  bulk::v1::LinkHello hello;
  hello.set_protocol(kProtocolVersion);
  hello.set_run(target_.run.value);
  hello.set_generation(target_.generation);
  hello.set_channel(target_.channel);
  return hello;
}

void LinkCore::OnGone(BulkStream* stream, const Status& status) {
  MutexLock lock(mutex_);
  if (stream != stream_.get() || phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kOpen) {
    const std::string why = status.message().empty() ? "" : " (" + status.message() + ")";
    Close(Unavailable(PeerText() + " at " + stats_.address + " closed the link '" +
                      target_.channel + "' or died" + why));
  } else if (dialer_) {
    AttemptFailed(status.ok() ? Unavailable("the other end hung up") : status);
  } else {
    Close(Unavailable(PeerText() + " hung up"));
  }
}

void LinkCore::Opened() {
  phase_ = Phase::kOpen;
  stats_.address = stream_->address();
  tuned_lanes_ = stream_->stripes();
  sockets_ = TuneForBulk(stream_->peer_addresses());
  last_heard_ = context_.executor->clock().Now();
  stripe_demand_.Start(last_heard_, context_.upload->taken());
  SendPing(last_heard_);  // the line may be idle now, and never again
  PostHandler("link.open", [](const LinkHandlers& handlers) {
    if (handlers.on_open) handlers.on_open();
  });
  After("link.tick", kTick, &LinkCore::Tick);
}

void LinkCore::AskForLanes() {
  const bool wanted = stripe_demand_.Tick(context_.executor->clock().Now(), stats_.stall_network_ms,
                                          context_.upload->taken(), context_.upload->rate());
  // No socket: there is no line between us.
  if (!wanted || sockets_.empty() || stream_->stripes() >= context_.limits.connections_max) return;
  if (dialer_) {
    Grow();
  } else {
    SendPing(context_.executor->clock().Now(), true);
  }
}

void LinkCore::Grow() {
  if (stream_->stripes() >= context_.limits.connections_max || !stream_->Grow(Hello())) return;
  SHOAL_LOG(kDebug, "net", "link.grow", {"peer", target_.peer.ToShort()},
            {"stripes", stream_->stripes() + 1});
}

void LinkCore::Close(const Status& reason) {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  if (stream_) stream_->Close(Cancelled("the link was closed by the other end"));
  stream_ = nullptr;
  dialer_ = nullptr;
  queue_.Clear();
  control_.clear();
  next_chunk_.reset();
  written_chunk_.reset();
  stats_.send_bps = 0;
  stats_.receive_bps = 0;
  PostHandler("link.closed", [reason](const LinkHandlers& handlers) {
    if (handlers.on_closed) handlers.on_closed(reason);
  });
}

void LinkCore::Tick() {
  if (phase_ != Phase::kOpen) return;
  const TimePoint now = context_.executor->clock().Now();
  UpdateRates(now);
  if (stream_->stripes() != std::exchange(tuned_lanes_, stream_->stripes())) {
    sockets_ = TuneForBulk(stream_->peer_addresses());
  }
  if (dialer_ && stream_->stripes() < context_.limits.connections_first) Grow();
  AskForLanes();
  // Only while we listen: a cap or a slow executor of ours is not the other end's fault.
  if (reading_ && now - last_heard_ > context_.limits.stall_timeout) {
    Close(DeadlineExceeded("no sign of life from " + PeerText() + " at " + stats_.address +
                           " for " + FormatDuration(context_.limits.stall_timeout)));
    return;
  }
  if (!reading_) intake_.Excuse(now);
  if (intake_.Overdue(now, context_.limits.frame_timeout)) {
    Close(DeadlineExceeded("a frame of " + PeerText() + " at " + stats_.address +
                           " was begun and not finished"));
    return;
  }
  if (now - ping_sent_ >= kPingInterval && pings_.empty()) SendPing(now);
  After("link.tick", kTick, &LinkCore::Tick);
}

void LinkCore::UpdateRates(TimePoint now) {
  const double seconds = std::chrono::duration<double>(now - rates_at_).count();
  if (seconds <= 0) return;
  // Half of the old value: the last two or three seconds count.
  const auto smooth = [seconds](double old, std::uint64_t bytes) {
    return 0.5 * old + 0.5 * static_cast<double>(bytes) * 8.0 / seconds;
  };
  stats_.send_bps = smooth(stats_.send_bps, stats_.sent_wire_bytes - rates_sent_);
  stats_.receive_bps = smooth(stats_.receive_bps, stats_.received_wire_bytes - rates_received_);
  rates_sent_ = stats_.sent_wire_bytes;
  rates_received_ = stats_.received_wire_bytes;
  rates_at_ = now;
}

// ---- sending ----

void LinkCore::QueueControl(const bulk::v1::ChunkHeader& header) {
  if (control_.size() >= kControlQueueMax) {
    Close(ResourceExhausted(PeerText() + " sends without reading answers"));
    return;
  }
  control_.push_back(ChunkHead(header));
  Pump();
}

void LinkCore::SendPing(TimePoint now, bool crowded) {
  pings_.push_back({++ping_id_, now});
  ping_sent_ = now;
  sent_at_ping_ = stats_.sent_wire_bytes;
  bulk::v1::ChunkHeader header;
  header.mutable_ping()->set_id(ping_id_);
  header.mutable_ping()->set_crowded(crowded);
  QueueControl(header);
}

bool LinkCore::ProbeDue(TimePoint now) const {
  if (sockets_.empty() || pings_.size() >= kPingsMax) return false;
  const Duration elapsed = now - ping_sent_;
  return elapsed >= kProbeIntervalMax ||
         (elapsed >= kProbeInterval && stats_.sent_wire_bytes - sent_at_ping_ >= kProbeBytes);
}

std::size_t LinkCore::ChunkBytes() const {
  const std::size_t most = context_.limits.chunk_bytes;
  const BitsPerSecond rate = context_.upload->rate();
  if (rate.value == 0) return most;
  // A chunk is on one connection, and those after it wait for it at the other end.
  const double wanted =
      rate.bytes_per_second() * kChunkSeconds / static_cast<double>(context_.stripes_most->load());
  const double bytes = std::min(wanted, static_cast<double>(most));
  return std::max(static_cast<std::size_t>(bytes), std::min(kChunkBytesMin, most));
}

void LinkCore::Pump() {
  if (phase_ == Phase::kClosed || !stream_ || writing_) return;
  if (!control_.empty()) {
    // Tiny and urgent: they count against the cap, but do not wait for it.
    std::string head = std::move(control_.front());
    control_.pop_front();
    const std::uint64_t wire = WireBytes(head.size());
    context_.upload->Take(wire, 0);
    stats_.sent_wire_bytes += wire;
    writing_ = true;
    write_started_ = context_.executor->clock().Now();
    stream_->Write(std::move(head), nullptr, 0, 0);
    return;
  }
  if (phase_ == Phase::kOpen && !waiting_upload_) PumpFrames();
}

void LinkCore::PumpFrames() {
  if (!next_chunk_) {
    next_chunk_ = queue_.Next(ChunkBytes());
    if (!next_chunk_) return;
    upload_place_ =
        context_.upload->Take(WireBytes(next_chunk_->bytes()), PriorityOf(next_chunk_->kind));
  }
  const TimePoint now = context_.executor->clock().Now();
  const Duration wait = context_.upload->WaitFor(upload_place_, kWaitMin);
  if (wait > Duration::zero()) {
    waiting_upload_ = true;
    waited_upload_ = true;
    wait_started_ = now;
    After("link.upload_wait", std::min(wait, kWaitSlice), &LinkCore::UploadWaited);
    return;
  }
  // Before the chunk: what the limiter let pass earlier has left by now, so that the ping waits in
  // nobody's queue but the line's.
  if (ProbeDue(now)) {
    SendPing(now);
    return;  // the chunk follows when the ping is written
  }
  written_chunk_ = std::exchange(next_chunk_, std::nullopt);
  const OutChunk& chunk = *written_chunk_;
  stats_.sent_wire_bytes += WireBytes(chunk.bytes());
  writing_ = true;
  write_started_ = now;
  stream_->Write(chunk.head, chunk.payload, chunk.offset, chunk.size);
}

void LinkCore::UploadWaited() {
  if (!waiting_upload_) return;
  waiting_upload_ = false;
  stats_.stall_rate_limit_ms += Milliseconds(context_.executor->clock().Now() - wait_started_);
  Pump();
}

void LinkCore::OnWritten(BulkStream* stream) {
  MutexLock lock(mutex_);
  if (stream != stream_.get() || !writing_) return;
  writing_ = false;
  const TimePoint now = context_.executor->clock().Now();
  if (const auto chunk = std::exchange(written_chunk_, std::nullopt)) {
    stats_.stall_network_ms += Milliseconds(now - write_started_);
    if (chunk->last) {
      ++stats_.sent_frames;
      const double elapsed_ms = Milliseconds(now - chunk->queued_at);
      PostHandler("link.sent", [kind = chunk->kind, micro_batch = chunk->micro_batch,
                                elapsed_ms](const LinkHandlers& handlers) {
        if (handlers.on_sent) handlers.on_sent(kind, micro_batch, elapsed_ms);
      });
    }
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
  auto incoming = intake_.Take(message, context_.executor->clock().Now());

  MutexLock lock(mutex_);
  if (stream != stream_.get() || phase_ == Phase::kClosed) return;
  reading_ = false;
  last_heard_ = context_.executor->clock().Now();
  const std::uint64_t wire = WireBytes(bytes);
  stats_.received_wire_bytes += wire;
  download_place_ = context_.download->Take(wire).end();
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
  if (phase_ == Phase::kGreeting) {
    if (!header.has_accept()) return InvalidArgument("no answer to our hello, but something else");
    return HandleAccept(header.accept());
  }
  if (header.frame() != 0) {
    if (incoming.frame) Deliver(std::move(*incoming.frame));
    return Status::Ok();
  }
  if (!header.has_ping()) return InvalidArgument("a message that is neither chunk nor ping");
  HandlePing(header.ping());
  return Status::Ok();
}

Status LinkCore::HandleAccept(const bulk::v1::LinkAccept& accept) {
  if (accept.code() != 0) {
    const bool known = accept.code() > 0 && accept.code() <= 16;
    return Status(known ? static_cast<StatusCode>(accept.code()) : StatusCode::kUnknown,
                  "refused by the other end: " + accept.error().substr(0, 1000));
  }
  Opened();
  Pump();
  return Status::Ok();
}

void LinkCore::HandlePing(const bulk::v1::Ping& ping) {
  if (!ping.reply()) {
    if (ping.crowded() && dialer_) Grow();
    bulk::v1::ChunkHeader header;
    header.mutable_ping()->set_id(ping.id());
    header.mutable_ping()->set_reply(true);
    header.mutable_ping()->set_at(
        static_cast<std::uint64_t>(last_heard_.time_since_epoch().count()));
    QueueControl(header);
    return;
  }
  while (!pings_.empty() && pings_.front().id < ping.id()) pings_.pop_front();
  if (pings_.empty() || pings_.front().id != ping.id()) return;
  const TimePoint sent = pings_.front().at;
  pings_.pop_front();
  const Duration round_trip = last_heard_ - sent;
  if (stats_.pings == 0 || round_trip < round_trip_least_) round_trip_least_ = round_trip;
  stats_.rtt_ms = Milliseconds(round_trip);
  stats_.rtt_min_ms = Milliseconds(round_trip_least_);
  if (++stats_.pings < kFirstPings && pings_.empty()) SendPing(last_heard_);
  if (ping.at() == 0) return;
  const Duration queue = queue_delay_.Add(last_heard_, sent, ping.at());
  queue_least_ = std::min(queue_least_.value_or(queue), queue);
}

void LinkCore::Deliver(Frame frame) {
  ++stats_.received_frames;
  const std::uint64_t bytes = frame.payload.size();
  undelivered_bytes_ += bytes;
  // std::function wants something that can be copied.
  const auto shared = std::make_shared<Frame>(std::move(frame));
  context_.executor->Post("link.frame", [self = shared_from_this(), shared, bytes] {
    if (!self->detached_ && self->handlers_.on_frame) self->handlers_.on_frame(std::move(*shared));
    MutexLock lock(self->mutex_);
    self->undelivered_bytes_ -= bytes;
    self->ReadMore();
  });
}

void LinkCore::ReadMore() {
  if (phase_ == Phase::kClosed || !stream_ || reading_ || waiting_download_) return;
  if (undelivered_bytes_ > kUndeliveredMax) return;
  const Duration wait = context_.download->WaitFor(download_place_, kWaitMin);
  if (wait > Duration::zero()) {
    waiting_download_ = true;
    context_.executor->PostAfter("link.download_wait", std::min(wait, kWaitSlice),
                                 [weak = weak_from_this()] {
                                   if (const auto self = weak.lock()) self->ResumeTransfers();
                                 });
    return;
  }
  reading_ = true;
  last_heard_ = context_.executor->clock().Now();  // deaf until now, if we waited
  stream_->Read();
}

}  // namespace shoal::net
