#include "scheduler/swarm/swarm_plan.h"

#include <gtest/gtest.h>

#include "unit/scheduler/swarm/swarm_parts.h"

namespace shoal::scheduler {
namespace {

TEST(SwarmPlan, ProposesWhenEnoughAreHereWithEnoughMemory) {
  SwarmParts parts(2, 1);
  parts.config.stage_bytes = {100, 200};
  parts.Join(1, 150);
  EXPECT_FALSE(parts.plan.Propose(parts.config.pipelines));
  EXPECT_FALSE(parts.plan.too_little_memory()) << "too few are here";
  parts.Join(2, 150);
  EXPECT_FALSE(parts.plan.Propose(parts.config.pipelines));
  EXPECT_TRUE(parts.plan.too_little_memory());
  parts.Join(3, 250);
  const auto positions = parts.plan.Propose(parts.config.pipelines);
  ASSERT_TRUE(positions);
  EXPECT_EQ(*positions, (PlacementPlan{{SimPeerId(1), SimPeerId(3)}}));
  EXPECT_FALSE(parts.plan.too_little_memory());
}

TEST(SwarmPlan, AdoptedItNamesItsHosts) {
  SwarmParts parts(2, 2);
  parts.JoinAll(5);
  EXPECT_TRUE(parts.plan.Hosts().empty());
  parts.plan.Adopt(*parts.plan.Propose(parts.config.pipelines));
  ASSERT_EQ(parts.plan.Hosts().size(), 4u);
  EXPECT_EQ(parts.plan.Hosts()[2], parts.plan.At(1, 0));
  EXPECT_EQ(parts.At(1, 0).pipeline, 1);
  EXPECT_EQ(parts.At(1, 0).stage, 0);
  EXPECT_FALSE(parts.members.Find(SimPeerId(5))->placed());
  EXPECT_EQ(parts.plan.NamesOf(1, {0, 1}),
            parts.At(0, 1).LabelWithPosition() + ", " + parts.At(1, 1).LabelWithPosition());
  parts.members.Remove(parts.At(0, 1).peer);
  EXPECT_EQ(parts.plan.At(0, 1), nullptr);
  EXPECT_EQ(parts.plan.Hosts().size(), 3u);
  EXPECT_EQ(parts.plan.NamesOf(1, {0, 1}), parts.At(1, 1).LabelWithPosition());
}

TEST(SwarmPlan, LinksGoAlongPipelinesAndWithinGroups) {
  SwarmParts parts(4, 2);
  parts.JoinAll(8);
  parts.plan.Adopt(*parts.plan.Propose(parts.config.pipelines));
  const auto linked = [&](std::uint32_t p, std::uint32_t s, std::uint32_t q, std::uint32_t t) {
    const bool there = parts.plan.Linked(parts.At(p, s), parts.At(q, t));
    EXPECT_EQ(there, parts.plan.Linked(parts.At(q, t), parts.At(p, s)));
    return there;
  };
  EXPECT_FALSE(linked(0, 1, 0, 1)) << "itself";
  EXPECT_TRUE(linked(0, 1, 0, 2));
  EXPECT_FALSE(linked(0, 1, 1, 2));
  EXPECT_FALSE(linked(0, 0, 0, 2));
  EXPECT_TRUE(linked(0, 1, 1, 1));
  EXPECT_FALSE(linked(0, 0, 0, 3));
  parts.config.sharing = {0, 3};
  EXPECT_TRUE(linked(0, 0, 0, 3)) << "the tied embedding";
  EXPECT_TRUE(linked(0, 0, 1, 3));
  EXPECT_FALSE(linked(0, 0, 0, 2));
  parts.config.sharing = {0, 1, 2, 3};
  EXPECT_TRUE(linked(0, 0, 0, 2)) << "a table that all layers use";
  EXPECT_TRUE(linked(0, 1, 1, 3));
}

TEST(SwarmPlan, ACheckOfOutputsMayLinkTheStagesBesideOfOtherPipelines) {
  SwarmParts parts(3, 2);
  parts.JoinAll(6);
  parts.plan.Adopt(*parts.plan.Propose(parts.config.pipelines));
  EXPECT_TRUE(parts.plan.MayLink(parts.At(0, 1), parts.At(0, 2)));
  EXPECT_FALSE(parts.plan.MayLink(parts.At(0, 1), parts.At(1, 2)));
  parts.config.spot_checks = 0.01;
  EXPECT_TRUE(parts.plan.MayLink(parts.At(0, 1), parts.At(1, 2)));
  EXPECT_FALSE(parts.plan.MayLink(parts.At(0, 0), parts.At(1, 2)));
  EXPECT_FALSE(parts.plan.MayLink(parts.At(0, 1), parts.At(0, 1))) << "itself";
}

TEST(SwarmPlan, ASpareGetsAPositionThatIsGivenUp) {
  SwarmParts parts(2, 1);
  parts.JoinAll(2);
  parts.plan.Adopt(*parts.plan.Propose(parts.config.pipelines));
  EXPECT_FALSE(parts.plan.SpareCouldReplace(parts.At(0, 1)));
  parts.Join(3);
  EXPECT_TRUE(parts.plan.SpareCouldReplace(parts.At(0, 1)));
  const PeerId before = parts.At(0, 1).peer;
  parts.plan.GiveUpPosition(parts.At(0, 1));
  const auto next = parts.plan.Propose(parts.config.pipelines);
  ASSERT_TRUE(next);
  EXPECT_EQ(*next, (PlacementPlan{{SimPeerId(1), SimPeerId(3)}}));
  // Without a spare it keeps its position.
  parts.members.Close(3);
  EXPECT_EQ(*parts.plan.Propose(parts.config.pipelines), (PlacementPlan{{SimPeerId(1), before}}));
}

TEST(SwarmPlan, ReadyCountsEachMemberOnce) {
  SwarmParts parts(2, 1);
  parts.JoinAll(2);
  parts.plan.Adopt(*parts.plan.Propose(parts.config.pipelines));
  parts.plan.AddReady(parts.At(0, 0), {});
  parts.plan.AddReady(parts.At(0, 0), {});
  EXPECT_EQ(parts.plan.ready(), 1u);
  parts.plan.AddReady(parts.At(0, 1), {});
  EXPECT_EQ(parts.plan.ready(), parts.plan.needed());
  parts.plan.Adopt(*parts.plan.Propose(parts.config.pipelines));
  EXPECT_EQ(parts.plan.ready(), 0u);
}

// A report of the round trip to one other peer.
control::v1::PlanReady Near(const PeerId& to) {
  control::v1::PlanReady ready;
  control::v1::RoundTrip* const trip = ready.add_round_trips();
  trip->set_peer(std::string(to.key.begin(), to.key.end()));
  trip->set_ms(0.5);
  return ready;
}

TEST(SwarmPlan, MeasuredLansMoveAPlanOnce) {
  SwarmParts parts(1, 3);
  parts.config.replica_method = "qsdp:lan=auto";
  parts.JoinAll(3);
  parts.plan.Adopt(*parts.plan.Propose(parts.config.pipelines));
  parts.plan.AddReady(parts.At(0, 0), Near(parts.At(1, 0).peer));
  EXPECT_FALSE(parts.plan.LansMoved()) << "one end alone does not count";
  parts.plan.AddReady(parts.At(1, 0), Near(parts.At(0, 0).peer));
  EXPECT_TRUE(parts.plan.LansMoved());
  parts.plan.PlanAgainForLans();
  parts.plan.Adopt(parts.plan.positions());
  EXPECT_EQ(parts.plan.lans().stages, (std::vector<std::vector<std::uint32_t>>{{1, 1, 0}}));
  parts.plan.AddReady(parts.At(2, 0), Near(parts.At(1, 0).peer));
  parts.plan.AddReady(parts.At(1, 0), Near(parts.At(2, 0).peer));
  EXPECT_FALSE(parts.plan.LansMoved()) << "a plan that was made for its LANs keeps them";
  parts.plan.ForgetRoundTrips(parts.At(0, 0).peer);
  parts.plan.Adopt(parts.plan.positions());
  EXPECT_EQ(parts.plan.lans().stages, (std::vector<std::vector<std::uint32_t>>{{0, 1, 1}}));
}

}  // namespace
}  // namespace shoal::scheduler
