// The server's commands about invites and members.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include "common/file.h"
#include "common/mutex.h"
#include "scheduler/door/wall_clock.h"
#include "tests/unit/scheduler/server/server_fixture.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Somebody who calls with the secret of an invite, and what comes of it.
class Caller {
 public:
  Caller(SchedulerServer& server, std::shared_ptr<const net::Identity> identity,
         const std::string& secret) {
    net::ControlClientOptions options;
    options.addresses = {"127.0.0.1:" + std::to_string(server.port())};
    options.scheduler = net::ParseInvite(server.invite())->scheduler;
    options.identity = std::move(identity);
    options.join_secret = secret;
    net::ControlClientHandlers handlers;
    handlers.on_open = [this] { Set([this] { open_ = true; }); };
    handlers.on_message = [this](const control::v1::SchedulerMessage& message) {
      Set([&] {
        welcome_ = welcome_ || message.has_welcome();
        if (message.has_refused()) refused_ = message.refused().error();
      });
    };
    handlers.on_closed = [this](const Status& status) { Set([&] { closed_ = status; }); };
    const auto limiter = std::make_shared<net::RateLimiter>(&SystemClock());
    client_ = net::NewControlClient(options, control_.get(), limiter, limiter, handlers);
  }
  ~Caller() {
    OnControl([this] { client_.reset(); });
  }

  // Whether the handshake let it in.
  bool ComesIn() {
    return Wait([this] { return open_ || closed_; }) && Get([this] { return open_; });
  }
  // Whether its hello was accepted.
  bool IsTaken() {
    OnControl([this] {
      control::v1::PeerMessage message;
      message.mutable_hello()->set_protocol(net::kProtocolVersion);
      message.mutable_hello()->set_name("anna");
      message.mutable_hello()->set_listen_port(4000);
      EXPECT_TRUE(client_->Send(message).ok());
    });
    return Wait([this] { return welcome_ || closed_; }) && Get([this] { return welcome_; });
  }
  // Of an artefact that there is not; members are told so.
  StatusCode Fetch() {
    std::promise<Status> fetched;
    OnControl([&] {
      client_->Fetch(
          std::string(32, 'h'), 0, [](const std::string&) { return Status::Ok(); },
          [&](Status status) { fetched.set_value(std::move(status)); });
    });
    return fetched.get_future().get().code();
  }
  // Why the connection was ended; empty: it stands.
  std::string Ended() {
    Wait([this] { return closed_.has_value(); });
    MutexLock lock(mutex_);
    return closed_ ? closed_->message() + refused_ : "";
  }

 private:
  bool Get(const std::function<bool()>& holds) {
    MutexLock lock(mutex_);
    return holds();
  }
  void Set(const std::function<void()>& change) {
    MutexLock lock(mutex_);
    change();
  }
  bool Wait(const std::function<bool()>& holds) {
    const TimePoint end = SystemClock().Now() + kCall;
    while (!Get(holds) && SystemClock().Now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return Get(holds);
  }
  void OnControl(const std::function<void()>& task) {
    std::promise<void> done;
    control_->Post("caller", [&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }

  Mutex mutex_;
  bool open_ = false, welcome_ = false;
  std::optional<Status> closed_;
  std::string refused_;
  const std::unique_ptr<Executor> control_ = NewThreadExecutor("caller");
  std::unique_ptr<net::ControlClient> client_;
};

class ServerAdmissionTest : public ServerTest {
 protected:
  // Callers here send no heartbeats.
  ServerAdmissionTest() { config_.peer_timeout = kPeerTimeoutMax; }
  std::shared_ptr<const net::Identity> NewPeer() {
    return *net::LoadOrCreateIdentity(folder_ + "/peer" + std::to_string(++peers_));
  }
  // The secret of a new invite.
  std::string Invite(const std::map<std::string, std::string>& arguments = {}) {
    const auto made = Command("invite", arguments);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    return net::ParseInvite(made->message)->secret;
  }
  Json Listed(const std::string& name) {
    const auto answer = Command(name);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    return answer.ok() ? Json::parse(answer->json)[name] : Json();
  }

 private:
  int peers_ = 0;
};

TEST_F(ServerAdmissionTest, WhoHasNoInviteDoesNotComeIn) {
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  Caller stranger(*server, NewPeer(), net::NewJoinSecret());
  EXPECT_FALSE(stranger.ComesIn());
  EXPECT_THAT(stranger.Ended(), HasSubstr("ask the organiser for a new invite"));
  EXPECT_TRUE(Listed("members").empty());
  Caller invited(*server, NewPeer(), Invite());
  EXPECT_TRUE(invited.ComesIn());
  EXPECT_TRUE(invited.IsTaken());
}

TEST_F(ServerAdmissionTest, OnlyMembersFetch) {
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  Caller invited(*server, NewPeer(), Invite());
  ASSERT_TRUE(invited.ComesIn());
  EXPECT_EQ(invited.Fetch(), StatusCode::kPermissionDenied) << "it has not said hello";
  ASSERT_TRUE(invited.IsTaken());
  EXPECT_EQ(invited.Fetch(), StatusCode::kNotFound);
}

TEST_F(ServerAdmissionTest, AnInviteHasOneUseAndAWeekUnlessToldOtherwise) {
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  Invite();
  const Json invite = Listed("invites").at(1);
  EXPECT_EQ(invite["uses"], 1);
  const double lasts_ms =
      invite["expiresUnixMs"].get<double>() - invite["madeUnixMs"].get<double>();
  constexpr double kHourMs = 3'600'000;
  EXPECT_NEAR(lasts_ms, 7 * 24 * kHourMs, kHourMs) << "it is stored a moment later";
}

// Two who were let in by the handshake with the last use of an invite: the second hello is late.
TEST_F(ServerAdmissionTest, TheLastUseIsOfTheFirstThatSaysHello) {
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  const std::string secret = Invite();
  Caller first(*server, NewPeer(), secret), second(*server, NewPeer(), secret);
  ASSERT_TRUE(first.ComesIn());
  ASSERT_TRUE(second.ComesIn());
  EXPECT_TRUE(first.IsTaken());
  EXPECT_FALSE(second.IsTaken());
  EXPECT_THAT(second.Ended(), HasSubstr("ask the organiser for a new invite"));
  EXPECT_EQ(Listed("members").size(), 1u);
}

TEST_F(ServerAdmissionTest, WhoIsRemovedIsCutOffAndStaysOutAlsoAfterARestart) {
  const auto anna = NewPeer();
  std::string secret;
  {
    const auto server = Open();
    ASSERT_NE(server, nullptr);
    secret = Invite({{"uses", "9"}});
    Caller caller(*server, anna, secret);
    ASSERT_TRUE(caller.ComesIn() && caller.IsTaken());
    ASSERT_TRUE(Command("kick", {{"member", "anna"}, {"reason", "noise"}}).ok());
    EXPECT_THAT(caller.Ended(), HasSubstr("removed this machine: noise"));
    EXPECT_FALSE(Caller(*server, anna, secret).ComesIn());
  }
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  EXPECT_FALSE(Caller(*server, anna, secret).ComesIn());
  ASSERT_TRUE(Command("kick", {{"member", "anna"}, {"undo", ""}}).ok());
  EXPECT_TRUE(Caller(*server, anna, secret).ComesIn());
}

TEST_F(ServerAdmissionTest, RevokingEndsAnInviteAndWhenToldItsMembersToo) {
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  const std::string secret = Invite({{"uses", "9"}});
  const std::string id = net::InviteKeyOf(secret)->id().ToHex();
  Caller member(*server, NewPeer(), secret);
  ASSERT_TRUE(member.ComesIn() && member.IsTaken());
  ASSERT_TRUE(Command("revoke", {{"id", id}}).ok());
  EXPECT_FALSE(Caller(*server, NewPeer(), secret).ComesIn());
  EXPECT_EQ(Listed("members")[0]["connected"], true);
  ASSERT_TRUE(Command("revoke", {{"id", id}, {"members", ""}}).ok());
  EXPECT_THAT(member.Ended(), HasSubstr("was revoked"));
  EXPECT_EQ(Listed("members")[0]["state"], "kicked");
}

TEST_F(ServerAdmissionTest, TheFolderOpensNoInviteButTheStandingOne) {
  std::string standing, secret;
  {
    const auto server = Open();
    ASSERT_NE(server, nullptr);
    standing = net::ParseInvite(server->invite())->secret;
    secret = Invite({{"name", "Ana"}});
    Caller member(*server, NewPeer(), secret);
    ASSERT_TRUE(member.ComesIn() && member.IsTaken());
  }
  std::string raw;
  for (std::size_t i = 0; i < secret.size(); i += 2) {
    raw.push_back(static_cast<char>(std::stoi(secret.substr(i, 2), nullptr, 16)));
  }
  bool has_standing = false;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(config_.directory)) {
    if (!entry.is_regular_file()) continue;
    const std::string bytes = ReadFile(entry.path().string(), 1u << 30).value();
    EXPECT_THAT(bytes, Not(HasSubstr(secret))) << entry.path();
    EXPECT_THAT(bytes, Not(HasSubstr(raw))) << entry.path();
    has_standing = has_standing || bytes.find(standing) != std::string::npos;
  }
  EXPECT_TRUE(has_standing) << "so it would be found";
}

TEST_F(ServerAdmissionTest, InvitesAreInTheHistoryAndNotTheirSecrets) {
  std::string line;
  {
    const auto server = Open();
    ASSERT_NE(server, nullptr);
    const auto made = Command("invite", {{"uses", "3"}, {"expires", "2h"}, {"name", "Ana"}});
    ASSERT_TRUE(made.ok());
    line = made->message;
    const auto parsed = net::ParseInvite(line);
    EXPECT_EQ(Json::parse(made->json)["invite"], line);
    ASSERT_TRUE(parsed.ok()) << line;
    EXPECT_NE(line, server->invite());
    const Json invites = Listed("invites");
    ASSERT_EQ(invites.size(), 2u);
    EXPECT_EQ(invites[0]["standing"], true);
    EXPECT_EQ(invites[1]["id"], net::InviteKeyOf(parsed->secret)->id().ToHex());
  }
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  const Json invites = Listed("invites");
  ASSERT_EQ(invites.size(), 2u);
  EXPECT_EQ(invites[1]["name"], "Ana");
  EXPECT_EQ(invites[1]["usesLeft"], 3);
}

TEST_F(ServerAdmissionTest, WrongNumbersAreNamed) {
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  for (const char* uses : {"0", "-1", "x", "10001", "1.5"}) {
    EXPECT_THAT(Command("invite", {{"uses", uses}}).status().message(), HasSubstr(uses));
  }
  for (const char* expires : {"0s", "5", "9999999d", "soon"}) {
    EXPECT_FALSE(Command("invite", {{"expires", expires}}).ok()) << expires;
  }
  EXPECT_EQ(Command("revoke", {{"id", "beef"}}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Command("kick", {{"member", "nobody"}}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Listed("invites").size(), 1u);
}

TEST_F(ServerAdmissionTest, AMemberIsKnownAndRemoved) {
  config_.auto_start = false;
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  const TestPeer anna(*server, folder_ + "/anna", "anna");
  const Json members = Listed("members");
  ASSERT_EQ(members.size(), 1u);
  EXPECT_EQ(members[0]["name"], "anna");
  EXPECT_EQ(members[0]["connected"], true);
  EXPECT_THAT(Command("kick", {{"member", "anna"}, {"undo", ""}}).status().message(),
              HasSubstr("is not removed"));
  EXPECT_TRUE(Command("kick", {{"member", "anna"}, {"reason", "noise"}}).ok());
  EXPECT_THAT(Command("kick", {{"member", "anna"}}).status().message(),
              HasSubstr("removed already"));
  EXPECT_EQ(Listed("members")[0]["state"], "kicked");
  EXPECT_TRUE(Command("kick", {{"member", "anna"}, {"undo", ""}}).ok());
  EXPECT_NE(Listed("members")[0]["state"], "kicked");
}

TEST_F(ServerAdmissionTest, WhoIsInQuarantineIsShownAndReleased) {
  config_.quarantine_after = 1;
  auto server = Open();
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(Command("release", {{"member", "nobody"}}).status().code(), StatusCode::kNotFound);
  TestPeer anna(*server, folder_ + "/anna", "anna");
  EXPECT_THAT(Command("release", {{"member", "anna"}}).status().message(),
              HasSubstr("is not in quarantine"));
  control::v1::PeerMessage message;
  message.mutable_plan_ready()->set_generation(anna.Plan().generation());
  anna.Say(message);
  message.mutable_step_ready()->set_generation(1);
  message.mutable_step_ready()->set_micro_batches(config_.micro_batches);
  message.mutable_step_ready()->set_labels(10);
  message.mutable_step_ready()->set_loss_sum(-50);
  anna.Say(message);
  const TimePoint end = SystemClock().Now() + kCall;
  while (Listed("members")[0]["state"] != "quarantine" && SystemClock().Now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(Listed("members")[0]["state"], "quarantine");
  EXPECT_THAT(Listed("members")[0]["reason"].get<std::string>(),
              HasSubstr("reports a loss of -50"));
  EXPECT_THAT(StatusNow()["run"]["reason"].get<std::string>(),
              HasSubstr("or until: shoal swarm release"));
  EXPECT_GT(Listed("members")[0]["quarantineUntilUnixMs"].get<std::uint64_t>(), UnixMilliseconds());
  // The next scheduler knows it before the peer is back.
  server.reset();
  server = Open();
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(Listed("members")[0]["state"], "gone");
  EXPECT_THAT(Listed("members")[0]["reason"].get<std::string>(),
              HasSubstr("reports a loss of -50"));
  const auto released = Command("release", {{"member", "anna"}});
  ASSERT_TRUE(released.ok()) << released.status().ToString();
  EXPECT_TRUE(Listed("members")[0]["quarantineUntilUnixMs"].is_null());
  EXPECT_THAT(released->message, HasSubstr("may have a stage again"));
  EXPECT_NE(Listed("members")[0]["state"], "quarantine");
}

TEST_F(ServerAdmissionTest, WithoutAStandingInviteNoneIsWritten) {
  config_.standing_invite = false;
  const auto server = Open();
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(server->invite(), "");
  EXPECT_THAT(Command("invite", {{"standing", ""}}).status().message(),
              HasSubstr("no standing invite"));
  struct stat info {};
  EXPECT_NE(::stat((config_.directory + "/invite").c_str(), &info), 0);
  EXPECT_EQ(Listed("invites")[0]["state"], "turned off");
}

}  // namespace
}  // namespace shoal::scheduler
