#include "replica/collective/direct/lan_groups.h"

#include <gtest/gtest.h>

namespace shoal::collective {
namespace {

using Weights = std::vector<std::uint64_t>;

TEST(LanGroupsTest, EndsOfAPipelineShareALanWithAnotherPipelineOnly) {
  const std::vector<std::size_t> none{0, 1, 2}, pair{0, 0, 2}, all{7, 7, 7};
  EXPECT_EQ(GroupsOfPipelines(none, 1), (LanGroups{0, 1, 2}));
  EXPECT_EQ(GroupsOfPipelines(none, 2), (LanGroups{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(GroupsOfPipelines(pair, 1), (LanGroups{0, 0, 1}));
  EXPECT_EQ(GroupsOfPipelines(pair, 2), (LanGroups{0, 0, 1, 0, 0, 2}));
  EXPECT_EQ(GroupsOfPipelines(all, 2), (LanGroups{0, 0, 0, 0, 0, 0}));
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
