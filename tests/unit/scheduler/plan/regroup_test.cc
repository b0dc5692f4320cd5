#include "scheduler/plan/regroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "scheduler/config/swarm_limits.h"

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;

PeerId Id(std::uint32_t number) {
  PeerId id;
  id.key[0] = static_cast<std::uint8_t>(number);
  id.key[31] = 1;
  return id;
}

BoundPeer InStep(std::uint32_t number, std::uint32_t pipeline, std::uint32_t stage) {
  return {Id(number), stage, pipeline, true, number};
}

BoundPeer Ready(std::uint32_t number, std::uint32_t stage) {
  return {Id(number), stage, std::nullopt, false, number};
}

TEST(Regroup, AWholePlanStaysAsItIs) {
  const auto plan =
      Regroup({InStep(1, 0, 0), InStep(2, 0, 1), InStep(3, 1, 0), InStep(4, 1, 1)}, 2, 2);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->positions, (PlacementPlan{{Id(1), Id(2)}, {Id(3), Id(4)}}));
  EXPECT_THAT(plan->Counting(), ElementsAre(0, 1));
}

TEST(Regroup, WhatIsLeftOfABrokenPipelineFollowsAtItsPlace) {
  const auto plan = Regroup({InStep(2, 0, 1), InStep(3, 1, 0), InStep(4, 1, 1)}, 2, 2);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->positions, (PlacementPlan{{PeerId{}, Id(2)}, {Id(3), Id(4)}}));
  EXPECT_TRUE(HasGap(plan->positions[0]));
  EXPECT_THAT(plan->Counting(), ElementsAre(1));
  EXPECT_EQ(plan->Whole(), 1u);
}

// One that follows already goes on with what it has got; a fresh one follows where copies are few.
TEST(Regroup, WhoMakesNoPipelineWholeFollowsWhereCopiesAreFew) {
  std::vector<BoundPeer> peers;
  for (std::uint32_t p = 0; p < 2; ++p) {
    for (std::uint32_t s = 0; s < 2; ++s) peers.push_back(InStep(10 * p + s + 1, p, s));
  }
  peers.push_back(Ready(90, 0));
  const auto few = Regroup(peers, 2, 64);
  ASSERT_TRUE(few);
  EXPECT_EQ(few->Whole(), 2u);
  EXPECT_THAT(few->shadows, ElementsAre(Id(90)));
  for (std::uint32_t p = 2; p < kCopiesWanted; ++p) {
    for (std::uint32_t s = 0; s < 2; ++s) peers.push_back(InStep(10 * p + s + 1, p, s));
  }
  const auto many = Regroup(peers, 2, 64);
  ASSERT_TRUE(many);
  EXPECT_EQ(many->positions.size(), kCopiesWanted);
  EXPECT_THAT(many->shadows, ElementsAre());
  std::ranges::find(peers, Id(90), &BoundPeer::peer)->pipeline = 7;
  const auto follows = Regroup(peers, 2, 64);
  ASSERT_TRUE(follows);
  EXPECT_EQ(follows->Whole(), kCopiesWanted);
  EXPECT_THAT(follows->shadows, ElementsAre(Id(90)));
}

TEST(Regroup, AReadyPeerMakesABrokenPipelineWholeAtItsPlace) {
  const auto plan = Regroup({InStep(2, 0, 1), InStep(3, 1, 0), InStep(4, 1, 1), Ready(9, 0)}, 2, 2);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->positions, (PlacementPlan{{Id(9), Id(2)}, {Id(3), Id(4)}}));
  EXPECT_THAT(plan->shadows, ElementsAre(Id(9)));
  EXPECT_THAT(plan->Counting(), ElementsAre(1));
}

TEST(Regroup, TwoBrokenPipelinesMakeOne) {
  const auto plan = Regroup({InStep(2, 0, 1), InStep(3, 1, 0)}, 2, 2);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->positions, (PlacementPlan{{Id(3), Id(2)}}));
  EXPECT_THAT(plan->Counting(), ElementsAre(0));
}

TEST(Regroup, AStageThatNobodyHoldsLeavesNoPlan) {
  EXPECT_FALSE(Regroup({InStep(1, 0, 0), Ready(2, 1)}, 2, 2));
  EXPECT_FALSE(Regroup({}, 1, 1));
}

// Of any peers: each at most once and at its stage, as many whole pipelines of peers in step and as
// many whole ones in all as counting by stage says, and nobody left out who holds something.
TEST(Regroup, HasAsManyPipelinesAsTheScarcestStageAllows) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto stages = static_cast<std::uint32_t>(1 + random() % 4);
    const auto most = static_cast<std::uint32_t>(1 + random() % 5);
    std::vector<BoundPeer> peers;
    std::vector<std::size_t> here(stages), in_step(stages);
    std::uint32_t number = 0;
    for (std::uint32_t p = 0; p < most; ++p) {
      for (std::uint32_t s = 0; s < stages; ++s) {
        if (random() % 4 == 0) continue;
        BoundPeer peer = InStep(++number, p, s);
        peer.in_step = random() % 5 > 0;
        in_step[s] += peer.in_step ? 1 : 0;
        ++here[s];
        peers.push_back(peer);
      }
    }
    for (auto spare = random() % 4; spare > 0; --spare) {
      peers.push_back(Ready(++number, static_cast<std::uint32_t>(random() % stages)));
      ++here[peers.back().stage];
    }
    std::ranges::shuffle(peers, random);
    const std::size_t whole = *std::ranges::min_element(in_step);
    const auto plan = Regroup(peers, stages, most);
    ASSERT_EQ(plan.has_value(), whole > 0);
    if (!plan) continue;
    EXPECT_EQ(plan->Whole(), std::min<std::size_t>(most, *std::ranges::min_element(here)));
    EXPECT_EQ(plan->Counting().size(), std::min<std::size_t>(most, whole));
    EXPECT_LE(plan->positions.size(), most);
    std::map<PeerId, int> seen;
    for (const auto& pipeline : plan->positions) {
      ASSERT_EQ(pipeline.size(), stages);
      for (std::uint32_t s = 0; s < stages; ++s) {
        if (pipeline[s] == PeerId{}) continue;
        const auto peer = std::ranges::find(peers, pipeline[s], &BoundPeer::peer);
        ASSERT_NE(peer, peers.end());
        EXPECT_EQ(peer->stage, s);
        EXPECT_EQ(plan->shadows.contains(peer->peer), !peer->in_step);
        EXPECT_EQ(++seen[peer->peer], 1);
      }
    }
    for (const BoundPeer& peer : peers) {
      const bool place = here[peer.stage] <= most;
      EXPECT_TRUE(!peer.pipeline || !place || seen.contains(peer.peer));
    }
  }
}

}  // namespace
}  // namespace shoal::scheduler
