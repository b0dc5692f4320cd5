// Links through a relay, over real sockets on loopback.

#include "net/relay/relay_server.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "net/relay/relay_address.h"
#include "net/relay/relay_message.h"
#include "net/relay/relay_ticket.h"
#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

using testing::HasSubstr;

constexpr RunId kRun{0x1234};
constexpr char kOtherSecret[] = "ffeeddccbbaa99887766554433221100";

struct End {
  std::unique_ptr<Link> link;
  bool open = false;
  std::optional<Status> closed;
  std::vector<Frame> frames;

  LinkHandlers Handlers() {
    LinkHandlers handlers;
    handlers.on_open = [this] { open = true; };
    handlers.on_frame = [this](Frame frame) { frames.push_back(std::move(frame)); };
    handlers.on_closed = [this](Status status) { closed = std::move(status); };
    return handlers;
  }
};

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

  LinkTarget TargetOf(const HubPeer& peer, std::vector<std::string> addresses) const {
    LinkTarget target;
    target.peer = peer.identity->id;
    target.addresses = std::move(addresses);
    target.run = kRun;
    target.generation = 1;
    target.channel = "boundary/0/1";
    return target;
  }
  void Open(std::vector<std::string> of_b, std::vector<std::string> of_a) {
    On([&] {
      a_.link = hub_a_->hub->Dial(TargetOf(*hub_b_, std::move(of_b)), a_.Handlers());
      b_.link = hub_b_->hub->Accept(TargetOf(*hub_a_, std::move(of_a)), b_.Handlers());
    });
  }
  bool BothOpen() {
    return WaitUntil(executor_.get(), [this] { return a_.open && b_.open; });
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
  End a_, b_;
};

Frame MakeFrame(std::size_t bytes, std::uint32_t index) {
  Frame frame;
  frame.kind = FrameKind::kActivation;
  frame.run = kRun;
  frame.generation = 1;
  frame.micro_batch = {5, index};
  frame.payload = Buffer(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    frame.payload.data()[i] = static_cast<std::byte>((i * 31 + index) >> 3);
  }
  return frame;
}

TEST_F(RelayTest, CarriesALinkBothWays) {
  StartRelay();
  LinkLimits limits;
  limits.connections_first = 2;  // a second stripe goes by the relay as well
  MakeHubs(limits);
  ASSERT_TRUE(Registered(2));
  Open({RelayText()}, {});
  ASSERT_TRUE(BothOpen());
  On([this] {
    for (std::uint32_t i = 0; i < 20; ++i) {
      ASSERT_TRUE(a_.link->Send(MakeFrame(300'000 + i, i)).ok());
      ASSERT_TRUE(b_.link->Send(MakeFrame(200'000 + i, i)).ok());
    }
  });
  ASSERT_TRUE(WaitUntil(executor_.get(),
                        [this] { return a_.frames.size() == 20 && b_.frames.size() == 20; }));
  ASSERT_TRUE(WaitUntil(executor_.get(), [this] { return a_.link->stats().connections == 2; }));
  On([this] {
    for (std::uint32_t i = 0; i < 20; ++i) {
      const Frame wanted = MakeFrame(300'000 + i, i);
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
  EXPECT_EQ(stats.calls_total, 2u);
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
    ASSERT_TRUE(a_.link->Send(MakeFrame(1000, 1)).ok());
    ASSERT_TRUE(b_.link->Send(MakeFrame(1000, 2)).ok());
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
    a_ = End{};
    b_ = End{};
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

class Stranger {
 public:
  explicit Stranger(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    const timeval patience{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~Stranger() { ::close(fd_); }
  void Say(const std::string& bytes) {
    (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // All until the relay hangs up.
  std::string Hear() {
    std::string all;
    char buffer[1024];
    for (ssize_t n = 0; (n = ::recv(fd_, buffer, sizeof(buffer), 0)) > 0;) {
      all.append(buffer, static_cast<std::size_t>(n));
    }
    return all;
  }

 private:
  const int fd_;
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

TEST_F(RelayTest, ItsCapHolds) {
  RelayServerOptions options;
  options.rate = {16'000'000};
  StartRelay(options);
  MakeHubs();
  ASSERT_TRUE(Registered(2));
  Open({RelayText()}, {});
  ASSERT_TRUE(BothOpen());
  const TimePoint begun = SystemClock().Now();
  On([this] { ASSERT_TRUE(a_.link->Send(MakeFrame(2'000'000, 1)).ok()); });
  ASSERT_TRUE(WaitUntil(executor_.get(), [this] { return b_.frames.size() == 1; }));
  // 2 MB at 2 MB/s, less the burst that an idle bucket lets pass.
  EXPECT_GT(SystemClock().Now() - begun, std::chrono::milliseconds(500));
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
  End second;
  On([this, &second] {
    LinkTarget target = TargetOf(*hub_b_, {RelayText()});
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
