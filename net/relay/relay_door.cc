#include "net/relay/relay_door.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <map>
#include <thread>

#include "common/clock.h"
#include "common/log.h"
#include "common/mutex.h"
#include "common/trace.h"
#include "net/base/host_port.h"
#include "net/relay/punch_desk-inl.h"
#include "net/relay/relay_ticket.h"

namespace shoal::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

constexpr std::size_t kOutBytesMax = 16 * 1024;  // to a relay that does not read

// Resolves and connects, within RelayDoor::kConnectPatience. Thread: the door's.
class Connector : public std::enable_shared_from_this<Connector> {
 public:
  using Done = std::function<void(Error, tcp::socket)>;

  Connector(asio::io_context* context, Done done)
      : resolver_(*context), socket_(*context), timer_(*context), done_(std::move(done)) {}

  void Start(const std::string& host_port) {
    timer_.expires_after(RelayDoor::kConnectPatience);
    timer_.async_wait([self = shared_from_this()](Error error) {
      if (!error) self->Finish(asio::error::timed_out);
    });
    const auto parsed = ParseHostPort(host_port);
    if (!parsed.ok()) return Finish(asio::error::invalid_argument);
    resolver_.async_resolve(parsed->host, std::to_string(parsed->port),
                            [self = shared_from_this()](Error error, const auto& found) {
                              if (error) return self->Finish(error);
                              self->Connect(found);
                            });
  }
  void Cancel() {
    done_ = nullptr;
    Finish(asio::error::operation_aborted);
  }

 private:
  void Connect(const tcp::resolver::results_type& found) {
    asio::async_connect(
        socket_, found,
        [self = shared_from_this()](Error error, const tcp::endpoint&) { self->Finish(error); });
  }
  void Finish(Error error) {
    if (std::exchange(finished_, true)) return;
    timer_.cancel();
    resolver_.cancel();
    if (error) {
      Error ignored;
      socket_.close(ignored);
    } else {
      (void)::fcntl(socket_.native_handle(), F_SETFD, FD_CLOEXEC);
      Error ignored;
      socket_.set_option(tcp::no_delay(true), ignored);
    }
    if (done_) std::exchange(done_, nullptr)(error, std::move(socket_));
  }

  tcp::resolver resolver_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  Done done_;
  bool finished_ = false;
};

// Comes for one call: connects to the relay, names the session, and has the caller. Thread: the
// door's.
class Arrival : public std::enable_shared_from_this<Arrival> {
 public:
  Arrival(asio::io_context* context, RelaySession session, std::function<void(int)> take)
      : context_(context), timer_(*context), socket_(*context), take_(std::move(take)) {
    // Relays of both versions take that.
    request_ = std::string(kRelayPrefaceWithoutPunches) + EncodeRelayMessage(RelayJoin{session});
  }

  void Start(const std::string& relay) {
    connector_ = std::make_shared<Connector>(
        context_, [self = shared_from_this()](Error error, tcp::socket socket) {
          if (!error) self->Ask(std::move(socket));
        });
    connector_->Start(relay);
  }
  void Cancel() {
    take_ = nullptr;
    Error ignored;
    if (connector_) connector_->Cancel();
    timer_.cancel();
    socket_.close(ignored);
  }

 private:
  void Ask(tcp::socket socket) {
    connector_ = nullptr;
    socket_ = std::move(socket);
    timer_.expires_after(RelayDoor::kConnectPatience);
    timer_.async_wait([weak = weak_from_this()](Error error) {
      const auto self = weak.lock();
      Error ignored;
      if (!error && self) self->socket_.close(ignored);
    });
    asio::async_write(socket_, asio::buffer(request_),
                      [self = shared_from_this()](Error error, std::size_t) {
                        if (!error) self->ReadAnswer();
                      });
  }
  // Not a byte more than the answer: what follows is the caller's.
  void ReadAnswer() {
    asio::async_read(socket_, asio::buffer(answer_),
                     [self = shared_from_this()](Error error, std::size_t) {
                       self->timer_.cancel();
                       if (error || !self->take_ || self->answer_ != Joined()) return;
                       Error failed;
                       const int fd = self->socket_.release(failed);
                       if (!failed) self->take_(fd);
                     });
  }
  static std::array<char, kRelayHeaderBytes> Joined() {
    std::array<char, kRelayHeaderBytes> bytes{};
    const std::string text = EncodeRelayMessage(RelayJoined{});
    std::copy_n(text.begin(), bytes.size(), bytes.begin());
    return bytes;
  }

  asio::io_context* const context_;
  asio::steady_timer timer_;
  tcp::socket socket_;
  std::function<void(int)> take_;
  std::shared_ptr<Connector> connector_;
  std::string request_;
  std::array<char, kRelayHeaderBytes> answer_{};
};

// This machine's registration at one relay. Thread: the door's.
class Registration : public std::enable_shared_from_this<Registration> {
 public:
  struct Hooks {
    std::function<void(const RelayState&)> on_state;
    std::function<void(const RelaySession&, const std::string& relay)> on_call;
    std::function<void(const RelayPunching&, const tcp::endpoint& relay)> on_punching;
  };

  // Of one secret, and so of one relay: a second registration there would end the first. The
  // addresses take turns.
  Registration(asio::io_context* context, std::vector<RelayAddress> addresses,
               std::shared_ptr<const Identity> identity, std::uint16_t port, Hooks hooks)
      : port_(port),
        context_(context),
        addresses_(std::move(addresses)),
        identity_(std::move(identity)),
        hooks_(std::move(hooks)),
        socket_(*context),
        retry_(*context),
        ping_(*context) {
    state_.relay = relay().host_port;
  }

  const std::vector<RelayAddress>& addresses() const { return addresses_; }
  // Whether the relay knows punches.
  bool punches() const { return state_.registered && !old_; }
  void Say(const RelayMessage& message) { Write(EncodeRelayMessage(message)); }

  void Start() {
    connector_ = std::make_shared<Connector>(
        context_, [self = shared_from_this()](Error error, tcp::socket socket) {
          if (self->stopped_) return;
          if (error) return self->Broken(error.message());
          self->Connected(std::move(socket));
        });
    connector_->Start(relay().host_port);
  }
  void Stop() {
    stopped_ = true;
    hooks_ = {};
    if (connector_) connector_->Cancel();
    retry_.cancel();
    ping_.cancel();
    Error ignored;
    socket_.close(ignored);
  }

 private:
  const RelayAddress& relay() const { return addresses_[turn_ % addresses_.size()]; }

  void Connected(tcp::socket socket) {
    connector_ = nullptr;
    socket_ = std::move(socket);
    in_.clear();
    out_.clear();
    challenged_ = false;
    heard_at_ = SystemClock().Now();
    Error unknown;
    const auto own = socket_.local_endpoint(unknown);
    state_.own_address = unknown ? "" : FormatHostPort({own.address().to_string(), own.port()});
    state_.reached.reset();
    Ping();
    Write(std::string(old_ ? kRelayPrefaceWithoutPunches : kRelayPreface) +
          EncodeRelayMessage(RelayRegister{identity_->id}));
    Read();
  }

  // Of a few bytes; a relay reads them at once, or is gone.
  void Write(std::string bytes) {
    out_ += bytes;
    if (out_.size() > kOutBytesMax) return;  // Look ends it
    if (!writing_.empty()) return;
    writing_ = std::exchange(out_, "");
    asio::async_write(socket_, asio::buffer(writing_),
                      [self = shared_from_this()](Error error, std::size_t) {
                        self->writing_.clear();
                        if (self->stopped_ || error) return;
                        if (!self->out_.empty()) self->Write("");
                      });
  }

  void Read() {
    socket_.async_read_some(asio::buffer(chunk_),
                            [self = shared_from_this()](Error error, std::size_t bytes) {
                              if (self->stopped_ || !self->socket_.is_open()) return;
                              if (error) return self->Broken("the connection ended");
                              self->heard_at_ = SystemClock().Now();
                              self->in_.append(self->chunk_.data(), bytes);
                              self->Look();
                            });
  }

  void Look() {
    if (!state_.registered && !challenged_ && !old_ && in_.starts_with("HTTP")) {
      old_ = true;  // so it answers to a version that it does not know
      return Broken("it is of an older version");
    }
    for (;;) {
      auto taken = TakeRelayMessage(in_);
      if (!taken.ok()) return Broken(taken.status().message());
      if (!*taken) break;
      in_.erase(0, (*taken)->bytes);
      const Status status = Handle((*taken)->message);
      if (!status.ok()) return Broken(status.message());
      if (out_.size() > kOutBytesMax) return Broken("it does not read");
    }
    Read();
  }

  Status Handle(const RelayMessage& message) {
    if (const auto* challenge = std::get_if<RelayChallenge>(&message)) {
      if (std::exchange(challenged_, true)) return InvalidArgument("it asks twice who this is");
      SHOAL_ASSIGN_OR_RETURN(const RelayProof proof,
                             ProveToRelay(*challenge, relay().secret, *identity_));
      Write(EncodeRelayMessage(proof));
    } else if (const auto* registered = std::get_if<RelayRegistered>(&message)) {
      if (state_.registered) return InvalidArgument("it registers this machine twice");
      state_.registered = true;
      state_.seen_address = registered->seen_address;
      state_.trouble.clear();
      AskForDialBack();
      wait_ = RelayDoor::kRetryFirst;
      hooks_.on_state(state_);
    } else if (const auto* incoming = std::get_if<RelayIncoming>(&message)) {
      if (state_.registered) hooks_.on_call(incoming->session, relay().host_port);
    } else if (const auto* punching = std::get_if<RelayPunching>(&message)) {
      Error unknown;
      const auto end = socket_.remote_endpoint(unknown);
      if (state_.registered && !unknown) hooks_.on_punching(*punching, end);
    } else if (const auto* refused = std::get_if<RelayRefused>(&message)) {
      return Status(refused->code, "refused: " + refused->error);
    } else if (const auto* dialled = std::get_if<RelayDialled>(&message)) {
      state_.reached = dialled->reached;
      hooks_.on_state(state_);
    } else if (std::holds_alternative<RelayPong>(message)) {
      const std::chrono::duration<double, std::milli> time = SystemClock().Now() - pinged_at_;
      state_.rtt_ms = time.count();
      hooks_.on_state(state_);
    }
    return Status::Ok();
  }

  void AskForDialBack() {
    asked_at_ = SystemClock().Now();
    Write(EncodeRelayMessage(RelayDialBack{port_}));
  }

  void Ping() {
    ping_.expires_after(state_.registered ? RelayDoor::kPingEvery : std::chrono::seconds(1));
    ping_.async_wait([self = shared_from_this()](Error error) {
      if (error || self->stopped_) return;
      const TimePoint now = SystemClock().Now();
      if (now - self->heard_at_ > RelayDoor::kSilence) return self->Broken("it is silent");
      if (self->state_.registered) {
        self->pinged_at_ = now;
        self->Write(EncodeRelayMessage(RelayPing{}));
        if (now - self->asked_at_ > RelayDoor::kDialBackEvery) self->AskForDialBack();
      }
      self->Ping();
    });
  }

  void Broken(const std::string& why) {
    Error ignored;
    socket_.close(ignored);
    ping_.cancel();
    if (state_.registered || state_.trouble != why) {
      SHOAL_LOG(kInfo, "net", "relay.lost", {"relay", relay().host_port}, {"error", why});
    }
    if (state_.registered) old_ = false;  // it may come back as a newer one
    state_.registered = false;
    state_.trouble = why;
    hooks_.on_state(state_);
    ++turn_;
    state_.relay = relay().host_port;
    retry_.expires_after(wait_);
    wait_ = std::min(2 * wait_, RelayDoor::kRetryMax);
    retry_.async_wait([self = shared_from_this()](Error error) {
      if (!error && !self->stopped_) self->Start();
    });
  }

  const std::uint16_t port_;
  asio::io_context* const context_;
  const std::vector<RelayAddress> addresses_;
  std::size_t turn_ = 0;  // of the addresses
  const std::shared_ptr<const Identity> identity_;
  Hooks hooks_;
  std::shared_ptr<Connector> connector_;
  tcp::socket socket_;
  asio::steady_timer retry_;
  asio::steady_timer ping_;
  std::chrono::milliseconds wait_ = RelayDoor::kRetryFirst;
  TimePoint heard_at_{};
  TimePoint pinged_at_{};
  TimePoint asked_at_{};
  std::array<char, 1024> chunk_{};
  std::string in_;
  std::string out_;
  std::string writing_;
  RelayState state_;
  bool challenged_ = false;  // on this connection
  bool old_ = false;         // the relay knows no punches
  bool stopped_ = false;
};

class AsioRelayDoor final : public RelayDoor {
 public:
  AsioRelayDoor(std::shared_ptr<const Identity> identity, std::uint16_t port,
                std::function<void(int)> take, PunchHooks punch_hooks)
      : identity_(std::move(identity)),
        port_(port),
        take_(std::move(take)),
        punches_(&context_, std::move(punch_hooks)) {
    thread_ = std::thread([this] {
      SetThreadName("relay");
      context_.run();
    });
  }
  ~AsioRelayDoor() override {
    asio::post(context_, [this] {
      for (auto& [relay, registration] : registrations_) registration->Stop();
      for (const auto& weak : arrivals_) {
        if (const auto arrival = weak.lock()) arrival->Cancel();
      }
      punches_.Stop();
    });
    work_.reset();
    thread_.join();
  }

  void Use(const std::vector<RelayAddress>& relays) override {
    asio::post(context_, [this, relays] { UseOnThread(relays); });
  }
  void Punch(const RelayAddress& relay, const PeerId& peer, PunchDone done) override {
    asio::post(context_, [this, secret = relay.secret, peer, done = std::move(done)]() mutable {
      const auto found = registrations_.find(secret);
      if (found == registrations_.end() || !found->second->punches()) {
        return done(Unavailable("no relay that knows both ends helps to connect them"));
      }
      const auto send = [at = found->second](const RelayMessage& message) { at->Say(message); };
      punches_.Ask(secret, peer, send, std::move(done));
    });
  }
  std::vector<RelayState> states() const override {
    std::vector<RelayState> states;
    MutexLock lock(mutex_);
    states.reserve(states_.size());
    for (const auto& [secret, state] : states_) states.push_back(state);
    return states;
  }

 private:
  void UseOnThread(std::vector<RelayAddress> relays) {
    if (relays.size() > kRelaysMax) relays.resize(kRelaysMax);
    std::map<std::string, std::vector<RelayAddress>> by_secret;
    for (const RelayAddress& relay : relays) by_secret[relay.secret].push_back(relay);
    for (auto it = registrations_.begin(); it != registrations_.end();) {
      const auto wanted = by_secret.find(it->first);
      if (wanted != by_secret.end() && wanted->second == it->second->addresses()) {
        by_secret.erase(wanted);
        ++it;
        continue;
      }
      it->second->Stop();
      MutexLock lock(mutex_);
      states_.erase(it->first);
      it = registrations_.erase(it);
    }
    for (const auto& [secret, addresses] : by_secret) {
      Registration::Hooks hooks;
      hooks.on_state = [this, key = secret](const RelayState& state) { Keep(key, state); };
      hooks.on_call = [this](const RelaySession& session, const std::string& at) {
        Fetch(session, at);
      };
      hooks.on_punching = [this, key = secret](const RelayPunching& punching,
                                               const tcp::endpoint& at) {
        punches_.OnPunching(key, punching, at);
      };
      const auto made =
          std::make_shared<Registration>(&context_, addresses, identity_, port_, hooks);
      registrations_.emplace(secret, made);
      RelayState fresh;
      fresh.relay = addresses.front().host_port;
      Keep(secret, fresh);
      made->Start();
    }
  }

  void Keep(const std::string& secret, const RelayState& state) {
    MutexLock lock(mutex_);
    states_[secret] = state;
  }

  void Fetch(const RelaySession& session, const std::string& relay) {
    std::erase_if(arrivals_, [](const auto& weak) { return weak.expired(); });
    if (arrivals_.size() >= kArrivalsMax) return;  // the relay tells the caller in time
    const auto arrival = std::make_shared<Arrival>(&context_, session, take_);
    arrivals_.push_back(arrival);
    arrival->Start(relay);
  }

  const std::shared_ptr<const Identity> identity_;
  const std::uint16_t port_;
  const std::function<void(int)> take_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_ =
      asio::make_work_guard(context_);
  std::map<std::string, std::shared_ptr<Registration>> registrations_;  // by secret; the thread's
  std::vector<std::weak_ptr<Arrival>> arrivals_;                        // the thread's only
  PunchDesk punches_;                                                   // the thread's only
  mutable Mutex mutex_;
  std::map<std::string, RelayState> states_ SHOAL_GUARDED_BY(mutex_);  // by secret
  std::thread thread_;
};

}  // namespace

std::unique_ptr<RelayDoor> NewRelayDoor(std::shared_ptr<const Identity> identity,
                                        std::uint16_t port, std::function<void(int fd)> take,
                                        PunchHooks punch_hooks) {
  return std::make_unique<AsioRelayDoor>(std::move(identity), port, std::move(take),
                                         std::move(punch_hooks));
}

}  // namespace shoal::net
