// Members come and go between two steps: fewer pipelines, newcomers, shadows.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "scheduler/config/swarm_limits.h"
#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {
namespace {

using control::v1::PeerMessage;
using ::testing::HasSubstr;

RunConfig Long(std::uint32_t stages, std::uint32_t pipelines) {
  RunConfig config = SimConfig(stages, pipelines);
  config.steps = 200;
  config.checkpoint_every = 1000;
  config.train_rows = 5000;
  return config;
}

// Pipelines that computed micro-batches in the newest step that this peer has a plan of.
std::size_t Counting(const SimPeer& peer) {
  std::size_t count = 0;
  if (peer.plans.empty()) return 0;
  for (const auto& pipeline : peer.plans.begin()->second.pipelines()) {
    count += pipeline.micro_batches_size() > 0 ? 1 : 0;
  }
  return count;
}

TEST(NewcomersTest, WithoutASpareTheOthersGoOnAtOnce) {
  SimSwarm swarm(Long(2, 2), 501);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 7; }));
  const std::size_t victim = PeerAt(&swarm, 4, 0, 1), other = PeerAt(&swarm, 4, 1, 0);
  swarm.Kill(victim);
  const std::uint64_t reached = swarm.View().step;
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.View().generation == 2; }, std::chrono::seconds(4)));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::seconds(4)));
  EXPECT_GE(swarm.View().step, reached);
  EXPECT_EQ(swarm.Peer(other).plan.positions_size(), 3) << "one only follows";
  EXPECT_TRUE(swarm.Peer(other).plan.in_place());
  swarm.RunFor(std::chrono::seconds(5));
  EXPECT_EQ(Counting(swarm.Peer(other)), 1u);
  EXPECT_THAT(swarm.View().reason, HasSubstr("1 of 2 pipelines train, since lost peer "));
  EXPECT_THAT(swarm.View().reason, HasSubstr(swarm.Peer(victim).name));
  EXPECT_THAT(swarm.View().reason, HasSubstr("1 more peer is wanted for all"));
  EXPECT_EQ(Counting(swarm.Peer(other)), 1u);
  // It grows again when the peer comes back, at the end of a step, and no step is repeated.
  swarm.Connect(victim);
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.View().generation == 3; }, std::chrono::minutes(1)));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::seconds(4)));
  EXPECT_THAT(swarm.View().reason, HasSubstr("1 of 2 pipelines train, since lost peer "));
  EXPECT_THAT(swarm.View().reason, HasSubstr("gets its stage from its group"));
  ASSERT_TRUE(
      swarm.RunUntil([&] { return Counting(swarm.Peer(other)) == 2; }, std::chrono::minutes(1)));
  EXPECT_EQ(swarm.Peer(other).plan.config().pipelines(), 2u);
  swarm.RunFor(std::chrono::seconds(2));
  EXPECT_EQ(swarm.View().reason, "");
  EXPECT_EQ(swarm.View().checkpoint_step, 0u);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRightLosses(&swarm);
}

std::set<std::uint32_t> MicroBatchesOf(const SimPeer& peer) {
  std::set<std::uint32_t> micro_batches;
  const auto& plan = peer.plans.rbegin()->second;
  for (const auto& batch : plan.pipelines(peer.pipeline).micro_batches()) {
    micro_batches.insert(batch.global_index());
  }
  return micro_batches;
}

// So that m of their samples is where they are computed next.
TEST(NewcomersTest, PipelinesKeepTheirMicroBatchesWhenOthersComeAndGo) {
  RunConfig config = Long(2, 4);
  config.micro_batches = 16;
  SimSwarm swarm(config, 507);
  for (int i = 0; i < 8; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 7; }));
  const std::size_t victim = PeerAt(&swarm, 8, 1, 0);
  std::map<std::size_t, std::set<std::uint32_t>> before;
  for (const int pipeline : {0, 2, 3}) {
    const std::size_t peer = PeerAt(&swarm, 8, pipeline, 1);
    before[peer] = MicroBatchesOf(swarm.Peer(peer));
    EXPECT_EQ(before[peer].size(), 4u);
  }
  const auto keep_theirs = [&](std::size_t all) {
    std::size_t found = 0;
    for (const auto& [peer, micro_batches] : before) {
      const auto now = MicroBatchesOf(swarm.Peer(peer));
      EXPECT_TRUE(std::ranges::includes(now, micro_batches));
      found += now.size();
    }
    EXPECT_EQ(found, all);
  };
  swarm.Kill(victim);
  ASSERT_TRUE(swarm.RunUntil([&] { return Counting(swarm.Peer(before.begin()->first)) == 3; }));
  swarm.RunFor(std::chrono::seconds(5));
  EXPECT_EQ(swarm.Peer(before.begin()->first).plan.positions_size(), 7);
  keep_theirs(16);
  // Nor does a scheduler that comes after this one deal them out otherwise.
  swarm.RestartScheduler(true);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  swarm.RunFor(std::chrono::seconds(5));
  keep_theirs(16);
  swarm.Connect(victim);
  ASSERT_TRUE(swarm.RunUntil([&] { return Counting(swarm.Peer(before.begin()->first)) == 4; }));
  keep_theirs(12);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRightLosses(&swarm);
}

RunConfig Local(std::uint32_t pipelines, std::uint64_t checkpoint_every = 1000) {
  RunConfig config = Long(2, pipelines);
  config.replica_method = "average:local_steps=4";
  config.checkpoint_every = checkpoint_every;
  return config;
}

// So many peers come, and make so many steps.
void Train(SimSwarm* swarm, int peers, std::uint64_t steps) {
  for (int i = 0; i < peers; ++i) swarm->AddPeer();
  ASSERT_TRUE(swarm->RunUntil([&] { return swarm->View().step == steps; }));
}

// Between two syncs pipelines differ: those that are whole go on, and more come with a checkpoint.
TEST(LocalStepsTest, APipelineThatIsWholeGoesOnWithoutTheOther) {
  SimSwarm swarm(Local(2), 511);
  Train(&swarm, 4, 7);
  const std::size_t victim = PeerAt(&swarm, 4, 0, 1), other = PeerAt(&swarm, 4, 1, 0);
  swarm.Kill(victim);
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.View().generation == 2; }, std::chrono::seconds(4)));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::seconds(4)));
  EXPECT_GE(swarm.View().step, 7u);
  EXPECT_TRUE(swarm.Peer(other).plan.in_place());
  EXPECT_EQ(swarm.Peer(other).plan.config().pipelines(), 1u);
  swarm.RunFor(std::chrono::seconds(10));
  EXPECT_THAT(swarm.View().reason, HasSubstr("1 of 2 pipelines train, since lost peer "));
  const std::uint64_t reached = swarm.View().step;
  EXPECT_GT(reached, 12u);
  EXPECT_EQ(swarm.View().checkpoint_step, 0u);
  swarm.Connect(victim);
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.View().generation == 3; }, std::chrono::minutes(1)));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::seconds(10)));
  EXPECT_GE(swarm.View().checkpoint_step, reached);
  EXPECT_FALSE(swarm.Peer(other).plan.in_place());
  EXPECT_EQ(swarm.Peer(other).plan.config().pipelines(), 2u);
  EXPECT_EQ(swarm.Peer(other).plan.resume_step(), swarm.View().checkpoint_step);
  swarm.RunFor(std::chrono::seconds(5));
  EXPECT_EQ(swarm.View().generation, 3u);
  EXPECT_EQ(swarm.View().reason, "");
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRightLosses(&swarm);
}

// One member of each is left of a stage, but these are of two pipelines.
TEST(LocalStepsTest, NobodyStandsInForAMemberOfAnotherPipeline) {
  SimSwarm swarm(Local(2, 8), 512);
  Train(&swarm, 4, 14);
  EXPECT_EQ(swarm.View().checkpoint_step, 8u);
  const std::size_t upper = PeerAt(&swarm, 4, 0, 1), lower = PeerAt(&swarm, 4, 1, 0);
  swarm.Kill(PeerAt(&swarm, 4, 0, 0));
  swarm.Kill(PeerAt(&swarm, 4, 1, 1));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused, std::chrono::seconds(10)));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::minutes(1)));
  EXPECT_FALSE(swarm.Peer(lower).plan.in_place());
  EXPECT_EQ(swarm.Peer(lower).plan.resume_step(), 8u);
  EXPECT_TRUE(swarm.Peer(lower).closings.empty());
  EXPECT_EQ(swarm.Peer(upper).plan.config().pipelines(), 1u) << "with whom there is";
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRightLosses(&swarm);
}

TEST(LocalStepsTest, WhatIsLeftOfTwoPipelinesMakesNone) {
  SimSwarm swarm(Local(3), 515);
  Train(&swarm, 6, 7);
  const std::size_t other = PeerAt(&swarm, 6, 1, 0);
  swarm.Kill(PeerAt(&swarm, 6, 0, 0));
  swarm.Kill(PeerAt(&swarm, 6, 2, 1));
  swarm.RunFor(std::chrono::seconds(1));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::seconds(4)));
  EXPECT_GE(swarm.View().step, 7u);
  EXPECT_TRUE(swarm.Peer(other).plan.in_place());
  EXPECT_EQ(swarm.Peer(other).plan.config().pipelines(), 1u);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRightLosses(&swarm);
}

// A generation that always fails at the same step: the weights of one pipeline make a checkpoint.
TEST(LocalStepsTest, WhatAWholePipelineHoldsIsSavedWhereItCannotGoOn) {
  SimSwarm swarm(Local(2), 516);
  Train(&swarm, 4, 7);
  for (std::uint64_t generation = 1; generation <= 1 + kInPlaceTries; ++generation) {
    // Each time somebody else, of whom no complaint came before.
    const int pipeline = static_cast<int>(generation % 2), stage = generation > 2 ? 1 : 0;
    const std::size_t teller = PeerAt(&swarm, 4, pipeline, stage);
    ASSERT_TRUE(swarm.RunUntil([&] {
      return swarm.Peer(teller).generation == generation &&
             swarm.View().state == RunState::kTraining;
    }));
    if (generation > 1) {
      EXPECT_TRUE(swarm.Peer(teller).plan.in_place());
      EXPECT_EQ(swarm.View().step, swarm.Peer(teller).plan.resume_step()) << "the same step";
    }
    const PeerId neighbour = swarm.Peer(PeerAt(&swarm, 4, pipeline, 1 - stage)).id;
    PeerMessage message;
    message.mutable_link_broken()->set_generation(generation);
    message.mutable_link_broken()->set_peer(neighbour.key.data(), neighbour.key.size());
    message.mutable_link_broken()->set_error("reset");
    swarm.Say(teller, message);
  }
  const SimPeer& peer = swarm.Peer(PeerAt(&swarm, 4, 0, 0));
  ASSERT_TRUE(swarm.RunUntil([&] { return peer.generation == 2 + kInPlaceTries; }))
      << swarm.View().reason;
  EXPECT_FALSE(peer.plan.in_place());
  EXPECT_GE(peer.plan.resume_step(), 7u);
  std::set<std::size_t> savers;
  for (std::size_t i = 0; i < 4; ++i) {
    if (!swarm.Peer(i).closings.empty()) savers.insert(i);
  }
  EXPECT_EQ(savers, (std::set{PeerAt(&swarm, 4, 0, 0), PeerAt(&swarm, 4, 0, 1)}));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRightLosses(&swarm);
}

// It is tried again, later each time; meanwhile the run goes on as before.
TEST(LocalStepsTest, APeerThatCannotLoadDoesNotHoldTheRun) {
  RunConfig config = Local(2);
  config.steps = 3000;
  config.train_rows = 50000;
  SimSwarm swarm(config, 517);
  Train(&swarm, 4, 7);
  const std::size_t other = PeerAt(&swarm, 4, 1, 0);
  swarm.Kill(PeerAt(&swarm, 4, 0, 1));
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().generation == 2; }));
  const std::size_t spare = swarm.AddPeer();
  swarm.Peer(spare).filter = [](PeerMessage* message) {
    if (!message->has_plan_ready()) return true;
    const std::uint64_t generation = message->plan_ready().generation();
    message->mutable_plan_failed()->set_generation(generation);
    message->mutable_plan_failed()->set_error("resource exhausted: no memory");
    return true;
  };
  std::uint64_t reached = swarm.View().step;
  for (int minute = 0; minute < 10; ++minute) {
    swarm.RunFor(std::chrono::minutes(1));
    EXPECT_GT(swarm.View().step, reached + 20) << minute;
    reached = swarm.View().step;
  }
  EXPECT_LE(swarm.View().generation, 16u);
  EXPECT_LE(swarm.checkpoints().size(), 8u);
  EXPECT_EQ(swarm.Peer(other).plan.config().pipelines(), 1u);
  swarm.Peer(spare).filter = nullptr;
  ASSERT_TRUE(swarm.RunUntil([&] { return Counting(swarm.Peer(other)) == 2; }));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRightLosses(&swarm);
}

// Not of all pipelines that the run wants: nobody waits for more.
TEST(LocalStepsTest, ASecondOfThreePipelinesComesInAtOnce) {
  SimSwarm swarm(Local(3), 518);
  Train(&swarm, 6, 7);
  const std::size_t back = PeerAt(&swarm, 6, 0, 0), other = PeerAt(&swarm, 6, 1, 0);
  swarm.Kill(back);
  swarm.Kill(PeerAt(&swarm, 6, 2, 1));
  swarm.RunFor(std::chrono::seconds(3));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::seconds(4)));
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.Peer(other).plan.config().pipelines() == 2; },
                             std::chrono::seconds(10)))
      << "of those who are left";
  const std::uint64_t generation = swarm.View().generation;
  swarm.Connect(back);
  swarm.RunFor(std::chrono::seconds(30));
  EXPECT_EQ(swarm.View().generation, generation) << "five are no third";
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRightLosses(&swarm);
}

TEST(LocalStepsTest, ASchedulerThatComesBackLosesNoStepWithoutAPeer) {
  SimSwarm swarm(Local(3), 513);
  Train(&swarm, 6, 7);
  const std::size_t victim = PeerAt(&swarm, 6, 1, 1), other = PeerAt(&swarm, 6, 2, 0);
  swarm.Kill(victim);
  const std::uint64_t held = swarm.Peer(other).applied;
  swarm.RestartScheduler(true);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::seconds(30)));
  EXPECT_GE(swarm.View().step, held);
  EXPECT_TRUE(swarm.Peer(other).plan.in_place());
  EXPECT_EQ(swarm.Peer(other).plan.config().pipelines(), 2u);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRightLosses(&swarm);
}

// The checkpoint that it waits for is also how a spare comes in.
TEST(LocalStepsTest, WhoLeavesIsReplacedWithOneCheckpoint) {
  SimSwarm swarm(Local(2), 514);
  Train(&swarm, 5, 7);
  const std::size_t leaver = PeerAt(&swarm, 5, 0, 1), other = PeerAt(&swarm, 5, 1, 0);
  PeerMessage message;
  message.mutable_handing_over()->set_reason("its owner wants it back");
  swarm.Say(leaver, message);
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.View().generation == 2; }, std::chrono::minutes(1)));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::seconds(10)));
  EXPECT_EQ(swarm.Peer(other).plan.config().pipelines(), 2u);
  EXPECT_EQ(swarm.Peer(other).plan.resume_step(), swarm.View().checkpoint_step);
  EXPECT_EQ(swarm.Peer(leaver).stage, -1);
  EXPECT_EQ(swarm.checkpoints().size(), 1u);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().generation, 2u);
  ExpectRightLosses(&swarm);
}

// A run waits for all of its pipelines, unless somebody wants it to begin.
TEST(NewcomersTest, AnOrderStartsARunWithFewerPipelines) {
  SimSwarm swarm(Long(2, 2), 506);
  for (int i = 0; i < 3; ++i) swarm.AddPeer();
  swarm.RunFor(std::chrono::minutes(1));
  EXPECT_EQ(swarm.View().state, RunState::kWaiting);
  EXPECT_THAT(swarm.View().reason, HasSubstr("waiting for 1 more peer (3 of 4 are here), or begin "
                                             "with fewer pipelines: shoal swarm start"));
  swarm.Order(AdminCommand::Kind::kStart);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::seconds(30)));
  EXPECT_EQ(swarm.Peer(0).plan.config().pipelines(), 1u);
  const std::size_t late = swarm.AddPeer();
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.Peer(late).stage >= 0 && swarm.View().reason.empty(); },
                     std::chrono::minutes(1)));
  EXPECT_EQ(swarm.Peer(0).plan.config().pipelines(), 2u);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRightLosses(&swarm);
}

// What is left of two broken pipelines makes one.
TEST(NewcomersTest, PeersOfBrokenPipelinesFormANewOne) {
  SimSwarm swarm(Long(2, 2), 502);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 7; }));
  const std::size_t upper = PeerAt(&swarm, 4, 0, 1), lower = PeerAt(&swarm, 4, 1, 0);
  swarm.Kill(PeerAt(&swarm, 4, 0, 0));
  swarm.Kill(PeerAt(&swarm, 4, 1, 1));
  const std::uint64_t reached = swarm.View().step;
  ASSERT_TRUE(swarm.RunUntil(
      [&] {
        const SimPeer& peer = swarm.Peer(lower);
        return peer.plan.positions_size() == 2 && swarm.View().state == RunState::kTraining;
      },
      std::chrono::seconds(20)));
  EXPECT_GE(swarm.View().step, reached);
  EXPECT_EQ(PeerAt(&swarm, 4, 0, 0), lower);
  EXPECT_EQ(PeerAt(&swarm, 4, 0, 1), upper);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRightLosses(&swarm);
}

// Nothing is held after both members of a stage died: from the checkpoint, with whom there is.
TEST(NewcomersTest, FewerPipelinesAlsoBeginFromACheckpoint) {
  RunConfig config = Long(2, 2);
  config.checkpoint_every = 5;
  SimSwarm swarm(config, 503);
  for (int i = 0; i < 5; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().checkpoint_step == 5; }));
  swarm.Kill(PeerAt(&swarm, 5, 0, 0));
  swarm.Kill(PeerAt(&swarm, 5, 1, 0));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused, std::chrono::seconds(10)));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::seconds(40)));
  EXPECT_GE(swarm.View().step, 5u);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRightLosses(&swarm);
}

// A shadow whose weights come out different is nobody's member; the run goes on as before.
TEST(NewcomersTest, WhoGetsItsStageWrongNeverCounts) {
  RunConfig config = Long(2, 2);
  config.steps = 100;
  SimSwarm swarm(config, 504);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 7; }));
  const std::size_t victim = PeerAt(&swarm, 4, 0, 1);
  swarm.Kill(victim);
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.View().generation == 2; }, std::chrono::seconds(10)));
  const std::size_t liar = swarm.AddPeer();
  swarm.Peer(liar).corrupt = true;
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.Peer(liar).shadow; }, std::chrono::minutes(1)));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused, std::chrono::minutes(1)));
  EXPECT_THAT(swarm.View().reason, HasSubstr("computes something else with it"));
  while (swarm.View().state != RunState::kFinished && swarm.View().state != RunState::kPaused) {
    swarm.RunFor(std::chrono::seconds(1));
    for (std::size_t i = 0; i < 4; ++i) EXPECT_LE(Counting(swarm.Peer(i)), 1u);
  }
  ExpectRightLosses(&swarm);
}

// The first step of a peer's plans in which its pipeline has micro-batches.
std::optional<std::uint64_t> FirstStepOf(const SimPeer& peer) {
  for (const auto& [step, plan] : peer.plans) {
    if (!plan.pipelines(peer.pipeline).micro_batches().empty()) return step;
  }
  return std::nullopt;
}

// A swarm of two pipelines one of whose peers has come back, and gets its stage.
std::size_t AddShadow(SimSwarm* swarm) {
  swarm->catch_up = std::chrono::milliseconds(5500);
  swarm->backward_end = [](int) { return std::chrono::seconds(3); };
  for (int i = 0; i < 4; ++i) swarm->AddPeer();
  EXPECT_TRUE(swarm->RunUntil([&] { return swarm->View().step == 3; }));
  const std::size_t shadow = PeerAt(swarm, 4, 0, 1);
  swarm->Kill(shadow);
  swarm->RunFor(std::chrono::seconds(1));
  swarm->Connect(shadow);
  EXPECT_TRUE(swarm->RunUntil([&] { return swarm->Peer(shadow).shadow; }, std::chrono::minutes(1)));
  EXPECT_TRUE(
      swarm->RunUntil([&] { return !swarm->Peer(shadow).shadow; }, std::chrono::minutes(1)));
  return shadow;
}

// Its weights are judged after the step at hand; the next one has begun by then.
TEST(NewcomersTest, WhoHasCaughtUpCountsFromTheSecondStepOn) {
  for (const std::uint64_t seed : {511, 512, 513, 514}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SimSwarm swarm(Long(2, 2), seed);
    const SimPeer& peer = swarm.Peer(AddShadow(&swarm));
    const std::uint64_t step = peer.applied;
    ASSERT_TRUE(
        swarm.RunUntil([&] { return FirstStepOf(peer).has_value(); }, std::chrono::minutes(1)));
    EXPECT_EQ(*FirstStepOf(peer), step + 2);
    // Plans are as far ahead as ever then.
    swarm.RunFor(std::chrono::seconds(1));
    EXPECT_EQ(peer.plans.rbegin()->first, peer.applied + kStepPlansAhead - 1);
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
    ExpectRightLosses(&swarm);
  }
}

TEST(NewcomersTest, NoStepWaitsForAVerdictThatDoesNotCome) {
  SimSwarm swarm(Long(2, 2), 515);
  const std::size_t shadow = AddShadow(&swarm);
  const SimPeer& peer = swarm.Peer(shadow);
  const std::uint64_t step = peer.applied;
  swarm.Peer(shadow).filter = [](control::v1::PeerMessage* message) {
    return !message->has_applied();
  };
  const TimePoint before = swarm.now();
  ASSERT_TRUE(swarm.RunUntil([&] { return peer.applied == step + 10; }, std::chrono::minutes(2)));
  EXPECT_LT(swarm.now() - before, std::chrono::seconds(45));  // 10 steps of 3 s and a little
  EXPECT_EQ(FirstStepOf(peer), std::nullopt);
}

// However many go within a step, and though none is made meanwhile: who is left holds everything.
TEST(NewcomersTest, DeathAfterDeathWithinAStepLosesNothing) {
  SimSwarm swarm(Long(1, 6), 508);
  for (int i = 0; i < 6; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 7; }));
  swarm.backward_end = [](int) { return std::chrono::minutes(1); };
  swarm.RunFor(std::chrono::seconds(1));
  const std::uint64_t reached = swarm.View().step;
  for (std::uint64_t death = 0; death < 5; ++death) {
    swarm.Kill(PeerAt(&swarm, 6, 0, 0));
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().generation == death + 2; },
                               std::chrono::seconds(5)));
    ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::seconds(5)));
    swarm.RunFor(std::chrono::seconds(1));
    EXPECT_EQ(swarm.View().step, reached);
  }
  swarm.backward_end = nullptr;
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().generation, 6u);
  ExpectRightLosses(&swarm);
}

// Each newcomer interrupts the others for a moment: one that never gets as far waits longer.
TEST(NewcomersTest, AShadowThatGoesWaitsLongerEachTime) {
  SimSwarm swarm(Long(2, 2), 507);
  swarm.catch_up = std::chrono::minutes(10);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 7; }));
  swarm.Kill(PeerAt(&swarm, 4, 0, 1));
  const std::size_t flaky = swarm.AddPeer();
  for (int time = 0; time < 4; ++time) {
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.Peer(flaky).shadow; }, std::chrono::minutes(2)));
    swarm.Kill(flaky);
    const TimePoint gone = swarm.now();
    swarm.RunFor(std::chrono::seconds(1));
    swarm.Connect(flaky);
    ASSERT_TRUE(
        swarm.RunUntil([&] { return swarm.Peer(flaky).prepared >= 0; }, std::chrono::minutes(2)));
    EXPECT_GE(swarm.now() - gone, kPrepareAgainFirst * (1 << time));
  }
}

// Who leaves hands over at the end of a step: no checkpoint, and no step is begun again.
TEST(NewcomersTest, WhoLeavesCostsNoStep) {
  SimSwarm swarm(Long(2, 2), 505);
  for (int i = 0; i < 5; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 7; }));
  const std::size_t leaver = PeerAt(&swarm, 5, 0, 1), other = PeerAt(&swarm, 5, 1, 0);
  PeerMessage message;
  message.mutable_handing_over()->set_reason("its owner wants it back");
  swarm.Say(leaver, message);
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.View().generation == 2; }, std::chrono::seconds(5)));
  swarm.RunFor(std::chrono::milliseconds(500));
  EXPECT_THAT(swarm.Peer(leaver).last_abort, HasSubstr("its owner wants it back"));
  EXPECT_EQ(swarm.View().checkpoint_step, 0u);
  EXPECT_TRUE(swarm.Peer(other).closings.empty());
  ASSERT_TRUE(
      swarm.RunUntil([&] { return Counting(swarm.Peer(other)) == 2; }, std::chrono::minutes(1)));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRightLosses(&swarm);
}

// Peers die, come back and stay away, also while they are shadows, and the scheduler is started
// again: the run ends, with every loss right, and never goes back while every stage has a member.
TEST(NewcomersTest, AnyoneAnytime) {
#if defined(SHOAL_SANITIZED)
  constexpr std::uint64_t kSeeds = 5;  // programs are ten times slower
#else
  constexpr std::uint64_t kSeeds = 40;
#endif
  for (std::uint64_t seed = 510; seed < 510 + kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    RunConfig config = Long(2 + seed % 2, 3);
    config.steps = 80;
    config.checkpoint_every = 7;
    if (seed % 8 == 1) config.replica_method = "average:local_steps=3";
    if (seed % 8 == 5) config.replica_method = "marsit";
    SimSwarm swarm(config, seed);
    swarm.catch_up = std::chrono::milliseconds(100 + random() % 5000);
    const std::size_t peers = config.stages * 3 + 2;
    for (std::size_t i = 0; i < peers; ++i) swarm.AddPeer();
    for (int round = 0; round < 40 && swarm.View().state != RunState::kFinished; ++round) {
      swarm.RunFor(std::chrono::milliseconds(random() % 4000));
      swarm.Disturb(&random, peers, 12);
    }
    for (std::size_t i = 0; i < peers; ++i) {
      if (!swarm.Peer(i).alive) swarm.Connect(i);
    }
    swarm.Order(AdminCommand::Kind::kResume);
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
    ASSERT_EQ(swarm.View().losses.size(), 80u);
    ExpectRightLosses(&swarm);
    auto replayed = NewSwarmState(swarm.config(), SimArtefacts(swarm.config()));
    ASSERT_TRUE(swarm.RestoreInto(replayed.get()).ok());
    EXPECT_EQ(replayed->View(swarm.now()).losses, swarm.View().losses);
  }
}

}  // namespace
}  // namespace shoal::scheduler
