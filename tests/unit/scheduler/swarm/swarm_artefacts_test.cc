// Artefacts that are damaged or gone at the scheduler.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> HashesOf(SimSwarm* swarm) {
  std::vector<std::string> hashes;
  for (const auto& [name, file] : swarm->state().CurrentWeights()) {
    hashes.push_back(file.hash());
  }
  return hashes;
}

// A run at its checkpoint of step 20, with the scheduler started again.
std::unique_ptr<SimSwarm> RestartedAtStep20(std::uint64_t seed) {
  auto swarm = std::make_unique<SimSwarm>(SimConfig(2, 1), seed);
  for (int i = 0; i < 2; ++i) swarm->AddPeer();
  EXPECT_TRUE(swarm->RunUntil([&] { return swarm->View().checkpoint_step == 20; }));
  for (std::size_t i = 0; i < 2; ++i) swarm->Kill(i);
  swarm->RestartScheduler(/*reconnect=*/false);
  return swarm;
}

TEST(SwarmArtefactsTest, ALostCheckpointComesFromThePeersThatHaveIt) {
  const auto swarm = RestartedAtStep20(91);
  swarm->Lose(HashesOf(swarm.get()));
  EXPECT_FALSE(swarm->wanted().empty());
  EXPECT_THAT(swarm->View().reason, HasSubstr("damaged or gone at the scheduler"));
  EXPECT_THAT(swarm->View().reason, HasSubstr("of the checkpoint of step 20: waiting for peers"));
  for (std::size_t i = 0; i < 2; ++i) {
    swarm->Peer(i).has = [](const auto&) { return true; };
    swarm->Connect(i);
  }
  ASSERT_TRUE(swarm->RunUntilState(RunState::kTraining));
  EXPECT_EQ(swarm->View().step, 20u);
  EXPECT_TRUE(swarm->RunUntilState(RunState::kFinished));
}

TEST(SwarmArtefactsTest, WhereNobodyHasTheNewestCheckpointTheOneBeforeCounts) {
  const auto swarm = RestartedAtStep20(92);
  swarm->Lose(HashesOf(swarm.get()));
  for (std::size_t i = 0; i < 2; ++i) {
    // Hashes of the simulation begin with the step.
    swarm->Peer(i).has = [](const auto& file) { return file.hash()[0] == 10; };
    swarm->Connect(i);
  }
  ASSERT_TRUE(swarm->RunUntilState(RunState::kTraining));
  EXPECT_EQ(swarm->View().step, 10u);
  EXPECT_EQ(swarm->View().checkpoint_step, 10u);
  // The way back is history, too.
  swarm->RestartScheduler(/*reconnect=*/true);
  EXPECT_EQ(swarm->View().checkpoint_step, 10u);
  EXPECT_TRUE(swarm->RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm->View().losses.size(), 30u);
}

TEST(SwarmArtefactsTest, WhereNobodyHasAnyCheckpointTheRunSaysWhatIsMissing) {
  const auto swarm = RestartedAtStep20(93);
  swarm->Lose(HashesOf(swarm.get()));
  for (std::size_t i = 0; i < 2; ++i) swarm->Connect(i);
  ASSERT_TRUE(swarm->RunUntil([&] {
    return swarm->View().reason.find("no peer that is here has them") != std::string::npos;
  }));
  EXPECT_THAT(swarm->View().reason, HasSubstr("12 artefacts are damaged or gone"));
  EXPECT_THAT(swarm->View().reason, HasSubstr("of the checkpoint of step 10"));
  EXPECT_THAT(swarm->View().reason, HasSubstr("--forget-history"));
  swarm->RunFor(std::chrono::minutes(5));
  EXPECT_NE(swarm->View().state, RunState::kTraining);
  // One who has them comes back later.
  swarm->Kill(1);
  swarm->RunFor(std::chrono::seconds(10));
  swarm->Peer(1).has = [](const auto&) { return true; };
  swarm->Connect(1);
  EXPECT_TRUE(swarm->RunUntilState(RunState::kFinished));
}

TEST(SwarmArtefactsTest, AnArtefactLostWhilePeersFetchIsNoFailureOfTheirs) {
  SimSwarm swarm(SimConfig(2, 1), 94);
  for (int i = 0; i < 2; ++i) {
    swarm.AddPeer();
    swarm.Peer(static_cast<std::size_t>(i)).has = [](const auto&) { return true; };
  }
  for (int round = 0; round < 8; ++round) {
    ASSERT_TRUE(swarm.RunUntilState(RunState::kPreparing));
    swarm.Lose({"unknown", HashesOf(&swarm).front()});
    EXPECT_EQ(swarm.View().state, RunState::kPaused);
  }
  EXPECT_EQ(swarm.wanted().size(), 8u);
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

}  // namespace
}  // namespace shoal::scheduler
