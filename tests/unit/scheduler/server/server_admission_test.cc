// The server's commands about invites and members.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "net/identity/membership.h"
#include "tests/unit/scheduler/server/server_fixture.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

class ServerAdmissionTest : public ServerTest {
 protected:
  Json Listed(const std::string& name) {
    const auto answer = Command(name);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    return answer.ok() ? Json::parse(answer->json)[name] : Json();
  }
};

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
