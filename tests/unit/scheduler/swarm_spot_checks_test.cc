// Spot checks in simulated runs: who cheats is found, and nobody else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Every step has a check.
RunConfig SpotConfig(std::uint32_t stages, std::uint32_t pipelines, std::uint64_t steps = 200) {
  RunConfig config = SimConfig(stages, pipelines);
  config.spot_checks = 1;
  config.steps = steps;
  config.checkpoint_every = 50;
  return config;
}

std::string Quarantined(const RunView& view) {
  std::string names;
  for (const MemberView& member : view.members) {
    if (!member.quarantine.empty()) names += member.name + ' ';
  }
  return names;
}

TEST(SwarmSpotChecksTest, AnHonestRunHasNoFalseAlarm) {
  for (const std::uint64_t seed : {1, 2}) {
    SimSwarm swarm(SpotConfig(3, 2, 500), seed);
    for (int i = 0; i < 6; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
    const SpotCounts counts = swarm.View().spot_checks;
    EXPECT_GT(counts.done, 490u) << "every step has one";
    EXPECT_EQ(counts.failed + counts.undecided, 0u) << counts.last;
    EXPECT_THAT(counts.last, IsEmpty());
  }
}

// A pipeline breaks in the midst of a long step: who is left of it has nothing to show, and checks
// nothing.
TEST(SwarmSpotChecksTest, WhoFollowsIsNotAccused) {
  std::uint64_t missed = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    RunConfig config = SpotConfig(2, 3, 30);
    config.micro_batches = 7;
    SimSwarm swarm(config, seed);
    for (int i = 0; i < 6; ++i) swarm.AddPeer();
    swarm.backward_end = [](int) { return std::chrono::seconds(10); };
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 3; }));
    swarm.RunFor(std::chrono::seconds(8));
    swarm.Kill(PeerAt(&swarm, 6, 1, seed % 2 == 0 ? 0 : 1));
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 8; }));
    swarm.backward_end = nullptr;
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
    const SpotCounts counts = swarm.View().spot_checks;
    EXPECT_EQ(counts.failed + counts.undecided, 0u) << counts.last;
    missed += counts.missed;
  }
  EXPECT_GT(missed, 0u);
}

TEST(SwarmSpotChecksTest, AShareIsDrawnAndNoneWithout) {
  RunConfig config = SpotConfig(2, 2, 500);
  config.spot_checks = 0.01;
  SimSwarm some(config, 3);
  config.spot_checks = 0;
  SimSwarm none(config, 3);
  for (int i = 0; i < 4; ++i) some.AddPeer(), none.AddPeer();
  ASSERT_TRUE(some.RunUntilState(RunState::kFinished));
  ASSERT_TRUE(none.RunUntilState(RunState::kFinished));
  // 12 visits a step.
  EXPECT_NEAR(static_cast<double>(some.View().spot_checks.done), 60, 30);
  EXPECT_EQ(none.View().spot_checks.done + none.View().spot_checks.missed, 0u);
}

TEST(SwarmSpotChecksTest, OfThreeTheCheatIsPutIntoQuarantineWhateverItsStage) {
  for (const int stage : {0, 1, 2}) {
    SimSwarm swarm(SpotConfig(3, 3), 10 + static_cast<std::uint64_t>(stage));
    for (int i = 0; i < 9; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
    const std::size_t cheat = PeerAt(&swarm, 9, 1, stage);
    swarm.Peer(cheat).cheats = true;
    ASSERT_TRUE(swarm.RunUntil([&] { return !Quarantined(swarm.View()).empty(); }));
    EXPECT_EQ(Quarantined(swarm.View()), swarm.Peer(cheat).name + ' ');
    const RunView view = swarm.View();
    EXPECT_EQ(view.spot_checks.failed, 3u);
    EXPECT_EQ(view.spot_checks.undecided, 0u);
    EXPECT_THAT(view.spot_checks.last, HasSubstr("in quarantine"));
    EXPECT_THAT(view.spot_checks.last, HasSubstr("micro-batch "));
    EXPECT_THAT(view.spot_checks.last, HasSubstr(stage == 2 ? "the loss of " : "the output of "));
    EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished)) << "the others go on";
  }
}

TEST(SwarmSpotChecksTest, ALyingCheckerPutsNobodyIntoQuarantine) {
  SimSwarm swarm(SpotConfig(2, 3), 20);
  for (int i = 0; i < 6; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t liar = PeerAt(&swarm, 6, 2, 0);
  swarm.Peer(liar).slanders = true;
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_EQ(Quarantined(swarm.View()), "");
  EXPECT_EQ(swarm.View().spot_checks.failed, 0u);
  EXPECT_THAT(swarm.View().reason, HasSubstr(swarm.Peer(liar).name)) << "with whom it contradicts";
  EXPECT_THAT(swarm.View().reason, HasSubstr("it is not known which of them is wrong"));
  EXPECT_THAT(swarm.View().reason, HasSubstr("shoal swarm resume"));
}

TEST(SwarmSpotChecksTest, OfTwoBothAreNamedAndTheRunIsHeld) {
  SimSwarm swarm(SpotConfig(2, 2), 30);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t cheat = PeerAt(&swarm, 4, 0, 1), other = PeerAt(&swarm, 4, 1, 1);
  swarm.Peer(cheat).cheats = true;
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_EQ(Quarantined(swarm.View()), "");
  EXPECT_THAT(swarm.View().reason, HasSubstr(swarm.Peer(cheat).name));
  EXPECT_THAT(swarm.View().reason, HasSubstr(swarm.Peer(other).name));
  swarm.RunFor(std::chrono::minutes(30));
  EXPECT_EQ(swarm.View().state, RunState::kPaused) << "until somebody orders to resume";
  swarm.Peer(cheat).cheats = false;
  swarm.Order(AdminCommand::Kind::kResume);
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(SwarmSpotChecksTest, WhoTellsOtherDigestsThanItsNeighboursShowHoldsTheRunWithBothNamed) {
  SimSwarm swarm(SpotConfig(2, 3), 40);
  for (int i = 0; i < 6; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t forger = PeerAt(&swarm, 6, 1, 0), behind = PeerAt(&swarm, 6, 1, 1);
  swarm.Peer(forger).forges = true;
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_EQ(Quarantined(swarm.View()), "");
  EXPECT_THAT(swarm.View().reason, HasSubstr(swarm.Peer(forger).name));
  EXPECT_THAT(swarm.View().reason, HasSubstr(swarm.Peer(behind).name));
}

TEST(SwarmSpotChecksTest, WhoTellsNoDigestsIsAtFault) {
  SimSwarm swarm(SpotConfig(2, 3), 50);
  for (int i = 0; i < 6; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t silent = PeerAt(&swarm, 6, 1, 0);
  swarm.Peer(silent).filter = [](control::v1::PeerMessage* message) {
    if (message->has_step_ready()) message->mutable_step_ready()->clear_output_digests();
    return true;
  };
  ASSERT_TRUE(swarm.RunUntil([&] { return !Quarantined(swarm.View()).empty(); }));
  EXPECT_EQ(Quarantined(swarm.View()), swarm.Peer(silent).name + ' ');
  EXPECT_THAT(swarm.View().spot_checks.last, HasSubstr("older than spot checks"));
}

TEST(SwarmSpotChecksTest, CheckersThatAreGoneOrSilentMissTheCheck) {
  SimSwarm swarm(SpotConfig(2, 2, 60), 60);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  for (std::size_t i = 0; i < 4; ++i) {
    swarm.Peer(i).filter = [](control::v1::PeerMessage* message) {
      return !message->has_spot_checked();
    };
  }
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().spot_checks.done, 0u);
  EXPECT_GT(swarm.View().spot_checks.missed, 50u);
}

}  // namespace
}  // namespace shoal::scheduler
