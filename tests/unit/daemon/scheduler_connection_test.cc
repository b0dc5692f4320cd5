// The control connection over real sockets on loopback.

#include "daemon/scheduler_connection.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "daemon_test_util.h"
#include "net/identity/join_ticket.h"
#include "net/links/grpc_link_hub.h"
#include "tests/support/fake_control_client.h"
#include "tests/support/sim_executor.h"

namespace shoal::daemon {
namespace {

using net::ConnectionId;
using testing::HasSubstr;

constexpr char kSecret[] = "00112233445566778899aabbccddeeff";

std::shared_ptr<const net::Identity> MakeIdentity() {
  const TemporaryFolder folder;
  return net::LoadOrCreateIdentity(folder.path()).value();
}

struct FakeOwner final : SchedulerConnection::Owner {
  control::v1::PeerMessage MakeHello() override {
    control::v1::PeerMessage message;
    message.mutable_hello()->set_name("attic");
    ++hellos;
    return message;
  }
  void OnWelcome(const control::v1::Welcome& welcome) override { welcomes.push_back(welcome); }
  void OnSchedulerMessage(const control::v1::SchedulerMessage& message) override {
    messages.push_back(message);
  }
  void OnConnectionLost(const Status& status, Duration retry_in) override {
    losses.push_back(status);
    pauses.push_back(retry_in);
  }
  void OnRefused(const Status& status) override { refused = status; }

  int hellos = 0;
  std::vector<control::v1::Welcome> welcomes;
  std::vector<control::v1::SchedulerMessage> messages;
  std::vector<Status> losses;
  std::vector<Duration> pauses;
  std::optional<Status> refused;
};

class SchedulerConnectionTest : public testing::Test {
 protected:
  SchedulerConnectionTest() {
    On([this] {
      net::LinkHubOptions options;
      options.listen = "127.0.0.1:0";
      options.identity = scheduler_;
      options.upload = options.download = limiter_;
      hub_ = net::NewGrpcLinkHub(options, control_.get()).value();
      const auto dial = [this](const net::ControlClientOptions& to,
                               net::ControlClientHandlers handlers) {
        return net::NewControlClient(to, control_.get(), limiter_, limiter_, std::move(handlers));
      };
      connection_ =
          std::make_unique<SchedulerConnection>(control_.get(), MakeIdentity(), dial, &owner_);
    });
  }
  ~SchedulerConnectionTest() override {
    On([this] {
      connection_.reset();
      server_.reset();
      hub_.reset();
    });
  }

  template <typename Task>
  void On(Task task) {
    RunOn(control_.get(), [&task] {
      task();
      return 0;
    });
  }
  bool Wait(const std::function<bool()>& holds) { return WaitUntil(control_.get(), holds); }

  // Answers every hello by what answer_ makes of it.
  void StartServer(std::uint16_t port) {
    On([&] {
      net::ControlServerHandlers handlers;
      handlers.on_connect = [this](ConnectionId id, const net::ControlCaller&) { last_ = id; };
      handlers.on_message = [this](ConnectionId id, control::v1::PeerMessage message) {
        if (message.has_hello() && answer_) server_->Send(id, answer_());
        received_.push_back(std::move(message));
      };
      handlers.on_disconnect = [this](ConnectionId, const Status&) { ++disconnects_; };
      handlers.may_fetch = [](PeerId) { return true; };
      handlers.read_artefact = [](const std::string&, std::uint64_t offset, std::size_t size) {
        constexpr std::uint64_t kBytes = 6'000'000;
        return Result(std::string(std::min<std::uint64_t>(size, kBytes - offset), 'x'));
      };
      net::ControlServerOptions options;
      options.listen = "127.0.0.1:" + std::to_string(port);
      options.identity = scheduler_;
      options.admission = [scheduler = scheduler_->id](const PeerId& key, std::string_view pem) {
        return net::CheckTicket(pem, key, *net::InviteKeyOf(kSecret), scheduler);
      };
      auto server = net::NewControlServer(options, control_.get(), blocking_.get(), handlers);
      ASSERT_TRUE(server.ok()) << server.status().ToString();
      server_ = std::move(*server);
      port_ = server_->port();
    });
  }
  void Open() {
    On([this] {
      net::Invite invite;
      invite.addresses = {"127.0.0.1:" + std::to_string(port_)};
      invite.scheduler = scheduler_->id;
      invite.secret = kSecret;
      connection_->Open(invite);
    });
  }
  static control::v1::SchedulerMessage Welcome(std::uint64_t run) {
    control::v1::SchedulerMessage message;
    message.mutable_welcome()->set_run(run);
    return message;
  }
  static control::v1::SchedulerMessage Refusal(StatusCode code, const std::string& why) {
    control::v1::SchedulerMessage message;
    message.mutable_refused()->set_code(static_cast<int>(code));
    message.mutable_refused()->set_error(why);
    return message;
  }
  static control::v1::SchedulerMessage Abort(std::uint64_t generation) {
    control::v1::SchedulerMessage message;
    message.mutable_abort()->set_generation(generation);
    return message;
  }

  std::unique_ptr<Executor> control_ = NewThreadExecutor("control");
  std::unique_ptr<Executor> blocking_ = NewThreadExecutor("blocking");
  const std::shared_ptr<const net::Identity> scheduler_ = MakeIdentity();
  const std::shared_ptr<net::RateLimiter> limiter_ =
      std::make_shared<net::RateLimiter>(&SystemClock());
  std::function<control::v1::SchedulerMessage()> answer_ = [] { return Welcome(77); };
  std::vector<control::v1::PeerMessage> received_;
  ConnectionId last_ = 0;
  int disconnects_ = 0;
  std::uint16_t port_ = 0;
  FakeOwner owner_;
  // As in shoald, where the listening port lives longer than any connection: gRPC 1.51 may abort
  // when the last user of its callback threads goes while they still run.
  std::unique_ptr<net::LinkHub> hub_;
  std::unique_ptr<net::ControlServer> server_;
  std::unique_ptr<SchedulerConnection> connection_;
};

TEST_F(SchedulerConnectionTest, AnInviteOfAnotherRunIsRefusedAfterAFewTries) {
  StartServer(0);
  On([this] {
    net::Invite invite;
    invite.addresses = {"127.0.0.1:" + std::to_string(port_)};
    invite.scheduler = scheduler_->id;
    invite.secret = "ffffffffffffffffffffffffffffffff";
    connection_->Open(invite);
  });
  ASSERT_TRUE(Wait([this] { return owner_.refused.has_value(); }));
  EXPECT_EQ(owner_.refused->code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(owner_.refused->message(), HasSubstr("ask the organiser for a new invite"));
  EXPECT_TRUE(received_.empty());
}

TEST_F(SchedulerConnectionTest, SaysHelloAndIsWelcomed) {
  StartServer(0);
  On([this] { EXPECT_EQ(connection_->client(), nullptr); });
  Open();
  ASSERT_TRUE(Wait([this] { return !owner_.welcomes.empty(); }));
  EXPECT_EQ(owner_.welcomes[0].run(), 77u);
  EXPECT_EQ(received_.at(0).hello().name(), "attic");
  On([this] {
    EXPECT_NE(connection_->client(), nullptr);
    control::v1::PeerMessage message;
    message.mutable_leaving()->set_reason("enough");
    connection_->Tell(message);
    server_->Send(last_, Abort(5));
  });
  ASSERT_TRUE(Wait([this] { return received_.size() == 2 && owner_.messages.size() == 1; }));
  EXPECT_EQ(received_[1].leaving().reason(), "enough");
  EXPECT_EQ(owner_.messages[0].abort().generation(), 5u);
  On([this] {
    EXPECT_GT(connection_->stats().sent_wire_bytes, 0u);
    EXPECT_GT(connection_->stats().received_wire_bytes, 0u);
  });
}

TEST_F(SchedulerConnectionTest, NothingCountsBeforeTheWelcome) {
  answer_ = [] { return Abort(1); };
  StartServer(0);
  Open();
  ASSERT_TRUE(Wait([this] { return received_.size() == 1; }));
  On([this] { server_->Send(last_, Welcome(3)); });
  ASSERT_TRUE(Wait([this] { return owner_.welcomes.size() == 1; }));
  EXPECT_TRUE(owner_.messages.empty());
}

TEST_F(SchedulerConnectionTest, RefusalKeepsCodeAndReasonAndEndsTheAttempts) {
  answer_ = [] { return Refusal(StatusCode::kPermissionDenied, "the invite is not valid"); };
  StartServer(0);
  Open();
  ASSERT_TRUE(Wait([this] { return owner_.refused.has_value(); }));
  EXPECT_EQ(owner_.refused->code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(owner_.refused->message(), HasSubstr("the invite is not valid"));
  ASSERT_TRUE(Wait([this] { return disconnects_ == 1; }));
  EXPECT_EQ(owner_.hellos, 1);
  EXPECT_TRUE(owner_.losses.empty());
  EXPECT_TRUE(owner_.welcomes.empty());
}

TEST_F(SchedulerConnectionTest, RefusalWithAForeignCodeIsStillAnError) {
  answer_ = [] {
    control::v1::SchedulerMessage message = Refusal(StatusCode::kOk, "");
    message.mutable_refused()->set_code(4711);
    return message;
  };
  StartServer(0);
  Open();
  ASSERT_TRUE(Wait([this] { return owner_.refused.has_value(); }));
  EXPECT_EQ(owner_.refused->code(), StatusCode::kUnknown);
  EXPECT_THAT(owner_.refused->message(), HasSubstr("without a reason"));
}

TEST_F(SchedulerConnectionTest, ComesBackAfterARestartOfTheScheduler) {
  StartServer(0);
  Open();
  ASSERT_TRUE(Wait([this] { return owner_.welcomes.size() == 1; }));
  const std::uint64_t sent =
      RunOn(control_.get(), [this] { return connection_->stats().sent_wire_bytes; });
  On([this] { server_.reset(); });
  ASSERT_TRUE(Wait([this] { return !owner_.losses.empty(); }));
  On([this] {
    EXPECT_EQ(connection_->client(), nullptr);
    EXPECT_FALSE(owner_.losses[0].ok());
  });
  StartServer(port_);
  ASSERT_TRUE(Wait([this] { return owner_.welcomes.size() == 2; }));
  On([this, sent] {
    EXPECT_GT(connection_->stats().sent_wire_bytes, sent);
    EXPECT_TRUE(std::is_sorted(owner_.pauses.begin(), owner_.pauses.end()));
  });
}

TEST_F(SchedulerConnectionTest, TheRateOfFilesOutlivesTheConnection) {
  StartServer(0);
  Open();
  ASSERT_TRUE(Wait([this] { return owner_.welcomes.size() == 1; }));
  std::optional<Status> fetched;
  On([&] {
    EXPECT_EQ(connection_->report().down_bps, 0);
    connection_->client()->Fetch(
        std::string(32, 'a'), 0, [](const std::string&) { return Status::Ok(); },
        [&](Status status) { fetched = std::move(status); });
  });
  ASSERT_TRUE(Wait([&] { return fetched.has_value(); }));
  EXPECT_TRUE(fetched->ok()) << fetched->ToString();
  On([this] {
    EXPECT_GT(connection_->report().down_bps, 0);
    server_.reset();
  });
  ASSERT_TRUE(Wait([this] { return !owner_.losses.empty(); }));
  On([this] { EXPECT_GT(connection_->report().down_bps, 0); });
}

TEST(RetryAfter, OftenAtFirstThenSeldom) {
  using std::chrono::milliseconds;
  PeerId early, late;
  late.key.front() = 255;
  Duration outage{};
  for (std::uint32_t failures = 0; failures < 30; ++failures) {
    EXPECT_EQ(RetryAfter(failures, early), milliseconds(375));
    EXPECT_GT(RetryAfter(failures, late), milliseconds(620));
    outage += RetryAfter(failures, early);
  }
  EXPECT_GT(outage, std::chrono::seconds(10)) << "that long a restart is seen at once";
  for (std::uint32_t failures = 30; failures < 40; ++failures) {
    EXPECT_GE(RetryAfter(failures, early), RetryAfter(failures - 1, early));
    EXPECT_LE(RetryAfter(failures, early), 2 * RetryAfter(failures - 1, early));
  }
  EXPECT_EQ(RetryAfter(1'000'000, early), milliseconds(11'250));
  EXPECT_LT(RetryAfter(1'000'000, late), milliseconds(18'750));
}

TEST_F(SchedulerConnectionTest, TriesAgainWhileNobodyAnswers) {
  StartServer(0);
  On([this] { server_.reset(); });
  Open();
  ASSERT_TRUE(Wait([this] { return owner_.pauses.size() >= 3; }));
  On([this] {
    EXPECT_LT(owner_.pauses[2], std::chrono::seconds(1));
    EXPECT_EQ(owner_.hellos, 0);
    connection_->Tell(control::v1::PeerMessage());  // dropped, no harm
  });
}

// In virtual time, with a scheduler that answers nothing.
class RetryNowTest : public testing::Test {
 protected:
  RetryNowTest() {
    connection_ = std::make_unique<SchedulerConnection>(
        control_.get(), MakeIdentity(),
        [this](const net::ControlClientOptions&, net::ControlClientHandlers handlers) {
          dialled_.push_back(std::move(handlers));
          return std::make_unique<test_support::FakeControlClient>(control_.get());
        },
        &owner_);
    net::Invite invite;
    invite.addresses = {"127.0.0.1:1"};
    connection_->Open(invite);
  }
  void Pass(Duration time) {
    world_.RunUntil([] { return false; }, time);
  }
  void Fail() {
    dialled_.back().on_closed(Unavailable("nobody answers"));
    Pass(std::chrono::milliseconds(1));
  }

  test_support::SimWorld world_;
  const std::unique_ptr<Executor> control_ = world_.NewExecutor("control");
  std::vector<net::ControlClientHandlers> dialled_;
  FakeOwner owner_;
  std::unique_ptr<SchedulerConnection> connection_;
};

TEST_F(RetryNowTest, EndsALongWaitAndTheNextOnesAreShort) {
  while (owner_.pauses.size() < 40) {
    Fail();
    Pass(owner_.pauses.back());
  }
  Fail();
  EXPECT_GT(owner_.pauses.back(), std::chrono::seconds(10));
  const std::size_t before = dialled_.size();
  EXPECT_TRUE(connection_->waits());
  connection_->RetryNow();
  EXPECT_EQ(dialled_.size(), before + 1);
  connection_->RetryNow();  // it dials already
  Pass(std::chrono::seconds(30));
  EXPECT_EQ(dialled_.size(), before + 1) << "the timer of the wait dials, too";
  Fail();
  EXPECT_LT(owner_.pauses.back(), std::chrono::seconds(1));
}

TEST_F(RetryNowTest, AStreamThatCannotStandIsLostAndDialledAnew) {
  EXPECT_EQ(connection_->report().rtt_ms, 0) << "not known yet";
  dialled_[0].on_open();
  control::v1::SchedulerMessage welcome;
  welcome.mutable_welcome();
  constexpr auto kAnswer = std::chrono::milliseconds(30);
  control_->PostAfter("test", kAnswer, [] {});  // the clock stands still while nothing happens
  Pass(kAnswer);
  dialled_[0].on_message(welcome);
  EXPECT_EQ(connection_->report().rtt_ms, 30);
  connection_->RetryNow();  // a stream that stands stays
  EXPECT_EQ(dialled_.size(), 1u);
  connection_->Drop(Unavailable("this machine slept for 2h"));
  ASSERT_EQ(owner_.losses.size(), 1u);
  EXPECT_THAT(owner_.losses[0].message(), HasSubstr("slept"));
  EXPECT_EQ(owner_.pauses[0], Duration::zero());
  EXPECT_EQ(dialled_.size(), 2u);
  EXPECT_EQ(connection_->client(), nullptr);
  EXPECT_EQ(connection_->report().rtt_ms, 0) << "of no stream that stands";
  dialled_[0].on_closed(Unavailable("late"));  // of the old stream
  EXPECT_EQ(owner_.losses.size(), 1u);
  connection_->Close();
  connection_->Drop(Unavailable("x"));
  EXPECT_EQ(dialled_.size(), 2u) << "who has no invite dials nobody";
}

// Behind several addresses may be several schedulers, of which another leads in seconds.
TEST_F(SchedulerConnectionTest, TheOneThatServedComesLastAndPausesStayShortForAWhile) {
  StartServer(0);
  On([this] {
    net::Invite invite;
    const std::string own = "127.0.0.1:" + std::to_string(port_);
    invite.addresses = {own, "127.0.0.1:1", "127.0.0.1:9"};
    invite.scheduler = scheduler_->id;
    invite.secret = kSecret;
    connection_->Open(invite);
  });
  ASSERT_TRUE(Wait([this] { return owner_.welcomes.size() == 1; }));
  On([this] { server_.reset(); });
  ASSERT_TRUE(Wait([this] { return owner_.pauses.size() >= 4; }));
  On([this] {
    for (const Duration pause : owner_.pauses) EXPECT_EQ(pause, owner_.pauses[0]);
    const std::string& all = owner_.losses[1].message();
    EXPECT_LT(all.find("127.0.0.1:1:"), all.find("127.0.0.1:9:"));
    EXPECT_LT(all.find("127.0.0.1:9:"), all.find("127.0.0.1:" + std::to_string(port_)));
  });
  StartServer(port_);
  EXPECT_TRUE(Wait([this] { return owner_.welcomes.size() == 2; }));
}

TEST_F(SchedulerConnectionTest, AnotherKeyThanTheInvitesIsNotTrusted) {
  StartServer(0);
  On([this] {
    net::Invite invite;
    invite.addresses = {"127.0.0.1:" + std::to_string(port_)};
    invite.scheduler = MakeIdentity()->id;
    connection_->Open(invite);
  });
  ASSERT_TRUE(Wait([this] { return !owner_.losses.empty(); }));
  EXPECT_EQ(owner_.hellos, 0);
  EXPECT_TRUE(received_.empty());
}

TEST_F(SchedulerConnectionTest, ClosedItStaysClosed) {
  StartServer(0);
  Open();
  ASSERT_TRUE(Wait([this] { return owner_.welcomes.size() == 1; }));
  On([this] { connection_->Close(); });
  ASSERT_TRUE(Wait([this] { return disconnects_ == 1; }));
  On([this] {
    EXPECT_EQ(connection_->client(), nullptr);
    EXPECT_TRUE(owner_.losses.empty());
  });
}

}  // namespace
}  // namespace shoal::daemon
