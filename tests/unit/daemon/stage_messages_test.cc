#include "daemon/stage_messages.h"

#include <gtest/gtest.h>

namespace shoal::daemon {
namespace {

using Lans = std::vector<std::uint32_t>;

void Add(std::uint32_t pipeline, std::uint32_t stage, std::uint32_t lan, std::uint32_t shared,
         control::v1::Plan* plan) {
  control::v1::Position* position = plan->add_positions();
  position->set_pipeline(pipeline);
  position->set_stage(stage);
  position->set_peer(std::string(sizeof(PeerId::key), 'p'));
  position->set_lan(lan);
  position->set_shared_lan(shared);
}

control::v1::Plan PlanOf(std::uint32_t pipelines) {
  control::v1::Plan plan;
  plan.mutable_config()->set_pipelines(pipelines);
  plan.mutable_config()->set_stages(2);
  return plan;
}

TEST(StageMessagesTest, LansAreOfTheOwnStageAndOfThoseThatShareTensors) {
  control::v1::Plan plan = PlanOf(3);
  Add(2, 0, 1, 2, &plan);  // in any order
  Add(0, 0, 1, 0, &plan);
  Add(1, 0, 0, 1, &plan);
  Add(0, 1, 0, 0, &plan);
  Add(1, 1, 0, 2, &plan);
  Add(2, 1, 0, 1, &plan);
  EXPECT_EQ(LansOf(plan, 0), (Lans{1, 0, 1}));
  EXPECT_TRUE(LansOf(plan, 1).empty()) << "nobody shares one there";
  EXPECT_EQ(SharedLansOf(plan, {0, 1}), (Lans{0, 1, 2, 0, 2, 1}));
  EXPECT_TRUE(SharedLansOf(plan, {}).empty());
  EXPECT_EQ(LanNeighbours(plan, plan.positions(0)), (Lans{2, 0}));
  EXPECT_TRUE(LanNeighbours(plan, plan.positions(2)).empty());
  EXPECT_TRUE(SharedLansOf(PlanOf(2), {0, 1}).empty());
}

TEST(StageMessagesTest, AStepPlanSaysWhoIsLost) {
  control::v1::StepPlan plan;
  plan.set_step(3);
  plan.add_pipelines()->add_micro_batches()->add_samples(7);
  plan.add_pipelines();
  control::v1::Position* const lost = plan.add_lost();
  lost->set_pipeline(1);
  lost->set_stage(2);
  const pipeline::StepPlan step = ToStepPlan(plan, {}, PlanOf(2).config(), {});
  ASSERT_EQ(step.lost.size(), 1u);
  EXPECT_EQ(step.lost[0].pipeline, 1u);
  EXPECT_EQ(step.lost[0].stage, 2u);
  EXPECT_EQ(step.counting, (std::vector<std::uint32_t>{0}));
}

TEST(StageMessagesTest, ABrokenLinkIsNamedOnce) {
  PeerId peer;
  peer.key.fill(0xbe);
  const std::string link = "the link to peer bebebebe";
  const auto text = [&](const Status& status) {
    return LinkBrokenText(LinkBrokenMessage(3, status, peer).link_broken(), peer);
  };
  EXPECT_EQ(text(Unavailable("nothing came")), link + " broke: nothing came");
  EXPECT_EQ(text(Unavailable(link + " (stage 1) broke: reset")), link + " (stage 1) broke: reset");
  EXPECT_EQ(text(InvalidArgument("a frame")), "what peer bebebebe sent cannot be right: a frame");
}

// A scheduler's mistake must not write where there is nothing.
TEST(StageMessagesTest, PipelinesThatThereAreNotDoNotCount) {
  control::v1::Plan plan = PlanOf(2);
  Add(0xffffffff, 0, 7, 7, &plan);
  Add(2, 1, 7, 7, &plan);
  EXPECT_TRUE(LansOf(plan, 0).empty());
  EXPECT_TRUE(SharedLansOf(plan, {0, 1}).empty());
}

net::LinkStats Link(std::uint8_t peer, const char* channel, double ms, std::uint32_t pings) {
  net::LinkStats link;
  link.peer.key[0] = peer;
  link.channel = channel;
  link.rtt_min_ms = ms;
  link.pings = pings;
  return link;
}

TEST(StageMessagesTest, RoundTripsAreTheLeastOfAPeersGroupLinks) {
  control::v1::PlanReady ready;
  AddRoundTrips({Link(1, "boundary/0/0", 0.1, 9), Link(2, "group/0/0-1", 3, 9),
                 Link(2, "shared/0.0-1.1", 2, 9), Link(3, "group/0/0-2", 0, 0)},
                &ready);
  ASSERT_EQ(ready.round_trips_size(), 1) << "the boundary does not count, nor what has no answer";
  EXPECT_EQ(ToPeerId(ready.round_trips(0).peer()).key[0], 2);
  EXPECT_EQ(ready.round_trips(0).ms(), 2);
}

control::v1::Plan PlanOfTwo() {
  control::v1::Plan plan;
  control::v1::RunConfig* run = plan.mutable_config();
  run->set_stages(2);
  run->set_pipelines(1);
  run->set_micro_batches(4);
  run->set_micro_batch_rows(2);
  run->set_row_tokens(16);
  run->set_train_rows(100);
  for (std::uint32_t stage = 0; stage < 2; ++stage) Add(0, stage, 0, 0, &plan);
  return plan;
}

// 2^32 - 1 pipelines ended a peer, as many micro-batches stopped its control thread.
TEST(CheckPlanTest, NumbersBeyondAnyRunAreRefusedBeforeTheyAreUsed) {
  EXPECT_TRUE(CheckPlan(PlanOfTwo()).ok());
  using Setter = void (control::v1::RunConfig::*)(std::uint32_t);
  for (const Setter set :
       {Setter(&control::v1::RunConfig::set_stages), Setter(&control::v1::RunConfig::set_pipelines),
        Setter(&control::v1::RunConfig::set_micro_batches),
        Setter(&control::v1::RunConfig::set_micro_batch_rows),
        Setter(&control::v1::RunConfig::set_row_tokens)}) {
    for (const std::uint32_t value : {0u, 0xffffffffu}) {
      control::v1::Plan plan = PlanOfTwo();
      (plan.mutable_config()->*set)(value);
      EXPECT_EQ(CheckPlan(plan).code(), StatusCode::kInvalidArgument);
    }
  }
  control::v1::Plan plan = PlanOfTwo();
  plan.mutable_config()->set_train_rows(std::uint64_t{1} << 40);
  EXPECT_FALSE(CheckPlan(plan).ok());
}

TEST(CheckPlanTest, APeerHasAFewAddressesOfSomeLength) {
  control::v1::Plan plan = PlanOfTwo();
  auto* const addresses = plan.mutable_positions(1)->mutable_addresses();
  for (int i = 0; i < 32; ++i) *addresses->Add() = std::string(300, 'a');
  EXPECT_TRUE(CheckPlan(plan).ok());
  addresses->at(31) += 'a';
  EXPECT_FALSE(CheckPlan(plan).ok()) << "too long";
  addresses->at(31).clear();
  EXPECT_FALSE(CheckPlan(plan).ok()) << "empty";
  addresses->at(31) = "a";
  *addresses->Add() = "a";
  EXPECT_FALSE(CheckPlan(plan).ok()) << "too many";
}

TEST(CheckPlanTest, OnePipelineIsWholeAndOthersMayHaveGaps) {
  control::v1::Plan plan = PlanOfTwo();
  plan.mutable_config()->set_pipelines(3);
  Add(2, 1, 0, 0, &plan);
  EXPECT_TRUE(CheckPlan(plan).ok());
  EXPECT_TRUE(IsWhole(plan, 0));
  EXPECT_FALSE(IsWhole(plan, 1));
  EXPECT_FALSE(IsWhole(plan, 2));
  plan.mutable_positions(0)->set_pipeline(1);
  EXPECT_FALSE(CheckPlan(plan).ok()) << "none is whole";
}

TEST(StageMessagesTest, ShadowsAreCountedInTheirStage) {
  control::v1::Plan plan = PlanOfTwo();
  plan.mutable_config()->set_pipelines(3);
  for (const std::uint32_t pipeline : {1, 2}) Add(pipeline, 1, 0, 0, &plan);
  plan.mutable_positions(3)->set_shadow(true);
  EXPECT_EQ(ShadowsOf(plan, 0), 0u);
  EXPECT_EQ(ShadowsOf(plan, 1), 1u);
  EXPECT_EQ(HoldersOf(plan, 0), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(HoldersOf(plan, 1), (std::vector<std::uint32_t>{0, 1}));
}

TEST(CheckPlanTest, AStageOfAPipelineHasOnePlace) {
  control::v1::Plan plan = PlanOfTwo();
  plan.mutable_positions(1)->set_stage(0);
  EXPECT_FALSE(CheckPlan(plan).ok()) << "twice";
  plan = PlanOfTwo();
  plan.mutable_positions(1)->set_pipeline(1);
  EXPECT_FALSE(CheckPlan(plan).ok()) << "of no pipeline";
  plan = PlanOfTwo();
  plan.mutable_positions()->RemoveLast();
  EXPECT_FALSE(CheckPlan(plan).ok()) << "missing, of the only pipeline";
  plan = PlanOfTwo();
  plan.mutable_positions(1)->set_peer("x");
  EXPECT_FALSE(CheckPlan(plan).ok()) << "no identity";
}

}  // namespace
}  // namespace shoal::daemon
