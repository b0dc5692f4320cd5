// Links through a relay, over real sockets on loopback.

#include "net/relay/relay_server.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <optional>

#include "net/relay/relay_address.h"
#include "net/relay/relay_message.h"
#include "net/relay/relay_ticket.h"
#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

using testing::HasSubstr;

constexpr char kOtherSecret[] = "ffeeddccbbaa99887766554433221100";

class RelayTest : public testing::Test {
 protected:
  ~RelayTest() override {
    On([this] {
      a_.link.reset();
      b_.link.reset();
      hub_a_.reset();
      hub_b_.reset();
    });
  }

  void StartRelay(RelayServerOptions options = {}) {
    options.listen = "127.0.0.1:" + std::to_string(port_);
    options.secret = kJoinSecret;
    auto relay = StartRelayServer(options);
    ASSERT_TRUE(relay.ok()) << relay.status().ToString();
    relay_ = *std::move(relay);
    port_ = relay_->port();
  }
  std::string RelayText(const std::string& secret = kJoinSecret) const {
    return secret + "@127.0.0.1:" + std::to_string(port_);
  }
  void MakeHubs(LinkLimits limits = {}) {
    hub_a_.emplace(executor_.get(), limits);
    hub_b_.emplace(executor_.get(), limits);
    On([this] {
      hub_a_->hub->UseRelays({RelayText()});
      hub_b_->hub->UseRelays({"127.0.0.1:9", RelayText()});
    });
  }
  bool Registered(std::size_t peers) {
    return WaitUntil(executor_.get(),
                     [this, peers] { return relay_->stats().peers.size() == peers; });
  }

  void Open(std::vector<std::string> of_b, std::vector<std::string> of_a) {
    On([&] {
      a_.link = hub_a_->hub->Dial(TargetOfHub(*hub_b_, std::move(of_b)), a_.Handlers());
      b_.link = hub_b_->hub->Accept(TargetOfHub(*hub_a_, std::move(of_a)), b_.Handlers());
    });
  }
  bool BothOpen() {
    return WaitUntil(executor_.get(), [this] { return a_.open && b_.open; });
  }

  // 2 MB at 16 Mbit/s take a second, less the burst that an idle bucket lets pass.
  void ExpectCap(const RelayServerOptions& options) {
    StartRelay(options);
    MakeHubs();
    ASSERT_TRUE(Registered(2));
    Open({RelayText()}, {});
    ASSERT_TRUE(BothOpen());
    const TimePoint begun = SystemClock().Now();
    On([this] { ASSERT_TRUE(a_.link->Send(PatternFrame(2'000'000, 1)).ok()); });
    ASSERT_TRUE(WaitUntil(executor_.get(), [this] { return b_.frames.size() == 1; }));
    EXPECT_GT(SystemClock().Now() - begun, std::chrono::milliseconds(500));
  }

  template <typename Task>
  void On(Task task) {
    RunOn(executor_.get(), [&task] {
      task();
      return 0;
    });
  }

  std::unique_ptr<Executor> executor_ = NewThreadExecutor("control");
  std::uint16_t port_ = 0;
  std::unique_ptr<RelayServer> relay_;
  std::optional<HubPeer> hub_a_, hub_b_;
  LinkEnd a_, b_;
};

TEST_F(RelayTest, CarriesALinkBothWays) {
  StartRelay();
  LinkLimits limits;
  limits.connections_first = 2;  // a second stripe goes by the relay as well
  limits.better_after = {};
  MakeHubs(limits);
  ASSERT_TRUE(Registered(2));
  Open({RelayText()}, {});
  ASSERT_TRUE(BothOpen());
  On([this] {
    for (std::uint32_t i = 0; i < 20; ++i) {
      ASSERT_TRUE(a_.link->Send(PatternFrame(300'000 + i, i)).ok());
      ASSERT_TRUE(b_.link->Send(PatternFrame(200'000 + i, i)).ok());
    }
  });
  ASSERT_TRUE(WaitUntil(executor_.get(),
                        [this] { return a_.frames.size() == 20 && b_.frames.size() == 20; }));
  ASSERT_TRUE(WaitUntil(executor_.get(), [this] { return a_.link->stats().connections == 2; }));
  On([this] {
    for (std::uint32_t i = 0; i < 20; ++i) {
      const Frame wanted = PatternFrame(300'000 + i, i);
      ASSERT_EQ(b_.frames[i].payload.size(), wanted.payload.size());
      EXPECT_EQ(
          std::memcmp(b_.frames[i].payload.data(), wanted.payload.data(), wanted.payload.size()),
          0);
    }
    EXPECT_EQ(a_.link->stats().path, "relay");
    EXPECT_EQ(b_.link->stats().path, "relay");
    EXPECT_THAT(a_.link->stats().address, HasSubstr("relay 127.0.0.1:"));
    EXPECT_THAT(b_.link->stats().address, HasSubstr("relay 127.0.0.1:"));
    ASSERT_EQ(hub_b_->hub->relays().size(), 1u);
    EXPECT_TRUE(hub_b_->hub->relays()[0].registered);
    EXPECT_THAT(hub_b_->hub->relays()[0].seen_address, HasSubstr("127.0.0.1:"));
  });
  // The relay stands on the same machine, so it reaches the port "from outside".
  ASSERT_TRUE(
      WaitUntil(executor_.get(), [this] { return hub_b_->hub->relays()[0].reached.has_value(); }));
  On([this] {
    EXPECT_TRUE(*hub_b_->hub->relays()[0].reached);
    EXPECT_EQ(hub_b_->hub->relays()[0].own_address, hub_b_->hub->relays()[0].seen_address);
  });
  const RelayStats stats = relay_->stats();
  EXPECT_EQ(stats.calls, 2u);
  EXPECT_GE(stats.calls_total, 2u);  // more where one was tried again
  EXPECT_GT(stats.bytes_total, 10'000'000u);
  On([this] { a_.link.reset(); });
  EXPECT_TRUE(WaitUntil(executor_.get(), [this] { return b_.closed.has_value(); }));
  EXPECT_TRUE(WaitUntil(executor_.get(), [this] { return relay_->stats().calls == 0; }));
}

TEST_F(RelayTest, ADirectWayIsPreferred) {
  StartRelay();
  MakeHubs();
  ASSERT_TRUE(Registered(2));
  Open({RelayText(), hub_b_->address()}, {});
  ASSERT_TRUE(BothOpen());
  EXPECT_EQ(a_.link->stats().path, "lan");
  EXPECT_EQ(relay_->stats().calls_total, 0u);
}

TEST_F(RelayTest, TheHigherEndDialsWhereTheLowerCannot) {
  StartRelay();
  MakeHubs();
  // Nobody listens at port 9; the relay does not know who is asked for.
  Open({"127.0.0.1:9"}, {hub_a_->address()});
  ASSERT_TRUE(BothOpen());
  On([this] {
    EXPECT_EQ(b_.link->stats().address, hub_a_->address());
    ASSERT_TRUE(a_.link->Send(PatternFrame(1000, 1)).ok());
    ASSERT_TRUE(b_.link->Send(PatternFrame(1000, 2)).ok());
  });
  EXPECT_TRUE(WaitUntil(executor_.get(),
                        [this] { return a_.frames.size() == 1 && b_.frames.size() == 1; }));
}

TEST_F(RelayTest, ARelayThatComesLaterIsFound) {
  StartRelay();
  relay_.reset();
  MakeHubs();
  Open({RelayText()}, {});
  ASSERT_TRUE(WaitUntil(executor_.get(), [this] {
    const auto states = hub_b_->hub->relays();
    return !states.empty() && !states[0].trouble.empty();
  }));
  StartRelay();
  EXPECT_TRUE(BothOpen());
}

// Each registration at a relay ends the one before: two of one machine would end each other for
// ever.
TEST_F(RelayTest, TwoAddressesOfOneRelayAreOneRegistration) {
  StartRelay();
  hub_a_.emplace(executor_.get());
  hub_b_.emplace(executor_.get());
  const std::string port = std::to_string(port_);
  On([&] {
    hub_b_->hub->UseRelays({RelayText(), std::string(kJoinSecret) + "@localhost:" + port});
  });
  ASSERT_TRUE(Registered(1));
  const auto address = [this] { return relay_->stats().peers.at(0).address; };
  const std::string first = address();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_EQ(address(), first);
  On([this] { EXPECT_EQ(hub_b_->hub->relays().size(), 1u); });
  // The other one is taken when the first leads nowhere.
  On([&] {
    hub_a_->hub->UseRelays({std::string(kJoinSecret) + "@127.0.0.1:9",
                            std::string(kJoinSecret) + "@localhost:" + port});
  });
  EXPECT_TRUE(Registered(2));
}

TEST_F(RelayTest, LinksEndWithTheRelayAndComeBack) {
  StartRelay();
  MakeHubs();
  ASSERT_TRUE(Registered(2));
  Open({RelayText()}, {});
  ASSERT_TRUE(BothOpen());
  relay_.reset();
  ASSERT_TRUE(WaitUntil(executor_.get(), [this] { return a_.closed && b_.closed; }));
  StartRelay();
  ASSERT_TRUE(Registered(2));
  On([this] {
    a_ = LinkEnd{};
    b_ = LinkEnd{};
  });
  Open({RelayText()}, {});
  EXPECT_TRUE(BothOpen());
}

TEST_F(RelayTest, AWrongSecretOpensNothing) {
  StartRelay();
  MakeHubs();
  ASSERT_TRUE(Registered(2));
  LinkLimits limits;
  limits.timeouts = TimeoutsOf(std::chrono::seconds(1));
  On([this] { hub_b_->hub->UseRelays({RelayText(kOtherSecret)}); });
  ASSERT_TRUE(WaitUntil(executor_.get(), [this] {
    const auto states = hub_b_->hub->relays();
    return !states.empty() && states[0].trouble.find("secret") != std::string::npos;
  }));
  EXPECT_EQ(relay_->stats().peers.size(), 1u);
  Open({RelayText(kOtherSecret)}, {});
  ASSERT_TRUE(WaitUntil(executor_.get(), [this] { return relay_->stats().refused_total >= 2; }));
  EXPECT_EQ(relay_->stats().calls_total, 0u);
}

// ---- a stranger at the relay's port ----

constexpr std::uint32_t kHere = INADDR_LOOPBACK;
constexpr std::uint32_t kElsewhere = INADDR_LOOPBACK + 1;  // 127.0.0.2

sockaddr_in EndAt(std::uint32_t host, std::uint16_t port) {
  sockaddr_in end{};
  end.sin_family = AF_INET;
  end.sin_port = htons(port);
  end.sin_addr.s_addr = htonl(host);
  return end;
}

class Stranger {
 public:
  // `from`: its address. `room`: of what it was sent and did not read; 0: as usual.
  explicit Stranger(std::uint16_t port, std::uint32_t from = kHere, int room = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (room > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    const sockaddr_in own = EndAt(from, 0), to = EndAt(kHere, port);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&own), sizeof(own)), 0);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    const timeval patience{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~Stranger() { ::close(fd_); }
  // False: the relay hung up.
  bool Say(const std::string& bytes) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  bool Say(const RelayMessage& message) { return Say(EncodeRelayMessage(message)); }
  // All until the relay hangs up.
  std::string Hear() {
    std::string all;
    char buffer[1024];
    for (ssize_t n = 0; (n = ::recv(fd_, buffer, sizeof(buffer), 0)) > 0;) {
      all.append(buffer, static_cast<std::size_t>(n));
    }
    return all;
  }
  // The next message; null: the relay hung up.
  std::optional<RelayMessage> Next() {
    for (;;) {
      const auto taken = TakeRelayMessage(in_);
      if (taken.ok() && *taken) {
        in_.erase(0, (*taken)->bytes);
        return (*taken)->message;
      }
      char buffer[1024];
      const ssize_t n = ::recv(fd_, buffer, sizeof(buffer), 0);
      if (!taken.ok() || n <= 0) return std::nullopt;
      in_.append(buffer, static_cast<std::size_t>(n));
    }
  }
  // Nullopt: it says something else, or nothing.
  template <typename Message>
  std::optional<Message> Next() {
    const auto next = Next();
    const auto* const message = next ? std::get_if<Message>(&*next) : nullptr;
    return message == nullptr ? std::nullopt : std::optional(*message);
  }
  // Whether the relay ends the connection before it is out of patience with silence.
  bool Ends() {
    char byte;
    return ::recv(fd_, &byte, 1, 0) == 0 || errno == ECONNRESET;
  }

  // What it says to be registered, and the relay's answer to it.
  std::optional<RelayMessage> Register(const Identity& identity) {
    Say(std::string(kRelayPreface) + EncodeRelayMessage(RelayRegister{identity.id}));
    const auto challenge = Next<RelayChallenge>();
    if (!challenge) return std::nullopt;
    proof_ = ProveToRelay(*challenge, kJoinSecret, identity).value();
    Say(proof_);
    return Next();
  }
  const RelayProof& proof() const { return proof_; }

 private:
  const int fd_;
  std::string in_;
  RelayProof proof_;
};

bool IsRegistered(const std::optional<RelayMessage>& answer) {
  return answer && std::holds_alternative<RelayRegistered>(*answer);
}

// A port of this machine at one address.
class Listener {
 public:
  explicit Listener(std::uint32_t host) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in end = EndAt(host, 0);
    socklen_t size = sizeof(end);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&end), sizeof(end)), 0);
    EXPECT_EQ(::listen(fd_, 8), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&end), &size), 0);
    port_ = ntohs(end.sin_port);
  }
  ~Listener() { ::close(fd_); }
  std::uint16_t port() const { return port_; }
  // Whether somebody called within `milliseconds`.
  bool Called(int milliseconds) const {
    pollfd polled{fd_, POLLIN, 0};
    if (::poll(&polled, 1, milliseconds) != 1) return false;
    ::close(::accept(fd_, nullptr, nullptr));
    return true;
  }

 private:
  const int fd_;
  std::uint16_t port_ = 0;
};

TEST_F(RelayTest, WhoSpeaksAnythingElseIsToldAndLeft) {
  StartRelay();
  const std::string preface(kRelayPreface);
  const struct {
    std::string said;
    std::string answer;
  } cases[] = {
      {"GET / HTTP/1.0\r\n\r\n", "HTTP/1.0 400"},
      {"CONNECT example.org:443 HTTP/1.0\r\n\r\n", "HTTP/1.0 400"},
      {"CONNECT " + RelayCallTarget(PeerId{}) + " HTTP/1.0\r\nShoal-Ticket: 1.2\r\n\r\n",
       "HTTP/1.0 403"},
      {"CONNECT " + std::string(5000, 'x'), "HTTP/1.0 400"},
      {std::string("\x16\x03\x01", 3), "HTTP/1.0 400"},
      {preface + std::string("\xff\xff\xff", 3), "\x08"},
      {preface + EncodeRelayMessage(RelayPing{}), "\x08"},
      {preface + EncodeRelayMessage(RelayProof{}), "\x08"},
      {preface + EncodeRelayMessage(RelayJoin{}), "\x08"},
      {preface + EncodeRelayMessage(RelayDialBack{port_}), "\x08"},
  };
  for (const auto& [said, answer] : cases) {
    Stranger stranger(port_);
    stranger.Say(said);
    EXPECT_TRUE(stranger.Hear().starts_with(answer)) << said.substr(0, 40);
  }
  EXPECT_EQ(relay_->stats().peers.size(), 0u);
}

TEST_F(RelayTest, WhoIsNotHereIsNotFound) {
  StartRelay();
  const std::int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  Stranger stranger(port_);
  stranger.Say("CONNECT " + RelayCallTarget(PeerId{}) + " HTTP/1.0\r\n" +
               RelayCallHeader(MakeRelayTicket(kJoinSecret, PeerId{}, now)) + "\r\n\r\n");
  EXPECT_TRUE(stranger.Hear().starts_with("HTTP/1.0 404"));
}

TEST_F(RelayTest, AProofThatWasOverheardRegistersNobody) {
  StartRelay();
  const auto identity = MakeIdentity();
  Stranger peer(port_);
  ASSERT_TRUE(IsRegistered(peer.Register(*identity)));
  Stranger thief(port_);
  thief.Say(std::string(kRelayPreface) + EncodeRelayMessage(RelayRegister{identity->id}));
  ASSERT_TRUE(thief.Next<RelayChallenge>());
  thief.Say(peer.proof());
  const auto refused = thief.Next<RelayRefused>();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, StatusCode::kUnauthenticated);
}

TEST_F(RelayTest, OnlyThePeersOwnAddressIsDialledBackAndSeldom) {
  StartRelay();
  const Listener own(kElsewhere), other(kHere);
  Stranger peer(port_, kElsewhere), second(port_, kElsewhere);
  ASSERT_TRUE(IsRegistered(peer.Register(*MakeIdentity())));
  ASSERT_TRUE(IsRegistered(second.Register(*MakeIdentity())));
  peer.Say(RelayDialBack{own.port()});
  auto dialled = peer.Next<RelayDialled>();
  ASSERT_TRUE(dialled);
  EXPECT_TRUE(dialled->reached);
  EXPECT_TRUE(own.Called(10'000));
  peer.Say(RelayDialBack{own.port()});
  EXPECT_FALSE(own.Called(300)) << "so soon";
  second.Say(RelayDialBack{other.port()});
  dialled = second.Next<RelayDialled>();
  ASSERT_TRUE(dialled);
  EXPECT_FALSE(dialled->reached) << "nobody listens there at the peer's own address";
  EXPECT_FALSE(other.Called(0));
}

TEST_F(RelayTest, SilentStrangersGiveWayToOthers) {
  StartRelay();
  std::deque<Stranger> silent;
  for (std::size_t i = 0; i <= ConnectionLimits().strangers_per_line; ++i) {
    silent.emplace_back(port_);
  }
  EXPECT_TRUE(silent.front().Ends());
  EXPECT_TRUE(IsRegistered(silent.back().Register(*MakeIdentity())));
}

TEST_F(RelayTest, AKeyHasSoManyConnections) {
  RelayServerOptions options;
  options.calls_per_peer = 1;
  StartRelay(options);
  const auto identity = MakeIdentity();
  // The relay forgets those that ended after a moment, so how many it takes differs.
  std::optional<RelayMessage> answer;
  std::deque<Stranger> peers;
  do {
    answer = peers.emplace_back(port_).Register(*identity);
  } while (IsRegistered(answer) && peers.size() < 100);
  ASSERT_TRUE(answer && std::holds_alternative<RelayRefused>(*answer));
  EXPECT_EQ(std::get<RelayRefused>(*answer).code, StatusCode::kResourceExhausted);
}

TEST_F(RelayTest, WhoDoesNotReadIsLeft) {
  StartRelay();
  Stranger peer(port_, kHere, 4096);
  ASSERT_TRUE(IsRegistered(peer.Register(*MakeIdentity())));
  const std::string ping = EncodeRelayMessage(RelayPing{});
  std::string pings;
  for (int i = 0; i < 10'000; ++i) pings += ping;
  for (int i = 0; i < 100 && peer.Say(pings); ++i) {
  }
  // Before TCP itself gives up, after twenty seconds.
  const TimePoint end = SystemClock().Now() + std::chrono::seconds(10);
  while (!relay_->stats().peers.empty() && SystemClock().Now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(relay_->stats().peers.empty());
}

TEST_F(RelayTest, TheCapOfAllHolds) {
  RelayServerOptions options;
  options.rate = {16'000'000};
  ExpectCap(options);
}

TEST_F(RelayTest, TheCapOfAPeerHolds) {
  RelayServerOptions options;
  options.rate_per_peer = {16'000'000};
  ExpectCap(options);
}

TEST_F(RelayTest, TooManyPeersAndCallsAreRefused) {
  RelayServerOptions options;
  options.peers_max = 1;
  options.calls_per_peer = 1;
  StartRelay(options);
  hub_a_.emplace(executor_.get());
  hub_b_.emplace(executor_.get());
  On([this] { hub_b_->hub->UseRelays({RelayText()}); });
  ASSERT_TRUE(Registered(1));
  On([this] { hub_a_->hub->UseRelays({RelayText()}); });
  ASSERT_TRUE(WaitUntil(executor_.get(), [this] {
    const auto states = hub_a_->hub->relays();
    return !states.empty() && states[0].trouble.find("too many peers") != std::string::npos;
  }));
  Open({RelayText()}, {});
  ASSERT_TRUE(BothOpen());
  LinkEnd second;
  On([this, &second] {
    LinkTarget target = TargetOfHub(*hub_b_, {RelayText()});
    target.channel = "boundary/0/2";
    second.link = hub_a_->hub->Dial(target, second.Handlers());
  });
  const std::uint64_t before = relay_->stats().refused_total;
  EXPECT_TRUE(WaitUntil(executor_.get(),
                        [this, before] { return relay_->stats().refused_total > before; }));
  EXPECT_EQ(relay_->stats().calls, 1u);
  On([&second] { second.link.reset(); });
}

}  // namespace
}  // namespace shoal::net
