#include "daemon/terms/own_network.h"

#include <gmock/gmock.h>

namespace shoal::daemon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Texts = std::vector<std::string>;

struct Home {
  std::optional<Texts> now = Texts{"192.168.1.2", "127.0.0.1"};
  OwnNetwork network{{}, [this] { return now; }};
};

TEST(OwnNetwork, OthersAreToldAgainWhenAddressesHaveChanged) {
  Home home;
  EXPECT_THAT(home.network.Tell({"s@relay:1"}),
              ElementsAre("192.168.1.2", "127.0.0.1", "s@relay:1"));
  EXPECT_EQ(home.network.TellNew({"s@relay:1"}), nullptr);
  home.now->insert(home.now->begin(), "10.0.0.2");
  const Texts* const told = home.network.TellNew({"s@relay:1"});
  ASSERT_NE(told, nullptr);
  EXPECT_THAT(*told, ElementsAre("10.0.0.2", "192.168.1.2", "127.0.0.1", "s@relay:1"));
  EXPECT_EQ(home.network.TellNew({"s@relay:1"}), nullptr);
}

TEST(OwnNetwork, WhatTheOwnerSaysIsToldInstead) {
  Home home;
  OwnNetwork network({"shoal.example.org"}, [&] { return home.now; });
  EXPECT_THAT(network.Tell({}), ElementsAre("shoal.example.org"));
  home.now->clear();
  EXPECT_EQ(network.TellNew({}), nullptr);
}

TEST(OwnNetwork, SixteenAreToldAndAllRelaysAreAmongThem) {
  Home home;
  home.now = Texts(20, "10.0.0.1");
  const Texts told = home.network.Tell({"s@relay:1", "s@relay:2"});
  EXPECT_EQ(told.size(), 16u);
  EXPECT_EQ(told[13], "10.0.0.1");
  EXPECT_EQ(told[14], "s@relay:1");
  EXPECT_THAT(home.network.Tell(Texts(16, "s@relay:1")), testing::Each("s@relay:1"));
}

TEST(OwnNetwork, WhatAMachineHasLostIsSeenOnce) {
  Home home;
  EXPECT_FALSE(home.network.Look()) << "the first";
  EXPECT_FALSE(home.network.Look());
  home.now = Texts{"10.0.0.7", "127.0.0.1"};
  auto change = home.network.Look();
  ASSERT_TRUE(change);
  EXPECT_THAT(change->lost, ElementsAre("192.168.1.2"));
  EXPECT_FALSE(home.network.Look());
  home.now->push_back("10.0.0.8");
  change = home.network.Look();
  ASSERT_TRUE(change);
  EXPECT_THAT(change->lost, IsEmpty());
}

// Else every connection would end when the process runs out of descriptors.
TEST(OwnNetwork, WhereTheSystemDoesNotTellNothingIsLost) {
  Home home;
  EXPECT_FALSE(home.network.Look());
  const auto before = std::exchange(home.now, std::nullopt);
  EXPECT_FALSE(home.network.Look());
  EXPECT_THAT(home.network.Tell({}), ElementsAre("192.168.1.2", "127.0.0.1"));
  home.now = before;
  EXPECT_FALSE(home.network.Look());
}

}  // namespace
}  // namespace shoal::daemon
