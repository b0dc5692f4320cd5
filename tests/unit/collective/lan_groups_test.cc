#include "collective/lan_groups.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace shoal::collective {
namespace {

using Weights = std::vector<std::uint64_t>;

TEST(LanGroupsTest, MembersNearEachOtherAreOneLan) {
  const double kFar = 0.03, kNear = 0.0004;
  std::vector<double> rtt(25, kFar);
  const auto set = [&](std::size_t i, std::size_t j, double seconds) { rtt[i * 5 + j] = seconds; };
  EXPECT_EQ(GroupsByRtt(rtt, 5).value(), (LanGroups{0, 1, 2, 3, 4}));
  set(1, 3, kNear);  // one way is enough, the other was not measured
  set(3, 1, -1);
  EXPECT_EQ(GroupsByRtt(rtt, 5).value(), (LanGroups{0, 1, 2, 1, 3}));
  set(4, 3, kNear);  // 4 is near 3, and so with 1
  EXPECT_EQ(GroupsByRtt(rtt, 5).value(), (LanGroups{0, 1, 2, 1, 1}));
  set(0, 2, 0.002);  // not below the limit
  set(2, 0, std::nan(""));
  EXPECT_EQ(GroupsByRtt(rtt, 5).value(), (LanGroups{0, 1, 2, 1, 1}));
  EXPECT_EQ(GroupsByRtt(rtt, 5, 0.0021).value(), (LanGroups{0, 1, 0, 1, 1}));
  EXPECT_EQ(GroupsByRtt(rtt, 5, 1.0).value(), (LanGroups{0, 0, 0, 0, 0}));
}

// Against reachability by repeated squaring of the relation.
TEST(LanGroupsTest, TheClosureIsTransitive) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const std::size_t n = 1 + random() % 12;
    std::vector<double> rtt(n * n);
    for (double& seconds : rtt) seconds = random() % (2 + n) == 0 ? 0.001 : 0.05;
    std::vector<std::vector<bool>> near(n, std::vector<bool>(n));
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        near[i][j] = i == j || rtt[i * n + j] < 0.002 || rtt[j * n + i] < 0.002;
      }
    }
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          if (near[i][k] && near[k][j]) near[i][j] = true;
        }
      }
    }
    const LanGroups groups = GroupsByRtt(rtt, n).value();
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) EXPECT_EQ(groups[i] == groups[j], near[i][j]);
    }
    EXPECT_EQ(groups, NumberedGroups(groups));
  }
}

TEST(LanGroupsTest, WrongSizesAreRefused) {
  const std::vector<double> rtt(6, 1.0);
  for (const std::size_t members : {0u, 2u, 3u, 6u}) {
    EXPECT_FALSE(GroupsByRtt(rtt, members).ok()) << members;
  }
}

TEST(LanGroupsTest, TheFirstWithAWeightLeads) {
  const LanGroups groups = NumberedGroups(std::vector<std::size_t>{7, 3, 7, 3, 9});
  EXPECT_EQ(groups, (LanGroups{0, 1, 0, 1, 2}));
  EXPECT_EQ(LanLeaders(groups, Weights{1, 1, 1, 1, 1}), (std::vector<std::size_t>{0, 1, 4}));
  EXPECT_EQ(LanLeaders(groups, Weights{0, 0, 5, 1, 1}), (std::vector<std::size_t>{2, 3, 4}));
  EXPECT_EQ(LanLeaders(groups, Weights{0, 1, 0, 1, 0}), (std::vector<std::size_t>{0, 1, 4}));
}

TEST(LanGroupsTest, LeadersOwnTheShards) {
  const LanGroups groups{0, 1, 0, 1, 2};
  const auto shards = HierarchicalShards(100, groups, Weights{0, 1, 5, 1, 0}, {}, 10);
  EXPECT_EQ(shards, (std::vector<ValueRange>{{0, 0}, {0, 50}, {50, 100}, {100, 100}, {100, 100}}));
  const std::vector<double> shares{1, 1, 4, 1, 1};
  EXPECT_EQ(HierarchicalShards(100, groups, Weights{0, 1, 5, 1, 0}, shares, 10)[1],
            (ValueRange{0, 20}));
}

}  // namespace
}  // namespace shoal::collective
