// Peers that hand their stage over, and peers that cannot save.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {
namespace {

using control::v1::PeerMessage;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

PeerMessage HandingOver(const std::string& reason) {
  PeerMessage message;
  message.mutable_handing_over()->set_reason(reason);
  return message;
}

TEST(SwarmHandoverTest, HandingOverLosesNoStepAndASpareGoesOn) {
  SimSwarm swarm(SimConfig(2, 1), 41);
  for (int i = 0; i < 3; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 4; }));
  const std::size_t leaver = PeerAt(&swarm, 3, 0, 1);
  swarm.Say(leaver, HandingOver("its owner leaves"));
  ASSERT_TRUE(swarm.RunUntil([&] { return !swarm.Peer(leaver).last_abort.empty(); }));
  EXPECT_THAT(swarm.Peer(leaver).last_abort, HasSubstr("hands its stage over: its owner leaves"));
  const std::uint64_t step = swarm.View().step;
  EXPECT_GE(step, 5u);
  EXPECT_EQ(swarm.View().checkpoint_step, step) << "no step was trained in vain";
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().generation == 2; }));
  EXPECT_EQ(swarm.View().step, step);
  EXPECT_NE(PeerAt(&swarm, 3, 0, 1), leaver);
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(SwarmHandoverTest, WithoutASpareTheRunWaitsAtTheStepWhereThePeerWent) {
  SimSwarm swarm(SimConfig(2, 2), 42);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 12; }));
  swarm.Say(1, HandingOver("its owner pauses it"));
  swarm.Say(1, HandingOver("again"));
  swarm.Say(2, HandingOver("its owner pauses it"));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_GE(swarm.View().checkpoint_step, 13u);
  EXPECT_EQ(swarm.View().checkpoint_step, swarm.View().step);
  EXPECT_THAT(swarm.View().reason, HasSubstr("waiting for 2 more peers"));
  swarm.Connect(1);
  swarm.Connect(2);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  EXPECT_GE(swarm.View().step, 13u);
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

// A checkpoint fails with the disk of a peer.
void FillDisk(SimPeer* peer) {
  peer->filter = [](PeerMessage* message) {
    if (message->has_checkpoint_done()) {
      message->mutable_checkpoint_done()->clear_files();
      message->mutable_checkpoint_done()->set_error("write x: No space left on device");
    }
    return true;
  };
}

TEST(SwarmHandoverTest, AFullDiskIsNamedAndUndoesNoStep) {
  SimSwarm swarm(SimConfig(2, 1), 43);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  FillDisk(&swarm.Peer(1));
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 25; }));
  EXPECT_EQ(swarm.View().generation, 1u);
  EXPECT_EQ(swarm.View().checkpoint_step, 0u);
  EXPECT_THAT(swarm.View().reason, HasSubstr("peer1"));
  EXPECT_THAT(swarm.View().reason, HasSubstr("No space left"));
  swarm.Peer(1).filter = nullptr;  // its owner made room
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().generation, 1u);
}

TEST(SwarmHandoverTest, ASpareTakesThePlaceOfAFullDiskAndStepsAreUndoneOnce) {
  SimSwarm swarm(SimConfig(2, 1), 46);
  for (int i = 0; i < 3; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().checkpoint_step == 10; }));
  const std::size_t full = PeerAt(&swarm, 3, 0, 1);
  FillDisk(&swarm.Peer(full));
  ASSERT_TRUE(swarm.RunUntil([&] { return !swarm.Peer(full).last_abort.empty(); }));
  const std::string why = swarm.Peer(full).last_abort;
  EXPECT_THAT(why, HasSubstr(swarm.Peer(full).name));
  EXPECT_THAT(why, HasSubstr("No space left"));
  EXPECT_THAT(why, HasSubstr("a spare takes its place"));
  EXPECT_THAT(why, HasSubstr("since the checkpoint of step 10 are trained again"));
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().generation, 2u);
  EXPECT_NE(PeerAt(&swarm, 3, 0, 1), full);
}

TEST(SwarmHandoverTest, WhoCannotSaveGoesWithoutWaitingAndTheReasonSaysWhatIsLost) {
  SimSwarm swarm(SimConfig(2, 1), 47);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  FillDisk(&swarm.Peer(1));
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 4; }));
  swarm.Say(1, HandingOver("its owner leaves"));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused, std::chrono::seconds(30)));
  EXPECT_THAT(swarm.View().reason, HasSubstr("No space left"));
  EXPECT_THAT(swarm.View().reason, HasSubstr("since the start are trained again"));
  swarm.Peer(1).filter = nullptr;
  swarm.Connect(1);
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(SwarmHandoverTest, ResumeAfterPauseDoesNotForgetWhoHandsOver) {
  SimSwarm swarm(SimConfig(2, 1), 48);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 4; }));
  swarm.Say(1, HandingOver("its owner leaves"));
  swarm.Order(AdminCommand::Kind::kPause);
  swarm.Order(AdminCommand::Kind::kResume);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused, std::chrono::seconds(30)));
  EXPECT_EQ(swarm.View().checkpoint_step, swarm.View().step);
  EXPECT_THAT(swarm.View().reason, HasSubstr("hands its stage over"));
}

TEST(SwarmHandoverTest, AnotherMemberOfTheStageSavesForAFullDisk) {
  SimSwarm swarm(SimConfig(2, 2), 44);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t full = PeerAt(&swarm, 4, 0, 1), other = PeerAt(&swarm, 4, 1, 1);
  FillDisk(&swarm.Peer(full));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().generation, 1u);
  EXPECT_THAT(swarm.UploadersOf(1), ElementsAre(swarm.Peer(other).name));
  EXPECT_EQ(swarm.UploadersOf(0).size(), 2u);
}

// All files of the newest checkpoint lie with who is left, or are here.
TEST(SwarmHandoverTest, ALossWhileACheckpointIsUploadedCostsNoStepsBeforeIt) {
  SimSwarm swarm(SimConfig(2, 1), 49);
  for (int i = 0; i < 3; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 9; }));
  const std::size_t slow = PeerAt(&swarm, 3, 0, 0), lost = PeerAt(&swarm, 3, 0, 1);
  swarm.Peer(slow).slowness = 20;
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 10; }));
  swarm.RunFor(std::chrono::seconds(3));
  ASSERT_EQ(swarm.View().checkpoint_step, 0u);
  swarm.Kill(lost);
  std::string awaited;
  ASSERT_TRUE(swarm.RunUntil([&] {
    if (swarm.View().reason.find("which its members upload") != std::string::npos) {
      awaited = swarm.View().reason;
    }
    return swarm.View().generation == 2;
  }));
  EXPECT_THAT(awaited, HasSubstr("it continues from the checkpoint of step 10"));
  EXPECT_EQ(swarm.View().step, 10u);
  EXPECT_EQ(swarm.View().checkpoint_step, 10u);
  swarm.Peer(slow).slowness = 1;
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(SwarmHandoverTest, WhoComesBackTellsWhatItSavedMeanwhile) {
  SimSwarm swarm(SimConfig(2, 1), 50);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 10; }));
  const std::size_t cut = PeerAt(&swarm, 2, 0, 1);
  swarm.RunFor(std::chrono::milliseconds(200));
  swarm.CutOff(cut);
  swarm.RunFor(std::chrono::milliseconds(1500));
  swarm.Connect(cut);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 15; }));
  EXPECT_THAT(swarm.checkpoints(), ElementsAre(10u));
  EXPECT_GT(swarm.View().generation, 1u);
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(SwarmHandoverTest, AFullDiskAtTheLastStepHoldsTheRunOnce) {
  SimSwarm swarm(SimConfig(2, 1), 45);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().checkpoint_step == 20; }));
  FillDisk(&swarm.Peer(0));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  swarm.RunFor(std::chrono::minutes(10));
  EXPECT_EQ(swarm.View().state, RunState::kPaused);
  EXPECT_EQ(swarm.View().generation, 1u);
  EXPECT_THAT(swarm.View().reason, HasSubstr("peer0"));
  swarm.Peer(0).filter = nullptr;
  swarm.Order(AdminCommand::Kind::kResume);
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

// Who hears of it within minutes loses no step: members hold what they could not save.
TEST(SwarmHandoverTest, SpaceOnAFullDiskSavesTheLastStepsOnceTheRunIsResumed) {
  SimSwarm swarm(SimConfig(2, 1), 51);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().checkpoint_step == 20; }));
  FillDisk(&swarm.Peer(0));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  swarm.RunFor(std::chrono::minutes(5));
  // Still full.
  swarm.Order(AdminCommand::Kind::kResume);
  const std::uint64_t steps = swarm.View().step;
  EXPECT_EQ(steps, swarm.config().steps);
  swarm.Peer(0).filter = nullptr;
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().generation, 1u) << "nothing was trained again";
}

}  // namespace
}  // namespace shoal::scheduler
