#include "daemon/scheduler_connection.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "common/text.h"
#include "net/relay/relay_address.h"

namespace shoal::daemon {
namespace {

// A scheduler that is started again is back within seconds, and everybody waits for the last peer.
constexpr Duration kRetrySoon = std::chrono::milliseconds(500);
constexpr std::uint32_t kTriesSoon = 30;
constexpr Duration kRetryMax = std::chrono::seconds(15);
constexpr std::uint32_t kRetryDoublings = 5;
// For a hello that says all. Less than a scheduler waits that was started again.
constexpr Duration kHelloMax = std::chrono::seconds(10);
constexpr Duration kHelloAgain = std::chrono::milliseconds(50);
constexpr std::size_t kRefusalCharactersMax = 512;
// A connection that breaks in the wrong moment looks like a key that is refused; not so often.
constexpr std::uint32_t kKeyRefusalsMax = 3;

// A refusal is an error whatever the other side wrote into it.
Status RefusalOf(const control::v1::Refused& refused) {
  const int code = refused.code();
  const bool known = code > 0 && code <= static_cast<int>(StatusCode::kUnauthenticated);
  return Status(known ? static_cast<StatusCode>(code) : StatusCode::kUnknown,
                refused.error().empty() ? "refused without a reason"
                                        : CleanText(refused.error(), kRefusalCharactersMax));
}

// The one that served last comes last: its scheduler may be gone. Relays come behind all others: a
// direct way is the better one.
std::vector<std::string> LeastLikelyLast(std::vector<std::string> addresses,
                                         const std::string& served_by) {
  const auto found = std::ranges::find(addresses, served_by);
  if (found != addresses.end()) std::rotate(addresses.begin(), found + 1, addresses.end());
  std::stable_partition(addresses.begin(), addresses.end(),
                        [](const std::string& address) { return !net::IsRelayAddress(address); });
  return addresses;
}

}  // namespace

Duration RetryAfter(std::uint32_t failures, const PeerId& peer) {
  const std::uint32_t late = failures < kTriesSoon ? 0 : failures - kTriesSoon + 1;
  const Duration wait =
      std::min<Duration>(kRetrySoon * (1u << std::min(late, kRetryDoublings)), kRetryMax);
  return wait * (384 + peer.key.front()) / 512;
}

SchedulerConnection::SchedulerConnection(Executor* control,
                                         std::shared_ptr<const net::Identity> identity,
                                         NewClient new_client, Owner* owner)
    : control_(control),
      identity_(std::move(identity)),
      new_client_(std::move(new_client)),
      owner_(owner),
      attempt_(std::make_shared<std::uint64_t>(0)) {}

SchedulerConnection::~SchedulerConnection() { Close(); }

void SchedulerConnection::Open(const net::Invite& invite) {
  SHOAL_ASSERT_ON(*control_);
  Close();
  invite_ = invite;
  failures_ = 0;
  key_refusals_ = 0;
  trouble_.clear();
  Dial();
}

void SchedulerConnection::Close() {
  SHOAL_ASSERT_ON(*control_);
  ++*attempt_;
  DropClient();
  invite_.reset();
}

void SchedulerConnection::DropClient() {
  greeted_ = welcomed_ = false;
  if (!client_) return;
  past_ = stats();
  client_.reset();
}

void SchedulerConnection::Dial() {
  const std::uint64_t attempt = ++*attempt_;
  net::ControlClientOptions options;
  options.addresses = LeastLikelyLast(invite_->addresses, served_by_);
  options.scheduler = invite_->scheduler;
  options.identity = identity_;
  options.join_secret = invite_->secret;
  options.tries_again = failures_ > 1;
  const auto live = [current = attempt_, attempt] { return *current == attempt; };
  net::ControlClientHandlers handlers;
  handlers.on_open = [this, live] {
    if (!live()) return;
    greeted_ = true;
    greeted_at_ = control_->clock().Now();
    if (Status status = client_->Send(owner_->MakeHello()); !status.ok()) {
      SHOAL_LOG(kWarning, "daemon", "hello.failed", {"error", status.ToString()});
    }
  };
  handlers.on_message = [this, live](control::v1::SchedulerMessage message) {
    if (live()) OnMessage(message);
  };
  handlers.on_closed = [this, live](Status status) {
    if (live()) OnClosed(status);
  };
  client_ = new_client_(options, std::move(handlers));
}

void SchedulerConnection::OnMessage(const control::v1::SchedulerMessage& message) {
  SHOAL_ASSERT_ON(*control_);
  if (message.has_refused()) {
    Refused(RefusalOf(message.refused()));
    return;
  }
  if (message.has_welcome()) {
    if (!welcomed_) {
      const auto answered = control_->clock().Now() - greeted_at_;
      rtt_ms_ = std::chrono::duration<double, std::milli>(answered).count();
    }
    welcomed_ = true;
    served_by_ = client_->address();
    failures_ = 0;
    trouble_.clear();
    owner_->OnWelcome(message.welcome());
    return;
  }
  if (welcomed_) owner_->OnSchedulerMessage(message);
}

// The client must not die inside its own callback.
void SchedulerConnection::Refused(const Status& status) {
  ++*attempt_;
  control_->Post("connection.refused", [this, status, attempt = *attempt_, current = attempt_] {
    if (*current != attempt) return;
    Close();
    owner_->OnRefused(status);
  });
}

void SchedulerConnection::OnClosed(const Status& status) {
  SHOAL_ASSERT_ON(*control_);
  const Duration wait = RetryAfter(failures_++, identity_->id);
  key_refusals_ = status.code() == StatusCode::kPermissionDenied ? key_refusals_ + 1 : 0;
  if (key_refusals_ >= kKeyRefusalsMax) {
    Refused(status);
    return;
  }
  trouble_ = status.message();
  const std::uint64_t attempt = ++*attempt_;
  control_->Post("connection.closed", [this, status, wait, attempt, current = attempt_] {
    if (*current != attempt) return;
    DropClient();
    owner_->OnConnectionLost(status, wait);
  });
  const TimePoint until = control_->clock().Now() + wait + kHelloMax;
  control_->PostAfter("connection.retry", wait, [this, attempt, until, current = attempt_] {
    if (*current == attempt && invite_) DialOnceReady(attempt, until);
  });
}

void SchedulerConnection::RetryNow() {
  SHOAL_ASSERT_ON(*control_);
  if (!waits()) return;
  failures_ = 0;
  const std::uint64_t attempt = ++*attempt_;  // the timer's is late
  DialOnceReady(attempt, control_->clock().Now() + kHelloMax);
}

void SchedulerConnection::Drop(const Status& why) {
  SHOAL_ASSERT_ON(*control_);
  if (invite_ && client_) {
    ++*attempt_;
    trouble_ = why.message();
    DropClient();
    owner_->OnConnectionLost(why, Duration::zero());
  }
  RetryNow();
}

void SchedulerConnection::DialOnceReady(std::uint64_t attempt, TimePoint until) {
  if (owner_->ReadyForHello() || control_->clock().Now() >= until) return Dial();
  control_->PostAfter("connection.ready", kHelloAgain, [this, attempt, until, current = attempt_] {
    if (*current == attempt && invite_) DialOnceReady(attempt, until);
  });
}

void SchedulerConnection::Tell(control::v1::PeerMessage message) {
  SHOAL_ASSERT_ON(*control_);
  if (!client_ || !greeted_) return;  // nothing may go before the hello
  if (Status status = client_->Send(std::move(message)); !status.ok()) {
    SHOAL_LOG(kDebug, "daemon", "control.send_failed", {"error", status.ToString()});
  }
}

SchedulerReport SchedulerConnection::report() const {
  SHOAL_ASSERT_ON(*control_);
  std::vector<std::string> shown;
  if (invite_) {
    for (const std::string& address : invite_->addresses) {
      shown.push_back(net::ShownAddress(address));
    }
  }
  const net::ControlStats seen = stats();
  return {welcomed_,       std::move(shown), trouble_, welcomed_ ? rtt_ms_ : 0,
          seen.upload_bps, seen.fetch_bps};
}

net::ControlStats SchedulerConnection::stats() const {
  SHOAL_ASSERT_ON(*control_);
  net::ControlStats total = past_;
  if (client_) {
    const net::ControlStats now = client_->stats();
    total.sent_wire_bytes += now.sent_wire_bytes;
    total.received_wire_bytes += now.received_wire_bytes;
    total.artefact_sent_bytes += now.artefact_sent_bytes;
    total.artefact_received_bytes += now.artefact_received_bytes;
    if (now.fetch_bps > 0) total.fetch_bps = now.fetch_bps;
    if (now.upload_bps > 0) total.upload_bps = now.upload_bps;
  }
  return total;
}

}  // namespace shoal::daemon
