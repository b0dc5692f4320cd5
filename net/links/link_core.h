// LinkCore: what is behind a Link, shared by the Link object, the stream's events (gRPC threads)
// and timers (executor). It composes what a link consists of, each of which knows no thread:
// LinkHandshake (until it is open), LinkSender, LinkReceiver with FrameIntake, LinkLiveness and
// TransferRates. One mutex guards them, held shortly; handlers run on the executor only.

#ifndef SHOAL_NET_LINKS_LINK_CORE_H_
#define SHOAL_NET_LINKS_LINK_CORE_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/executor.h"
#include "common/mutex.h"
#include "net/base/transfer_rates.h"
#include "net/identity/membership_check.h"
#include "net/links/frame_intake.h"
#include "net/links/link.h"
#include "net/links/link_handshake.h"
#include "net/links/link_liveness.h"
#include "net/links/link_path.h"
#include "net/links/link_receiver.h"
#include "net/links/link_sender.h"
#include "net/links/striped_stream.h"
#include "net/pacing/low_water_loop.h"
#include "net/pacing/pacing_loop.h"
#include "net/pacing/rate_limiter.h"
#include "net/pacing/socket_tuning.h"
#include "net/pacing/stripe_demand.h"

namespace shoal::net {

struct LinkContext {
  LinkLimits limits;
  std::shared_ptr<RateLimiter> upload;
  std::shared_ptr<RateLimiter> download;
  Executor* executor = nullptr;
  std::shared_ptr<const std::atomic<std::size_t>> stripes_most;  // see LinkSender
  std::shared_ptr<ByteBudget> unfinished;                        // frames of all links
  std::shared_ptr<LowWaterLoop> low_water;
  std::shared_ptr<MembershipCheck> members;  // null: whoever the plan names may link
  // Whether an accepted connection came by a relay. Thread: any.
  std::function<bool(const std::string& peer_address)> is_relayed;
  // Whether it was made by both ends, through routers. Thread: any.
  std::function<bool(const std::string& peer_address)> is_punched;
  // An attempt of this end's failed: callers that waited for its end may be taken. On the executor.
  std::function<void()> attempt_failed;
};

// Thread: any, unless noted.
class LinkCore final : public StreamSink, public std::enable_shared_from_this<LinkCore> {
 public:
  using Dialer = StripedStream::DialStripe;

  LinkCore(LinkTarget target, LinkHandlers handlers, LinkContext context);

  // Starts the clock of the open timeout and, with a dialer, dialling, after `delay`. Both ends may
  // dial and be dialled. `lower`: if two streams come about at once, this end's own one counts.
  // Thread: executor.
  void Start(Dialer dialer, Duration delay, bool lower);
  // The Link object is gone: closes, no handler runs any more. Thread: executor.
  void Detach();
  Status Send(Frame frame);

  // An accepted stream whose hello matched. False: the stream or the link has ended, or the link
  // has another stream, or may have one in a moment. Thread: any.
  bool Attach(const std::shared_ptr<BulkStream>& stream, std::uint64_t hello_bytes);
  // What the caller's hello shows, before Attach or Join. Thread: any.
  Status Show(const std::string& membership);
  // The same for one more connection of an open link. Thread: any.
  bool Join(const std::shared_ptr<BulkStream>& stream, std::uint64_t hello_bytes, bool moves);
  // Dials these from now on; looks for a better way at once if the link is open. Thread: any.
  void UseAddresses(const std::vector<std::string>& addresses);
  // Ends the link with a reason. Thread: any.
  void Fail(const Status& reason);
  // Looks at the caps again. Thread: any.
  void ResumeTransfers();

  bool closed() const;
  const LinkTarget& target() const { return target_; }
  LinkStats stats() const;
  // Nullopt: not open. `probe`: send a ping, unless one is under way or was a moment ago. Thread:
  // any, one at a time.
  std::optional<LinkPulse> TakePulse(bool probe);

  void OnOpen(BulkStream* stream) override;
  void OnRead(BulkStream* stream, const ByteSlices& message) override;
  void OnWritten(BulkStream* stream) override;
  void OnGone(BulkStream* stream, const Status& status) override;

 private:
  // Posts a call of one of the handlers, unless the Link is gone by then.
  void PostHandler(const char* name, std::function<void(const LinkHandlers&)> call);
  // `then` runs under the mutex after `delay`, unless the link is gone or closed by then.
  void After(const char* name, Duration delay, void (LinkCore::*then)());
  TimePoint Now() const { return context_.executor->clock().Now(); }

  void DialNext() SHOAL_REQUIRES(mutex_);
  void ConnectTimeout(std::uint64_t attempt) SHOAL_REQUIRES(mutex_);
  void AttemptFailed(const Status& status) SHOAL_REQUIRES(mutex_);
  void OpenTimeout() SHOAL_REQUIRES(mutex_);
  void Opened() SHOAL_REQUIRES(mutex_);
  void Close(const Status& reason) SHOAL_REQUIRES(mutex_);

  void Tick() SHOAL_REQUIRES(mutex_);
  void LookAtStripes() SHOAL_REQUIRES(mutex_);
  void Grow() SHOAL_REQUIRES(mutex_);
  // The hello of one more connection.
  bulk::v1::LinkHello MakeStripeHello() SHOAL_REQUIRES(mutex_);
  // Reads from stream_ by which way it goes.
  void LookAtWay() SHOAL_REQUIRES(mutex_);
  void PlanFirstTry(TimePoint now) SHOAL_REQUIRES(mutex_);
  void TryBetterWay(TimePoint now) SHOAL_REQUIRES(mutex_);

  void QueueControl(const bulk::v1::ChunkHeader& header) SHOAL_REQUIRES(mutex_);
  void SendPing(TimePoint now, bool crowded = false) SHOAL_REQUIRES(mutex_);
  void Pump() SHOAL_REQUIRES(mutex_);
  void UploadWaited() SHOAL_REQUIRES(mutex_);

  // What the other end shows of its membership.
  Status TakeMembership(const std::string& bytes) SHOAL_REQUIRES(mutex_);
  // What this end shows; empty: nothing.
  std::string OwnMembership() SHOAL_REQUIRES(mutex_);
  bulk::v1::LinkHello MakeHello() SHOAL_REQUIRES(mutex_);

  Status HandleIncoming(FrameIntake::Incoming incoming) SHOAL_REQUIRES(mutex_);
  Status HandlePing(const bulk::v1::Ping& ping) SHOAL_REQUIRES(mutex_);
  void Deliver(Frame frame) SHOAL_REQUIRES(mutex_);
  void ReadMore() SHOAL_REQUIRES(mutex_);
  void Resume() SHOAL_REQUIRES(mutex_);

  std::string PeerText() const { return "peer " + target_.peer.ToShort(); }

  const LinkTarget target_;  // its addresses: those at first
  const LinkContext context_;
  LinkHandlers handlers_;  // executor thread only
  bool detached_ = false;  // executor thread only

  // The long work on incoming bytes happens in here, without mutex_.
  FrameIntake intake_;

  mutable Mutex mutex_;
  std::vector<std::string> addresses_ SHOAL_GUARDED_BY(mutex_);
  LinkHandshake handshake_ SHOAL_GUARDED_BY(mutex_);
  LinkSender sender_ SHOAL_GUARDED_BY(mutex_);
  LinkReceiver receiver_ SHOAL_GUARDED_BY(mutex_);
  LinkLiveness liveness_ SHOAL_GUARDED_BY(mutex_);
  TransferRates rates_ SHOAL_GUARDED_BY(mutex_);
  Dialer dialer_ SHOAL_GUARDED_BY(mutex_);  // null: is dialled only
  bool lower_ SHOAL_GUARDED_BY(mutex_) = true;
  bool dialled_ SHOAL_GUARDED_BY(mutex_) = false;  // stream_ is this end's own
  std::shared_ptr<StripedStream> stream_ SHOAL_GUARDED_BY(mutex_);
  std::vector<TcpSocket> sockets_ SHOAL_GUARDED_BY(mutex_);    // of stream_; none: there is no line
  LinkPath path_ SHOAL_GUARDED_BY(mutex_) = LinkPath::kRelay;  // of stream_
  std::uint64_t seen_changes_ SHOAL_GUARDED_BY(mutex_) = 0;    // of stream_, that are in those two
  TimePoint better_at_ SHOAL_GUARDED_BY(mutex_){};             // when a better way is tried
  Duration better_wait_ SHOAL_GUARDED_BY(mutex_){};            // until the try after that
  StripeDemand stripe_demand_ SHOAL_GUARDED_BY(mutex_);
  TimePoint member_until_ SHOAL_GUARDED_BY(mutex_){};         // the other end
  std::uint64_t shown_version_ SHOAL_GUARDED_BY(mutex_) = 0;  // of this end's membership
};

}  // namespace shoal::net

#endif  // SHOAL_NET_LINKS_LINK_CORE_H_
