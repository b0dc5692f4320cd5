#include "net/relay/relay_server.h"

#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <map>
#include <thread>

#include "common/log.h"
#include "common/trace.h"
#include "net/admission/connection_gate.h"
#include "net/base/host_port.h"
#include "net/base/transfer_rates.h"
#include "net/pacing/rate_limiter.h"
#include "net/relay/punch_book.h"
#include "net/relay/punch_rules.h"
#include "net/relay/relay_ticket.h"
#include "net/relay/relay_visitor-inl.h"
#include "net/relay/splice-inl.h"

namespace shoal::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

constexpr std::chrono::seconds kJoinPatience{10};  // of a caller, until its peer has come
constexpr std::chrono::seconds kRateInterval{1};
constexpr std::chrono::seconds kDialBackEvery{30};
constexpr std::chrono::seconds kDialBackPatience{4};
constexpr std::size_t kDialsMax = 64;  // at once
// A peer's own connections: its registration, and one per call; and those of its callers.
constexpr std::size_t kOwnConnections = 8;

struct RegisteredPeer {
  std::shared_ptr<RelayVisitor> visitor;  // null: gone, but calls go on
  std::shared_ptr<RateLimiter> limiter;   // null: no cap
  std::size_t waiting = 0;
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  PunchBudget punches{};  // that it asks for
};

struct WaitingCall {
  std::shared_ptr<RelayVisitor> caller;
  std::unique_ptr<asio::steady_timer> timer;
};

// An IPv4 address without the IPv6 form that a listener for both gives it.
std::string TextOf(const tcp::endpoint& end) {
  asio::ip::address address = end.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return FormatHostPort({address.to_string(), end.port()});
}

// Thread of everything but the constructor, port and stats: the relay's own.
class AsioRelayServer final : public RelayServer, public RelayVisitor::Owner {
 public:
  AsioRelayServer(RelayServerOptions options, std::shared_ptr<ConnectionGate> gate)
      : options_(std::move(options)), gate_(std::move(gate)) {
    if (options_.rate.value > 0) all_ = NewLimiter(options_.rate);
  }

  ~AsioRelayServer() override {
    gate_->Close();
    asio::post(context_, [this] { EndAll(); });
    work_.reset();
    if (thread_.joinable()) thread_.join();
  }

  void Start() {
    rates_.Start(SystemClock().Now());
    MeasureRate();
    thread_ = std::thread([this] {
      SetThreadName("relay");
      context_.run();
    });
    gate_->Open([this](int fd) { asio::post(context_, [this, fd] { Take(fd); }); });
  }

  std::uint16_t port() const override { return gate_->port(); }

  RelayStats stats() const override {
    std::promise<RelayStats> made;
    asio::post(context_, [this, &made] { made.set_value(Stats()); });
    return made.get_future().get();
  }

 private:
  static std::shared_ptr<RateLimiter> NewLimiter(BitsPerSecond rate) {
    auto limiter = std::make_shared<RateLimiter>(&SystemClock());
    limiter->SetRate(rate);
    return limiter;
  }

  void Take(int fd) {
    if (ending_) {
      ::close(fd);
      return;
    }
    int family = AF_INET;
    socklen_t size = sizeof(family);
    (void)::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size);
    tcp::socket socket(context_);
    Error error;
    socket.assign(family == AF_INET6 ? tcp::v6() : tcp::v4(), fd, error);
    if (error) {
      ::close(fd);
      return;
    }
    const auto remote = socket.remote_endpoint(error);
    if (error) return;
    const auto visitor = std::make_shared<RelayVisitor>(std::move(socket), TextOf(remote), this);
    visitors_.emplace(visitor.get(), visitor);
    visitor->Start();
  }

  // ---- RelayVisitor::Owner ----

  void OnCall(const std::shared_ptr<RelayVisitor>& caller, const RelayCall& call) override {
    const Status status = Call(caller, call);
    if (status.ok()) return;
    ++refused_;
    SHOAL_LOG(kDebug, "relay", "call.refused", {"from", caller->address()},
              {"peer", call.target.ToShort()}, {"error", status.message()});
    caller->RefuseCall(status);
  }

  Status Call(const std::shared_ptr<RelayVisitor>& caller, const RelayCall& call) {
    SHOAL_RETURN_IF_ERROR(
        CheckRelayTicket(call.ticket, options_.secret, call.target, NowSeconds()));
    const auto peer = peers_.find(call.target);
    if (peer == peers_.end() || !peer->second.visitor) {
      return NotFound("the peer is not registered here");
    }
    if (peer->second.waiting + peer->second.calls >= options_.calls_per_peer ||
        !gate_->Prove(caller->address(), call.target)) {
      return ResourceExhausted("the peer has too many connections through this relay");
    }
    RelayIncoming incoming;
    randombytes_buf(incoming.session.data(), incoming.session.size());
    incoming.caller = caller->address();
    caller->key = call.target;
    caller->Settle();
    ++peer->second.waiting;
    auto timer = std::make_unique<asio::steady_timer>(context_, kJoinPatience);
    timer->async_wait([this, session = incoming.session](Error error) {
      if (error) return;
      if (const auto late = TakeWaiting(session)) {
        ++refused_;
        late->RefuseCall(DeadlineExceeded("the peer did not come for the call"));
      }
    });
    waiting_.emplace(incoming.session, WaitingCall{caller, std::move(timer)});
    peer->second.visitor->Send(incoming);
    return Status::Ok();
  }

  // Null: there is none, or no more.
  std::shared_ptr<RelayVisitor> TakeWaiting(const RelaySession& session) {
    const auto found = waiting_.find(session);
    if (found == waiting_.end()) return nullptr;
    auto caller = std::move(found->second.caller);
    waiting_.erase(found);
    if (const auto peer = peers_.find(caller->key); peer != peers_.end()) {
      if (peer->second.waiting > 0) --peer->second.waiting;
    }
    return caller;
  }

  void OnRegister(const std::shared_ptr<RelayVisitor>& peer, const PeerId& key) override {
    peer->key = key;
    randombytes_buf(peer->challenge.bytes.data(), peer->challenge.bytes.size());
    peer->Send(peer->challenge);
  }

  void OnProof(const std::shared_ptr<RelayVisitor>& peer, const RelayProof& proof) override {
    const Status status = Register(peer, proof);
    if (status.ok()) return;
    ++refused_;
    SHOAL_LOG(kInfo, "relay", "peer.refused", {"from", peer->address()},
              {"peer", peer->key.ToShort()}, {"error", status.message()});
    peer->Refuse(status);
  }

  Status Register(const std::shared_ptr<RelayVisitor>& peer, const RelayProof& proof) {
    if (peer->challenge.bytes == RelayChallengeBytes{}) {
      return FailedPrecondition("nothing was asked for yet");
    }
    SHOAL_RETURN_IF_ERROR(CheckRelayProof(proof, peer->challenge, options_.secret, peer->key));
    const auto known = peers_.find(peer->key);
    if (known == peers_.end() && peers_.size() >= options_.peers_max) {
      return ResourceExhausted("this relay has too many peers");
    }
    if (!gate_->Prove(peer->address(), peer->key)) {
      return ResourceExhausted("this peer has too many connections to this relay");
    }
    if (known != peers_.end()) {
      // The peer was started again, or its line broke unnoticed.
      const auto before = std::exchange(known->second.visitor, peer);
      if (before) before->Close();
    } else {
      RegisteredPeer entry{peer, nullptr};
      if (options_.rate_per_peer.value > 0) entry.limiter = NewLimiter(options_.rate_per_peer);
      peers_.emplace(peer->key, std::move(entry));
    }
    peer->Settle();
    peer->Send(RelayRegistered{peer->address()});
    SHOAL_LOG(kInfo, "relay", "peer.registered", {"peer", peer->key.ToShort()},
              {"address", peer->address()});
    return Status::Ok();
  }

  void OnJoin(const std::shared_ptr<RelayVisitor>& peer, const RelayJoin& join) override {
    const auto caller = TakeWaiting(join.session);
    if (!caller) return peer->Refuse(NotFound("nobody calls in this session, or no more"));
    const PeerId key = caller->key;
    const auto found = peers_.find(key);
    if (found == peers_.end() || !gate_->Prove(peer->address(), key)) {
      caller->RefuseCall(ResourceExhausted("too many connections"));
      return peer->Refuse(ResourceExhausted("this peer has too many connections to this relay"));
    }
    auto [one, first] = caller->TakeOver();
    auto [other, early] = peer->TakeOver();
    visitors_.erase(caller.get());
    visitors_.erase(peer.get());
    if (!early.empty()) return;  // bytes before it was told to go on: not one of ours
    Connect(key, &found->second, std::move(one), std::move(other), std::move(first));
  }

  void Connect(const PeerId& key, RegisteredPeer* peer, tcp::socket one, tcp::socket other,
               std::string first) {
    std::vector<std::shared_ptr<RateLimiter>> limiters;
    if (peer->limiter) limiters.push_back(peer->limiter);
    if (all_) limiters.push_back(all_);
    ++peer->calls;
    ++calls_total_;
    const std::uint64_t number = calls_total_;
    Splice::Hooks hooks;
    hooks.on_bytes = [this, key](std::uint64_t bytes) {
      bytes_ += bytes;
      if (const auto it = peers_.find(key); it != peers_.end()) it->second.bytes += bytes;
    };
    hooks.on_end = [this, key, number] {
      splices_.erase(number);
      const auto it = peers_.find(key);
      if (it == peers_.end()) return;
      if (it->second.calls > 0) --it->second.calls;
      if (it->second.calls == 0 && !it->second.visitor) peers_.erase(it);
    };
    const auto splice = std::make_shared<Splice>(std::move(one), std::move(other),
                                                 std::move(limiters), std::move(hooks));
    splices_.emplace(number, splice);
    splice->Start(EncodeRelayMessage(RelayJoined{}) + first, RelayCallAnswer(Status::Ok()));
  }

  // Only the peer's own address is dialled, and not often: nobody is bothered through this relay.
  void OnDialBack(const std::shared_ptr<RelayVisitor>& peer, std::uint16_t port) override {
    const TimePoint now = SystemClock().Now();
    const auto target = ParseHostPort(peer->address());
    Error error;
    const auto host = asio::ip::make_address(target.ok() ? target->host : "", error);
    if (error || port == 0 || dials_ >= kDialsMax ||
        (peer->dialled_back_at != TimePoint{} && now - peer->dialled_back_at < kDialBackEvery)) {
      return;
    }
    peer->dialled_back_at = now;
    ++dials_;
    const auto socket = std::make_shared<tcp::socket>(context_);
    const auto timer = std::make_shared<asio::steady_timer>(context_, kDialBackPatience);
    timer->async_wait([socket](Error) {
      Error ignored;
      socket->close(ignored);
    });
    socket->async_connect({host, port}, [this, socket, timer, peer](Error failed) {
      --dials_;
      timer->cancel();
      if (!ending_) peer->Send(RelayDialled{!failed});
    });
  }

  // What cannot be had is not answered: the asker waits for a moment only.
  void OnPunch(const std::shared_ptr<RelayVisitor>& peer, const PeerId& other) override {
    const TimePoint now = SystemClock().Now();
    const auto asker = peers_.find(peer->key);
    const auto asked = peers_.find(other);
    if (asker == peers_.end() || asker->second.visitor != peer || asked == peers_.end() ||
        asker == asked || !asked->second.visitor || !asked->second.visitor->punches() ||
        !asker->second.punches.Take(now)) {
      return;
    }
    RelayPunching to_asker{{}, true, other}, to_asked{{}, false, peer->key};
    randombytes_buf(to_asker.session.data(), to_asker.session.size());
    randombytes_buf(to_asked.session.data(), to_asked.session.size());
    if (!punches_.Ask(peer->key, to_asker.session, other, to_asked.session, now).ok()) return;
    const auto called = asked->second.visitor;
    peer->Send(to_asker);
    called->Send(to_asked);
  }

  void OnPunchJoin(const std::shared_ptr<RelayVisitor>& peer,
                   const RelaySession& session) override {
    std::erase_if(punchers_, [](const auto& each) { return each.second.expired(); });
    const PeerId* const key = punches_.PeerOfSession(session);
    if (key == nullptr || !gate_->Prove(peer->address(), *key)) {
      return peer->Refuse(NotFound("there is no such punch, or no more"));
    }
    const auto met = punches_.Come(session, peer->address(), SystemClock().Now());
    if (!met.ok()) return peer->Refuse(met.status());
    if (!*met) {
      punchers_[session] = peer;
      return;
    }
    const auto first = punchers_.find((*met)->session);
    const auto other = first == punchers_.end() ? nullptr : first->second.lock();
    if (!other) return peer->Refuse(NotFound("the other one is gone"));
    punchers_.erase(first);
    ++punches_total_;
    other->Send(RelayPunchTarget{peer->address()});
    peer->Send(RelayPunchTarget{(*met)->address});
  }

  void OnGone(RelayVisitor* visitor) override {
    const auto peer = peers_.find(visitor->key);
    if (peer != peers_.end() && peer->second.visitor.get() == visitor) {
      SHOAL_LOG(kInfo, "relay", "peer.gone", {"peer", visitor->key.ToShort()});
      // What it is capped at holds for the calls that go on.
      peer->second.visitor = nullptr;
      if (peer->second.calls == 0) peers_.erase(peer);
    }
    visitors_.erase(visitor);
  }

  // ---- the rest ----

  static std::int64_t NowSeconds() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
  }

  void MeasureRate() {
    rate_timer_.expires_after(kRateInterval);
    rate_timer_.async_wait([this](Error error) {
      if (error || ending_) return;
      rates_.Update(SystemClock().Now(), bytes_, 0);
      MeasureRate();
    });
  }

  RelayStats Stats() const {
    RelayStats stats;
    for (const auto& [key, peer] : peers_) {
      if (!peer.visitor) continue;
      stats.peers.push_back({key, peer.visitor->address(), peer.calls, peer.bytes});
    }
    stats.waiting = waiting_.size();
    stats.calls = splices_.size();
    stats.calls_total = calls_total_;
    stats.refused_total = refused_;
    stats.punches_total = punches_total_;
    stats.bytes_total = bytes_;
    stats.rate_bps = rates_.send_bps();
    stats.connections = gate_->count().all;
    return stats;
  }

  void EndAll() {
    ending_ = true;
    rate_timer_.cancel();
    waiting_.clear();
    const auto splices = splices_;
    for (const auto& [number, splice] : splices) splice->End();
    const auto visitors = visitors_;
    for (const auto& [address, visitor] : visitors) visitor->Close();
  }

  const RelayServerOptions options_;
  const std::shared_ptr<ConnectionGate> gate_;
  std::shared_ptr<RateLimiter> all_;  // null: no cap
  mutable asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_ =
      asio::make_work_guard(context_);
  asio::steady_timer rate_timer_{context_};
  std::thread thread_;

  std::map<RelayVisitor*, std::shared_ptr<RelayVisitor>> visitors_;  // not spliced
  std::map<PeerId, RegisteredPeer> peers_;
  std::map<RelaySession, WaitingCall> waiting_;
  std::map<std::uint64_t, std::shared_ptr<Splice>> splices_;
  PunchBook punches_;
  std::map<RelaySession, std::weak_ptr<RelayVisitor>> punchers_;  // who came first
  TransferRates rates_;
  std::uint64_t bytes_ = 0;
  std::uint64_t calls_total_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t punches_total_ = 0;
  std::size_t dials_ = 0;
  bool ending_ = false;
};

}  // namespace

Result<std::unique_ptr<RelayServer>> StartRelayServer(const RelayServerOptions& options) {
  if (!IsJoinSecret(options.secret)) {
    return InvalidArgument("the secret of a relay is not 32 hex digits");
  }
  SHOAL_CHECK(sodium_init() >= 0);
  ConnectionLimits limits;
  limits.per_key = 2 * options.calls_per_peer + kOwnConnections;
  SHOAL_ASSIGN_OR_RETURN(auto gate, ConnectionGate::Listen(options.listen, limits));
  auto server = std::make_unique<AsioRelayServer>(options, std::move(gate));
  server->Start();
  return std::unique_ptr<RelayServer>(std::move(server));
}

}  // namespace shoal::net
