// Peers that hold a stage of a pipeline that lacks another: they follow, and fill the next gap.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunConfig Long(std::uint32_t stages, std::uint32_t pipelines) {
  RunConfig config = SimConfig(stages, pipelines);
  config.steps = 200;
  config.checkpoint_every = 1000;
  config.train_rows = 5000;
  return config;
}

// Long after its pipeline broke: it had let go of its stage, and the other one's end was the end of
// all steps since the checkpoint.
TEST(FollowersTest, WhoIsLeftOfABrokenPipelineFollowsAndFillsTheNextGap) {
  for (const bool restarts : {false, true}) {
    SCOPED_TRACE(restarts);
    SimSwarm swarm(Long(3, 2), 508);
    for (int i = 0; i < 6; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 7; }));
    const std::size_t first = PeerAt(&swarm, 6, 0, 1), second = PeerAt(&swarm, 6, 1, 2);
    const std::size_t left = PeerAt(&swarm, 6, 0, 2), other = PeerAt(&swarm, 6, 1, 1);
    swarm.Kill(first);
    swarm.RunFor(std::chrono::seconds(10));
    EXPECT_EQ(swarm.Peer(left).plan.positions_size(), 5);
    EXPECT_FALSE(swarm.Peer(left).shadow);
    EXPECT_GE(swarm.Peer(left).applied + 1, swarm.Peer(other).applied);
    EXPECT_NE(swarm.Peer(left).pipeline, swarm.Peer(other).pipeline);
    EXPECT_THAT(swarm.View().reason, HasSubstr("1 of 2 pipelines train, since lost peer "));
    if (restarts) {
      swarm.RestartScheduler(true);
      ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
      EXPECT_EQ(swarm.Peer(left).plan.positions_size(), 5);
      EXPECT_FALSE(swarm.Peer(left).shadow);
    }
    const std::uint64_t reached = swarm.View().step;
    swarm.Kill(second);
    ASSERT_TRUE(
        swarm.RunUntil([&] { return swarm.View().step > reached + 2; }, std::chrono::minutes(1)));
    EXPECT_EQ(swarm.Peer(other).pipeline, swarm.Peer(left).pipeline);
    EXPECT_GE(swarm.Peer(left).plan.resume_step(), reached) << "no step is lost";
    swarm.Connect(first);
    swarm.Connect(second);
    ASSERT_TRUE(
        swarm.RunUntil([&] { return swarm.View().reason.empty(); }, std::chrono::minutes(2)));
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
    ExpectRightLosses(&swarm);
  }
}

// Neither the pipeline that leaves a step nor the scheduler that comes after this one makes those
// let go that follow.
TEST(FollowersTest, WhoFollowsOutlivesPipelinesThatLeaveAndTheScheduler) {
  SimSwarm swarm(Long(2, 3), 512);
  for (int i = 0; i < 6; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 7; }));
  const std::size_t follows = PeerAt(&swarm, 6, 0, 1);
  swarm.Kill(PeerAt(&swarm, 6, 0, 0));
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.Peer(follows).plan.positions_size() == 5; }));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  swarm.RunFor(std::chrono::seconds(3));
  const std::uint64_t generation = swarm.View().generation;
  swarm.RestartScheduler(true);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  swarm.RunFor(std::chrono::seconds(1));
  EXPECT_EQ(swarm.View().generation, generation) << "it goes on";
  EXPECT_EQ(swarm.Peer(follows).gone_on, 1u);
  // A whole pipeline leaves in the midst of a long step, then the other's peer of this stage goes
  // with the scheduler.
  swarm.backward_end = [](int) { return std::chrono::seconds(10); };
  swarm.RunFor(std::chrono::seconds(5));
  std::vector<std::size_t> whole;  // their peers of stage 1
  for (int p = 0; p < 3; ++p) {
    const std::size_t peer = PeerAt(&swarm, 6, p, 1);
    if (peer != follows) whole.push_back(peer);
  }
  ASSERT_EQ(whole.size(), 2u);
  swarm.Kill(whole[0]);
  swarm.Kill(PeerAt(&swarm, 6, swarm.Peer(whole[0]).pipeline, 0));
  swarm.RunFor(std::chrono::seconds(2));
  EXPECT_EQ(swarm.View().generation, generation);
  EXPECT_EQ(swarm.Peer(whole[1]).plans.begin()->second.amendment(), 1u);
  const std::uint64_t reached = swarm.View().step;
  swarm.RestartScheduler(false);
  for (std::size_t i = 0; i < 6; ++i) {
    if (swarm.Peer(i).alive && i != whole[1]) swarm.Connect(i);
  }
  swarm.backward_end = nullptr;
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.View().step > reached + 2; }, std::chrono::minutes(2)));
  EXPECT_GE(swarm.Peer(follows).plan.resume_step(), reached) << "no step is lost";
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRightLosses(&swarm);
}

// Its report is the last that lacks. What the others reported is judged as if it had come: a loss
// that is not finite was stored, and no later scheduler could read that.
TEST(FollowersTest, NobodyWaitsForTheReportOfAFollowerThatGoes) {
  for (const bool finite : {true, false}) {
    SCOPED_TRACE(finite);
    SimSwarm swarm(Long(2, 2), 513);
    for (int i = 0; i < 4; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 7; }));
    const std::size_t follows = PeerAt(&swarm, 4, 0, 1), last = PeerAt(&swarm, 4, 1, 1);
    swarm.Kill(PeerAt(&swarm, 4, 0, 0));
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.Peer(follows).plan.positions_size() == 3; }));
    ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
    swarm.RunFor(std::chrono::seconds(1));
    swarm.Peer(follows).filter = [](control::v1::PeerMessage* message) {
      return !message->has_step_ready();
    };
    swarm.RunFor(std::chrono::seconds(1));
    if (!finite) {
      swarm.Peer(last).filter = [](control::v1::PeerMessage* message) {
        if (message->has_step_ready()) message->mutable_step_ready()->set_loss_sum(std::nan(""));
        return true;
      };
      swarm.CutOff(last);  // and says it again
      swarm.Connect(last);
    }
    const std::uint64_t generation = swarm.View().generation, step = swarm.View().step;
    swarm.RunFor(std::chrono::seconds(2));
    EXPECT_EQ(swarm.View().step, step) << "its report lacks";
    swarm.Kill(follows);
    if (!finite) {
      ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
      EXPECT_THAT(swarm.View().reason, HasSubstr("the loss is not finite"));
      swarm.RestartScheduler(true);
      continue;
    }
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == step + 5; }));
    EXPECT_EQ(swarm.View().generation, generation);
    for (const auto& event : swarm.persisted()) {
      EXPECT_THAT(event, Not(HasSubstr("dealt_until"))) << "nobody does any of it again";
    }
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
    ExpectRightLosses(&swarm);
  }
}

// The pipeline that a spare was to make whole is not there any more: it comes in as a copy.
TEST(FollowersTest, AnOrderForAFurtherPipelineEndsWithWhoWasToMakeIt) {
  SimSwarm swarm(Long(2, 2), 514);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 7; }));
  const std::size_t follows = PeerAt(&swarm, 4, 0, 1);
  swarm.Kill(PeerAt(&swarm, 4, 0, 0));
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.Peer(follows).plan.positions_size() == 3; }));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::uint64_t generation = swarm.View().generation;
  swarm.backward_end = [](int) { return std::chrono::seconds(100); };
  swarm.RunFor(std::chrono::seconds(5));
  const std::size_t spare = swarm.AddPeer();
  swarm.RunFor(std::chrono::seconds(20));
  ASSERT_EQ(swarm.View().generation, generation);
  swarm.Kill(follows);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.Peer(spare).stage >= 0; }));
  const auto said = [&](const char* text) {
    return std::ranges::count_if(swarm.persisted(), [&](const std::string& event) {
      return event.find(text) != std::string::npos;
    });
  };
  EXPECT_EQ(said("peers for a further pipeline are here"), 0);
  EXPECT_EQ(said("a peer is here for one more copy of its stage"), 1);
}

// One spare makes no pipeline, but the run outlives the member whose stage it has, too.
TEST(FollowersTest, ASpareAloneBecomesACopyOfAStage) {
  SimSwarm swarm(Long(2, 2), 509);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 7; }));
  const std::size_t lower = PeerAt(&swarm, 4, 0, 0), upper = PeerAt(&swarm, 4, 0, 1);
  const std::size_t other = PeerAt(&swarm, 4, 1, 0);
  swarm.Kill(lower);
  swarm.Kill(upper);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.Peer(other).plan.positions_size() == 2; }));
  const std::size_t spare = swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.Peer(spare).stage >= 0; }));
  EXPECT_TRUE(swarm.Peer(spare).shadow);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  EXPECT_THAT(swarm.View().reason, HasSubstr("gets its stage from its group"));
  swarm.RunFor(std::chrono::seconds(8));
  EXPECT_THAT(swarm.View().reason, Not(HasSubstr("gets its stage")));
  EXPECT_THAT(swarm.View().reason, HasSubstr("follows the others until its pipeline is whole"));
  const std::uint64_t reached = swarm.View().step;
  swarm.Kill(PeerAt(&swarm, 4, swarm.Peer(other).pipeline, swarm.Peer(spare).stage));
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.View().step > reached + 2; }, std::chrono::minutes(1)));
  EXPECT_GE(swarm.Peer(spare).plan.resume_step(), reached) << "no step is lost";
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRightLosses(&swarm);
}

}  // namespace
}  // namespace shoal::scheduler
