#include "client/base/orders.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "client/base/programs.h"

namespace shoal::client {
namespace {

TEST(Orders, OfARunNameItsFolder) {
  EXPECT_EQ(RunOrders("held; continue with: shoal swarm resume", "./run"),
            "held; continue with: shoal swarm resume --dir ./run");
  EXPECT_EQ(RunOrders("or until: shoal swarm release 0a1b2c3d, says Ana", "/r 1/it's"),
            "or until: shoal swarm release --dir '/r 1/it'\\''s' 0a1b2c3d, says Ana");
  EXPECT_EQ(RunOrders("`shoal swarm invites` or `shoal swarm members`", "run"),
            "`shoal swarm invites --dir run` or `shoal swarm members --dir run`");
}

TEST(Orders, ThatNameAFolderOrAreNoneStay) {
  for (const char* const text :
       {"take it with: shoal swarm export --dir /run --out ./tuned", "shoal swarms resume",
        "`shoal swarm init`", "shoal swarm", "shoal resume", "", "my-shoal swarm resume",
        "bin/shoal swarm resume\n"}) {
    EXPECT_EQ(RunOrders(text, "./run"), text);
  }
  EXPECT_EQ(RunOrders("shoal swarm kick --dir /a Ana; shoal swarm members", "/a"),
            "shoal swarm kick --dir /a Ana; shoal swarm members --dir /a");
}

TEST(Orders, OfAPeerNameItsFolderUnlessItIsTheUsualOne) {
  ASSERT_EQ(::setenv("SHOAL_DIR", "/srv/shoal", 1), 0);
  const std::string text = "paused; `shoal resume` ends the pause; `shoal join INVITE --no-start`";
  EXPECT_EQ(PeerOrders(text, DefaultDirectory()), text);
  EXPECT_EQ(PeerOrders(text, "/p1"),
            "paused; `shoal resume --dir /p1` ends the pause; "
            "`shoal join --dir /p1 INVITE --no-start`");
  const std::string others = "ask the organiser: shoal swarm invite; shoal prepare; `shoal`";
  EXPECT_EQ(PeerOrders(others, "/p1"), others);
}

}  // namespace
}  // namespace shoal::client
