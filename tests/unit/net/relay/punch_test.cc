// Peers that a relay helps to connect to each other, over real sockets on loopback; and relays and
// peers that do not know punches, or misuse them.

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

#include "net/relay/punch_rules.h"
#include "net/relay/relay_door.h"
#include "net/relay/relay_message.h"
#include "net/relay/relay_server.h"
#include "net/relay/relay_ticket.h"
#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

using testing::HasSubstr;

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in end{};
  end.sin_family = AF_INET;
  end.sin_port = htons(port);
  end.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return end;
}

// A connection of the test's own, to speak the relay's language by hand.
class Wire {
 public:
  explicit Wire(int fd) : fd_(fd) {
    const timeval patience{10, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  static std::unique_ptr<Wire> To(std::uint16_t port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in to = Loopback(port);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    return std::make_unique<Wire>(fd);
  }
  ~Wire() { ::close(fd_); }

  void Say(std::string_view bytes) {
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void Say(const RelayMessage& message) { Say(EncodeRelayMessage(message)); }
  // Of the front; shorter: it hung up.
  std::string Hear(std::size_t bytes) {
    while (in_.size() < bytes && Receive()) {
    }
    const std::string front = in_.substr(0, bytes);
    in_.erase(0, bytes);
    return front;
  }
  // Nullopt: it says something else, or nothing.
  template <typename Message>
  std::optional<Message> Next() {
    for (;;) {
      const auto taken = TakeRelayMessage(in_);
      if (!taken.ok()) return std::nullopt;
      if (*taken) {
        in_.erase(0, (*taken)->bytes);
        const auto* const message = std::get_if<Message>(&(*taken)->message);
        return message == nullptr ? std::nullopt : std::optional(*message);
      }
      if (!Receive()) return std::nullopt;
    }
  }
  bool Silent(int milliseconds) const {
    pollfd polled{fd_, POLLIN, 0};
    return in_.empty() && ::poll(&polled, 1, milliseconds) == 0;
  }
  bool Register(const Identity& identity, std::string_view preface) {
    Say(std::string(preface) + EncodeRelayMessage(RelayRegister{identity.id}));
    const auto challenge = Next<RelayChallenge>();
    if (!challenge) return false;
    Say(ProveToRelay(*challenge, kJoinSecret, identity).value());
    return Next<RelayRegistered>().has_value();
  }

 private:
  bool Receive() {
    char buffer[1024];
    const ssize_t n = ::recv(fd_, buffer, sizeof(buffer), 0);
    if (n <= 0) return false;
    in_.append(buffer, static_cast<std::size_t>(n));
    return true;
  }

  const int fd_;
  std::string in_;
};

class Listener {
 public:
  Listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in end = Loopback(0);
    socklen_t size = sizeof(end);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&end), sizeof(end)), 0);
    EXPECT_EQ(::listen(fd_, 8), 0);
    EXPECT_EQ(::getsockname(fd_, reinterpret_cast<sockaddr*>(&end), &size), 0);
    port_ = ntohs(end.sin_port);
  }
  ~Listener() { ::close(fd_); }
  std::uint16_t port() const { return port_; }
  // Null: nobody calls.
  std::unique_ptr<Wire> Accept(int milliseconds = 20'000) const {
    pollfd polled{fd_, POLLIN, 0};
    if (::poll(&polled, 1, milliseconds) != 1) return nullptr;
    return std::make_unique<Wire>(::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
  }

 private:
  const int fd_;
  std::uint16_t port_ = 0;
};

RelayAddress AddressOf(std::uint16_t port) {
  return {kJoinSecret, "127.0.0.1:" + std::to_string(port)};
}

// ---- links ----

class PunchTest : public testing::Test {
 protected:
  PunchTest() {
    RelayServerOptions options;
    options.listen = "127.0.0.1:0";
    options.secret = kJoinSecret;
    relay_ = StartRelayServer(options).value();
  }
  ~PunchTest() override {
    On([this] {
      a_.link.reset();
      b_.link.reset();
      hub_a_.reset();
      hub_b_.reset();
    });
  }
  template <typename Task>
  void On(Task task) {
    RunOn(executor_.get(), [&task] {
      task();
      return 0;
    });
  }
  bool Until(const std::function<bool()>& condition) {
    return WaitUntil(executor_.get(), condition);
  }
  std::string RelayText() const { return FormatRelayAddress(AddressOf(relay_->port())); }

  void OpenByRelay(LinkLimits limits) {
    hub_a_.emplace(executor_.get(), limits);
    hub_b_.emplace(executor_.get(), limits);
    On([this] {
      hub_a_->hub->UseRelays({RelayText()});
      hub_b_->hub->UseRelays({RelayText()});
    });
    ASSERT_TRUE(Until([this] { return relay_->stats().peers.size() == 2; }));
    On([this] {
      a_.link = hub_a_->hub->Dial(TargetOfHub(*hub_b_, {RelayText()}), a_.Handlers());
      b_.link = hub_b_->hub->Accept(TargetOfHub(*hub_a_, {RelayText()}), b_.Handlers());
    });
    ASSERT_TRUE(Until([this] { return a_.open && b_.open; }));
  }
  static Frame FrameOf(std::uint32_t index) { return PatternFrame(200'000, index); }
  void SendBoth(std::uint32_t from, std::uint32_t to) {
    On([&] {
      for (std::uint32_t i = from; i < to; ++i) {
        ASSERT_TRUE(a_.link->Send(FrameOf(i)).ok());
        ASSERT_TRUE(b_.link->Send(FrameOf(i)).ok());
      }
    });
  }
  void ExpectFrames(std::size_t count) {
    ASSERT_TRUE(Until([&] { return a_.frames.size() == count && b_.frames.size() == count; }));
    On([&] {
      for (const LinkEnd* end : {&a_, &b_}) {
        for (std::size_t i = 0; i < count; ++i) {
          const Frame& frame = end->frames[i];
          ASSERT_EQ(frame.micro_batch.index, i);
          ASSERT_EQ(frame.payload.size(), 200'000u);
          EXPECT_EQ(frame.payload.data()[199'999], static_cast<std::byte>((199'999 * 31 + i) >> 3));
        }
      }
    });
  }

  std::unique_ptr<Executor> executor_ = NewThreadExecutor("control");
  std::unique_ptr<RelayServer> relay_;
  std::optional<HubPeer> hub_a_, hub_b_;
  LinkEnd a_, b_;
};

TEST_F(PunchTest, ALinkMovesFromTheRelayAndOutlivesIt) {
  LinkLimits limits;
  limits.better_after = std::chrono::milliseconds(200);
  OpenByRelay(limits);
  SendBoth(0, 10);
  ASSERT_TRUE(Until(
      [this] { return a_.link->stats().path == "punched" && b_.link->stats().path == "punched"; }));
  SendBoth(10, 20);
  ExpectFrames(20);
  ASSERT_TRUE(Until([this] { return relay_->stats().calls == 0; }));
  EXPECT_GE(relay_->stats().punches_total, 1u);
  relay_.reset();
  SendBoth(20, 30);
  ExpectFrames(30);
  On([this] {
    EXPECT_FALSE(a_.closed || b_.closed);
    EXPECT_THAT(a_.link->stats().address, testing::StartsWith("127.0.0.1:"));
    EXPECT_THAT(b_.link->stats().address, testing::StartsWith("127.0.0.1:"));
    a_.link.reset();
  });
  EXPECT_TRUE(Until([this] { return b_.closed.has_value(); }));
}

// Not only when links that opened otherwise look for a better way.
TEST_F(PunchTest, ALinkThatOpenedByTheRelayIsPunchedSoon) {
  LinkLimits limits;
  limits.better_after = std::chrono::hours(1);
  OpenByRelay(limits);
  ASSERT_TRUE(Until(
      [this] { return a_.link->stats().path == "punched" && b_.link->stats().path == "punched"; }));
  SendBoth(0, 5);
  ExpectFrames(5);
}

TEST_F(PunchTest, AnOpenLinkMovesToAnAddressThatIsToldLater) {
  LinkLimits limits;
  limits.better_after = limits.relayed_better_after = std::chrono::hours(1);
  OpenByRelay(limits);
  SendBoth(0, 5);
  On([this] {
    EXPECT_EQ(b_.link->stats().path, "relay");
    hub_b_->hub->UseAddresses(hub_a_->identity->id, {hub_a_->address(), RelayText()});
  });
  ASSERT_TRUE(
      Until([this] { return a_.link->stats().path == "lan" && b_.link->stats().path == "lan"; }));
  SendBoth(5, 10);
  ExpectFrames(10);
}

TEST_F(PunchTest, MoreConnectionsOfALinkArePunchedAsWell) {
  LinkLimits limits;
  limits.better_after = std::chrono::milliseconds(200);
  limits.connections_first = 2;
  OpenByRelay(limits);
  ASSERT_TRUE(Until([this] {
    const LinkStats a = a_.link->stats(), b = b_.link->stats();
    return a.path == "punched" && b.path == "punched" && a.connections == 2 && b.connections == 2 &&
           relay_->stats().calls == 0;
  }));
  SendBoth(0, 20);
  ExpectFrames(20);
}

// ---- the relay's part ----

class PunchRelayTest : public PunchTest {
 protected:
  std::unique_ptr<Wire> Peer(const Identity& identity, std::string_view preface = kRelayPreface) {
    auto wire = Wire::To(relay_->port());
    EXPECT_TRUE(wire->Register(identity, preface));
    return wire;
  }
  std::unique_ptr<Wire> Come(const RelaySession& session) {
    auto wire = Wire::To(relay_->port());
    wire->Say(std::string(kRelayPreface) + EncodeRelayMessage(RelayPunchJoin{session}));
    return wire;
  }
  const std::shared_ptr<const Identity> one_ = MakeIdentity(), other_ = MakeIdentity();
};

TEST_F(PunchRelayTest, BothAreToldWhereTheOtherCameFrom) {
  const auto one = Peer(*one_), other = Peer(*other_);
  one->Say(RelayPunch{other_->id});
  const auto asked = one->Next<RelayPunching>(), called = other->Next<RelayPunching>();
  ASSERT_TRUE(asked && called);
  EXPECT_TRUE(asked->asked);
  EXPECT_EQ(asked->other, other_->id);
  EXPECT_FALSE(called->asked);
  EXPECT_EQ(called->other, one_->id);
  EXPECT_NE(asked->session, called->session);
  const auto first = Come(asked->session);
  EXPECT_TRUE(first->Silent(200));
  const auto second = Come(called->session);
  const auto of_second = first->Next<RelayPunchTarget>();
  const auto of_first = second->Next<RelayPunchTarget>();
  ASSERT_TRUE(of_first && of_second);
  EXPECT_THAT(of_first->address, testing::StartsWith("127.0.0.1:"));
  EXPECT_THAT(of_second->address, testing::StartsWith("127.0.0.1:"));
  EXPECT_NE(of_first->address, of_second->address);
  EXPECT_TRUE(Come(asked->session)->Next<RelayRefused>()) << "once only";
}

TEST_F(PunchRelayTest, WhoIsNotHereOrIsOfAnOlderVersionIsNotBothered) {
  const auto one = Peer(*one_);
  const auto old = Peer(*other_, kRelayPrefaceWithoutPunches);
  one->Say(RelayPunch{other_->id});
  one->Say(RelayPunch{one_->id});
  one->Say(RelayPunch{MakeIdentity()->id});
  EXPECT_TRUE(old->Silent(300));
  EXPECT_TRUE(one->Silent(0));
  one->Say(RelayPing{});
  EXPECT_TRUE(one->Next<RelayPong>()) << "it goes on";
  old->Say(RelayPing{});
  EXPECT_TRUE(old->Next<RelayPong>());
}

TEST_F(PunchRelayTest, WhoMayNotSayThatIsRefused) {
  const auto old = Peer(*other_, kRelayPrefaceWithoutPunches);
  old->Say(RelayPunch{one_->id});
  EXPECT_TRUE(old->Next<RelayRefused>());
  const auto stranger = Wire::To(relay_->port());
  stranger->Say(std::string(kRelayPreface) + EncodeRelayMessage(RelayPunch{one_->id}));
  EXPECT_TRUE(stranger->Next<RelayRefused>());
  EXPECT_TRUE(Come(RelaySession{})->Next<RelayRefused>());
}

TEST_F(PunchRelayTest, APeerAsksSoOftenOnly) {
  const auto one = Peer(*one_), other = Peer(*other_);
  for (int i = 0; i < 10 * PunchBudget::kAtOnce; ++i) one->Say(RelayPunch{other_->id});
  one->Say(RelayPing{});
  int begun = 0;
  while (one->Next<RelayPunching>()) ++begun;  // until the pong
  EXPECT_GE(begun, PunchBudget::kAtOnce);
  EXPECT_LE(begun, PunchBudget::kAtOnce + 2);
}

// ---- a peer at a relay of the test's own ----

class PunchDoorTest : public testing::Test {
 protected:
  PunchDoorTest() {
    PunchHooks hooks;
    hooks.welcome = [this](const PeerId& peer) { return peer == neighbour_; };
    hooks.take = [this](int fd) {
      ++taken_;
      ::close(fd);
    };
    door_ = NewRelayDoor(
        identity_, 1, [](int fd) { ::close(fd); }, hooks);
    door_->Use({AddressOf(relay_.port())});
  }
  ~PunchDoorTest() override { door_.reset(); }

  // The registration of the door, as a relay that knows punches takes it.
  std::unique_ptr<Wire> TakePeer(std::string_view preface = kRelayPreface) {
    auto wire = relay_.Accept();
    if (!wire || wire->Hear(preface.size()) != preface) return nullptr;
    if (!wire->Next<RelayRegister>()) return nullptr;
    wire->Say(RelayChallenge{});
    if (!wire->Next<RelayProof>()) return nullptr;
    wire->Say(RelayRegistered{"127.0.0.1:5000"});
    EXPECT_TRUE(wire->Next<RelayDialBack>());
    return wire;
  }
  // The door's connection for a punch; null: it does not come.
  std::unique_ptr<Wire> TakePuncher(int milliseconds = 20'000) {
    auto wire = relay_.Accept(milliseconds);
    if (!wire || wire->Hear(kRelayPreface.size()) != kRelayPreface) return nullptr;
    return wire->Next<RelayPunchJoin>() ? std::move(wire) : nullptr;
  }
  void Ask() {
    door_->Punch(AddressOf(relay_.port()), neighbour_, [this](Result<PunchedWay> way) {
      if (answered_) return;
      result_ = way.status();
      answered_ = true;
    });
  }
  bool Answered() {
    const TimePoint end = SystemClock().Now() + std::chrono::seconds(30);
    while (!answered_ && SystemClock().Now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return answered_;
  }

  const std::shared_ptr<const Identity> identity_ = MakeIdentity();
  const PeerId neighbour_ = MakeIdentity()->id;
  const Listener relay_;
  std::atomic<int> taken_ = 0;
  Status result_;
  std::atomic<bool> answered_ = false;
  std::unique_ptr<RelayDoor> door_;
};

TEST_F(PunchDoorTest, ItIsCalledOnlyByWhoIsWelcome) {
  const auto peer = TakePeer();
  ASSERT_TRUE(peer);
  peer->Say(RelayPunching{{}, false, MakeIdentity()->id});
  EXPECT_FALSE(relay_.Accept(300));
  peer->Say(RelayPunching{{}, true, neighbour_});
  EXPECT_FALSE(relay_.Accept(300)) << "it did not ask";
  peer->Say(RelayPunching{{}, false, neighbour_});
  EXPECT_TRUE(TakePuncher());
}

TEST_F(PunchDoorTest, ItDialsNoAddressThatARelayCannotSee) {
  const auto peer = TakePeer();
  ASSERT_TRUE(peer);
  const Listener victim;
  const std::string port = std::to_string(victim.port());
  for (const std::string& target :
       {"10.0.0.1:" + port, "[::1]:" + port, "0.0.0.0:" + port, std::string("127.0.0.1:80"),
        std::string("localhost:") + port, std::string()}) {
    answered_ = false;
    Ask();
    ASSERT_TRUE(peer->Next<RelayPunch>());
    peer->Say(RelayPunching{{}, true, neighbour_});
    const auto puncher = TakePuncher();
    ASSERT_TRUE(puncher);
    puncher->Say(RelayPunchTarget{target});
    ASSERT_TRUE(Answered());
    EXPECT_EQ(result_.code(), StatusCode::kInvalidArgument) << target;
  }
  EXPECT_FALSE(victim.Accept(0));
}

TEST_F(PunchDoorTest, ARelayLeadsItAgainstAnotherMachineSeldom) {
  const auto peer = TakePeer();
  ASSERT_TRUE(peer);
  const TimePoint begin = SystemClock().Now();
  int came = 0;
  for (int i = 0; i < 4 * PunchBudget::kAtOnce; ++i) {
    peer->Say(RelayPunching{{}, false, neighbour_});
    // No more at a time than the relay's port takes.
    while (i % 4 == 3 && TakePuncher(200)) ++came;
  }
  while (TakePuncher(1000)) ++came;
  const auto passed = SystemClock().Now() - begin;
  EXPECT_GE(came, PunchBudget::kAtOnce);
  EXPECT_LE(came, PunchBudget::kAtOnce + 1 + passed / PunchBudget::kEvery);
}

TEST_F(PunchDoorTest, WhoeverListensThereIsTakenAndMustProveItself) {
  const auto peer = TakePeer();
  ASSERT_TRUE(peer);
  const Listener other;
  peer->Say(RelayPunching{{}, false, neighbour_});
  const auto puncher = TakePuncher();
  ASSERT_TRUE(puncher);
  puncher->Say(RelayPunchTarget{"127.0.0.1:" + std::to_string(other.port())});
  ASSERT_TRUE(other.Accept());
  const TimePoint end = SystemClock().Now() + std::chrono::seconds(20);
  while (taken_ == 0 && SystemClock().Now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(taken_, 1);
}

TEST_F(PunchDoorTest, ARelayThatSaysSomethingElseIsLeft) {
  const auto peer = TakePeer();
  ASSERT_TRUE(peer);
  Ask();
  ASSERT_TRUE(peer->Next<RelayPunch>());
  peer->Say(RelayPunching{{}, true, neighbour_});
  const auto puncher = TakePuncher();
  ASSERT_TRUE(puncher);
  puncher->Say("\xff\xff\xff");
  ASSERT_TRUE(Answered());
  EXPECT_EQ(result_.code(), StatusCode::kDataLoss);
}

TEST_F(PunchDoorTest, SomeOfItsOwnAreUnderWayAtOnce) {
  const auto peer = TakePeer();
  ASSERT_TRUE(peer);
  std::vector<std::unique_ptr<Wire>> punchers;
  for (int i = 0; i < 2; ++i) {
    Ask();
    ASSERT_TRUE(peer->Next<RelayPunch>());
  }
  for (int i = 0; i < 3; ++i) peer->Say(RelayPunching{{}, true, neighbour_});
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(punchers.emplace_back(TakePuncher()));
  EXPECT_FALSE(relay_.Accept(300)) << "it asked for two";
  for (int i = 0; i < 30; ++i) Ask();
  ASSERT_TRUE(Answered());
  EXPECT_EQ(result_.code(), StatusCode::kResourceExhausted);
}

TEST_F(PunchDoorTest, AnOlderRelayIsUsedWithoutPunches) {
  const auto first = relay_.Accept();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->Hear(kRelayPreface.size()), kRelayPreface);
  first->Say(RelayCallAnswer(InvalidArgument("not a call")));
  const auto peer = TakePeer(kRelayPrefaceWithoutPunches);
  ASSERT_TRUE(peer);
  Ask();
  ASSERT_TRUE(Answered());
  EXPECT_EQ(result_.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(peer->Silent(100));
  // Calls are fetched as ever.
  peer->Say(RelayIncoming{{}, "127.0.0.1:6000"});
  const auto arrival = relay_.Accept();
  ASSERT_TRUE(arrival);
  EXPECT_EQ(arrival->Hear(kRelayPreface.size()), kRelayPrefaceWithoutPunches);
  EXPECT_TRUE(arrival->Next<RelayJoin>());
}

TEST_F(PunchDoorTest, WhoStopsTellsWhoWaits) {
  const auto peer = TakePeer();
  ASSERT_TRUE(peer);
  Ask();
  ASSERT_TRUE(peer->Next<RelayPunch>());
  door_.reset();
  EXPECT_TRUE(answered_);
  EXPECT_EQ(result_.code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace shoal::net
