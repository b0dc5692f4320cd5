// Peers that die, lie, stall and come back, at any moment.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {
namespace {

using control::v1::PeerMessage;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

TEST(SwarmFaultsTest, LostPeerPausesWithNameAndStageEverywhere) {
  SimSwarm swarm(SimConfig(4, 1), 21);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().checkpoint_step == 10; }));
  const std::size_t victim = PeerAt(&swarm, 4, 0, 1);
  const TimePoint killed = swarm.now();
  swarm.Kill(victim);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused, std::chrono::seconds(10)));
  swarm.RunFor(std::chrono::seconds(2));
  EXPECT_LT(swarm.now() - killed, std::chrono::seconds(10));
  const std::string reason = swarm.View().reason;
  EXPECT_THAT(reason, HasSubstr(swarm.Peer(victim).name));
  EXPECT_THAT(reason, HasSubstr(swarm.Peer(victim).id.ToShort()));
  EXPECT_THAT(reason, HasSubstr("stage 1"));
  EXPECT_THAT(reason, HasSubstr("3 of 4 are here"));
  for (std::size_t i = 0; i < 4; ++i) {
    if (i == victim) continue;
    EXPECT_EQ(swarm.Peer(i).status.state(), "paused");
    EXPECT_THAT(swarm.Peer(i).status.reason(), HasSubstr(swarm.Peer(victim).name));
    EXPECT_THAT(swarm.Peer(i).last_abort, HasSubstr(swarm.Peer(victim).name));
  }
  swarm.RunFor(std::chrono::minutes(5));
  EXPECT_EQ(swarm.View().state, RunState::kPaused);
  swarm.Connect(victim);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  EXPECT_EQ(swarm.View().step, swarm.View().checkpoint_step);
  EXPECT_EQ(PeerAt(&swarm, 4, 0, 1), victim);  // it keeps its place
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(SwarmFaultsTest, SilentPeerIsFoundByItsHeartbeats) {
  SimSwarm swarm(SimConfig(2, 1), 22);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  swarm.Peer(1).mute = true;
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused, std::chrono::seconds(10)));
  EXPECT_THAT(swarm.View().reason, HasSubstr("nothing was heard"));
  EXPECT_THAT(swarm.View().reason, HasSubstr("peer1"));
}

TEST(SwarmFaultsTest, SpareTakesOver) {
  SimSwarm swarm(SimConfig(2, 1), 23);
  for (int i = 0; i < 3; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 5; }));
  const std::size_t kept = PeerAt(&swarm, 3, 0, 0);
  const std::size_t victim = PeerAt(&swarm, 3, 0, 1);
  swarm.Kill(victim);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(PeerAt(&swarm, 3, 0, 0), kept);
  EXPECT_NE(PeerAt(&swarm, 3, 0, 1), victim);
}

TEST(SwarmFaultsTest, LeavingIsALoss) {
  SimSwarm swarm(SimConfig(2, 1), 24);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  PeerMessage leaving;
  leaving.mutable_leaving()->set_reason("a game starts");
  swarm.Say(0, leaving);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_THAT(swarm.View().reason, HasSubstr("a game starts"));
}

TEST(SwarmFaultsTest, BrokenLinkIsRetriedAfterABackoff) {
  SimSwarm swarm(SimConfig(2, 1), 25);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  PeerMessage broken;
  broken.mutable_link_broken()->set_generation(1);
  broken.mutable_link_broken()->set_peer(swarm.Peer(1).id.key.data(), 32);
  broken.mutable_link_broken()->set_error("stalled for 20s");
  swarm.Say(0, broken);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_THAT(swarm.View().reason, HasSubstr("stalled for 20s"));
  EXPECT_THAT(swarm.View().reason, HasSubstr("peer1"));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  EXPECT_EQ(swarm.View().generation, 2u);
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(SwarmFaultsTest, AStageWaitsForAPeerWithTheMemoryForIt) {
  RunConfig config = SimConfig(2, 1);
  config.stage_bytes = {1ull << 20, 3ull << 30};
  SimSwarm swarm(config, 4);
  for (int i = 0; i < 2; ++i) swarm.AddPeer(2ull << 30);
  swarm.RunFor(std::chrono::minutes(1));
  EXPECT_EQ(swarm.View().state, RunState::kWaiting);
  EXPECT_THAT(swarm.View().reason, HasSubstr("too little memory"));
  EXPECT_THAT(swarm.View().reason, HasSubstr("3.00 GiB"));
  const std::size_t large = swarm.AddPeer(4ull << 30);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
  EXPECT_EQ(swarm.Peer(large).stage, 1);
}

TEST(SwarmFaultsTest, FiveFailuresWithoutProgressHoldTheRun) {
  SimSwarm swarm(SimConfig(2, 1), 26);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  bool ill = true;
  swarm.Peer(1).filter = [&](PeerMessage* message) {
    if (ill && message->has_plan_ready()) {
      const auto generation = message->plan_ready().generation();
      message->mutable_plan_failed()->set_generation(generation);
      message->mutable_plan_failed()->set_error("resource exhausted: 3 GiB of memory are missing");
    }
    return true;
  };
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().generation == 5; }));
  swarm.RunFor(std::chrono::minutes(10));
  EXPECT_EQ(swarm.View().generation, 5u);
  EXPECT_EQ(swarm.View().state, RunState::kPaused);
  EXPECT_THAT(swarm.View().reason, HasSubstr("3 GiB of memory are missing"));
  EXPECT_THAT(swarm.View().reason, HasSubstr("shoal swarm resume"));
  ill = false;
  swarm.Order(AdminCommand::Kind::kResume);
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(SwarmFaultsTest, APlanThatAllCallInvalidFailsTheRun) {
  SimSwarm swarm(SimConfig(2, 1), 27);
  for (std::size_t i = 0; i < 2; ++i) {
    swarm.AddPeer();
    swarm.Peer(i).filter = [](PeerMessage* message) {
      if (message->has_plan_ready()) {
        const auto generation = message->plan_ready().generation();
        message->mutable_plan_failed()->set_generation(generation);
        message->mutable_plan_failed()->set_error("invalid argument: aqsgd has no bits=99");
      }
      return true;
    };
  }
  // The first refusal pauses and makes the others drop the plan; a later plan brings the second.
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFailed, std::chrono::minutes(2)));
  const RunView view = swarm.View();
  EXPECT_LT(view.generation, 5u);
  EXPECT_THAT(view.reason, HasSubstr("run.toml"));
  EXPECT_THAT(view.reason, HasSubstr("aqsgd has no bits=99"));
}

TEST(SwarmFaultsTest, AFailingPeerMakesRoomForASpare) {
  SimSwarm swarm(SimConfig(2, 1), 28);
  for (int i = 0; i < 3; ++i) swarm.AddPeer();
  swarm.Peer(1).filter = [](PeerMessage* message) {
    if (message->has_plan_ready()) {
      const auto generation = message->plan_ready().generation();
      message->mutable_plan_failed()->set_generation(generation);
      message->mutable_plan_failed()->set_error("internal: the device is gone");
    }
    return true;
  };
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().members.at(1).stage, -1);
}

TEST(SwarmFaultsTest, InfiniteLossHoldsWithAdvice) {
  SimSwarm swarm(SimConfig(2, 1), 29);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  const auto poison = [](PeerMessage* message) {
    if (message->has_step_ready() && message->step_ready().step() == 3 &&
        message->step_ready().labels() > 0) {
      message->mutable_step_ready()->set_loss_sum(std::numeric_limits<double>::infinity());
    }
    return true;
  };
  swarm.Peer(0).filter = swarm.Peer(1).filter = poison;
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_THAT(swarm.View().reason, HasSubstr("not finite at step 3"));
  EXPECT_THAT(swarm.View().reason, HasSubstr("learning_rate"));
  swarm.RunFor(std::chrono::minutes(5));
  EXPECT_EQ(swarm.View().generation, 1u);
}

TEST(SwarmFaultsTest, NotANumberInTheGradientHolds) {
  SimSwarm swarm(SimConfig(2, 1), 30);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  swarm.Peer(0).filter = [](PeerMessage* message) {
    if (message->has_sync_done()) message->mutable_sync_done()->set_squared_norm(std::nan(""));
    return true;
  };
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_THAT(swarm.View().reason, HasSubstr("gradient is not finite"));
}

TEST(SwarmFaultsTest, MessagesOfAnotherGenerationChangeNothing) {
  SimSwarm swarm(SimConfig(2, 1), 31);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  for (const std::uint64_t generation : {0u, 2u, 99u}) {
    PeerMessage message;
    message.mutable_step_ready()->set_generation(generation);
    message.mutable_step_ready()->set_micro_batches(1);  // would be a failure in this one
    swarm.Say(0, message);
    message.mutable_plan_failed()->set_generation(generation);
    swarm.Say(0, message);
    message.mutable_link_broken()->set_generation(generation);
    message.mutable_link_broken()->set_peer(swarm.Peer(1).id.key.data(), 32);
    swarm.Say(0, message);
    message.mutable_checkpoint_done()->set_generation(generation);
    message.mutable_checkpoint_done()->set_step(10);
    message.mutable_checkpoint_done()->set_error("x");
    swarm.Say(0, message);
  }
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().generation, 1u);
  EXPECT_EQ(swarm.disconnects(), 0u);
}

std::vector<PeerMessage> MalformedMessages() {
  std::vector<PeerMessage> messages(1);  // no kind
  const auto add = [&] { return &messages.emplace_back(); };
  add()->mutable_heartbeat()->set_status_json(std::string(256 * 1024 + 1, ' '));
  add()->mutable_heartbeat()->mutable_line()->set_download_bps(UINT64_MAX);
  add()->mutable_hello()->set_name(std::string(65, 'n'));
  add()->mutable_hello()->set_listen_port(70000);
  for (int i = 0; i < 17; ++i) messages.back().mutable_hello()->add_addresses("h");
  PeerMessage* ready = add();
  ready->mutable_step_ready()->set_generation(1);
  ready->mutable_step_ready()->mutable_timing()->set_forward_ms(std::nan(""));
  ready = add();
  ready->mutable_step_ready()->set_labels(1ull << 40);
  add()->mutable_step_ready()->set_micro_batches(7);
  add()->mutable_sync_done()->set_squared_norm(-1);
  add()->mutable_link_broken()->set_peer("short");
  add()->mutable_plan_ready()->add_round_trips()->set_peer("short");
  control::v1::RoundTrip* trip = add()->mutable_plan_ready()->add_round_trips();
  trip->set_peer(std::string(32, 'p'));
  trip->set_ms(-1);
  PeerMessage* trips = add();
  for (int i = 0; i < 3; ++i) {  // of one pipeline
    trips->mutable_plan_ready()->add_round_trips()->set_peer(std::string(32, 'p'));
  }
  PeerMessage* done = add();
  control::v1::ArtefactRef* file = done->mutable_checkpoint_done()->add_files();
  file->set_name("layer.0");
  file->set_hash("too short");
  file->set_size(3);
  PeerMessage* applied = add();
  for (int i = 0; i < 3; ++i) applied->mutable_applied()->add_boundaries();
  PeerMessage* place = add();
  place->mutable_applied()->set_generation(1);
  place->mutable_applied()->add_boundaries()->set_boundary(0xffffffff);
  return messages;
}

TEST(SwarmFaultsTest, MalformedMessagesCostTheConnection) {
  for (const PeerMessage& message : MalformedMessages()) {
    SimSwarm swarm(SimConfig(2, 1), 32);
    for (int i = 0; i < 2; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 1; }));
    swarm.Say(0, message);
    ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused, std::chrono::seconds(1)))
        << message.ShortDebugString();
    EXPECT_EQ(swarm.disconnects(), 1u);
    EXPECT_THAT(swarm.View().reason, HasSubstr("malformed"));
  }
}

TEST(SwarmFaultsTest, DifferentWeightsInAStageGroupAreNotSaved) {
  SimSwarm swarm(SimConfig(2, 2), 33);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  int lies = 1;
  swarm.Peer(3).filter = [&](PeerMessage* message) {
    if (message->has_applied() && message->applied().weight_checksum() != 0 && lies-- > 0) {
      message->mutable_applied()->set_weight_checksum(5);
    }
    return true;
  };
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_EQ(swarm.View().weight_mismatches, 1u);
  EXPECT_EQ(swarm.View().checkpoint_step, 0u);
  EXPECT_THAT(swarm.View().reason, HasSubstr("weights"));
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

// From a step of the first generation on, as if a bit of its memory had flipped.
void FlipABit(SimPeer* peer, std::uint64_t step, std::uint64_t generations = 1) {
  peer->filter = [=](PeerMessage* message) {
    const auto& applied = message->applied();
    if (message->has_applied() && applied.weight_checksum() != 0 && applied.step() >= step &&
        applied.generation() <= generations) {
      message->mutable_applied()->set_weight_checksum(5);
    }
    return true;
  };
}

RunConfig ConfigOfThree() {
  RunConfig config = SimConfig(2, 3);
  config.weight_check_every = 4;
  config.checkpoint_every = 100;
  return config;
}

TEST(SwarmFaultsTest, APeerWithOtherWeightsTakesTheMajoritysAndNoStepIsLost) {
  for (const int pipeline : {0, 2}) {
    SimSwarm swarm(ConfigOfThree(), 35);
    for (int i = 0; i < 6; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
    const std::size_t odd = PeerAt(&swarm, 6, pipeline, 1);
    FlipABit(&swarm.Peer(odd), 5);
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().generation == 2; }));
    EXPECT_GE(swarm.View().weight_mismatches, 1u);
    EXPECT_GT(swarm.View().checkpoint_step, 7u);
    EXPECT_EQ(swarm.View().step, swarm.View().checkpoint_step) << "no step was lost";
    const std::string said = swarm.View().last_difference;
    EXPECT_THAT(said, HasSubstr(swarm.Peer(odd).name));
    EXPECT_THAT(said, HasSubstr("after step 7"));
    EXPECT_EQ(said.find(","), said.rfind(",")) << "nobody else is named: " << said;
    // Whoever speaks for the group is one of the majority; the other stage is as ever.
    EXPECT_THAT(swarm.UploadersOf(1), SizeIs(2));
    EXPECT_THAT(swarm.UploadersOf(1), Not(Contains(swarm.Peer(odd).name)));
    EXPECT_THAT(swarm.UploadersOf(0), SizeIs(3));
    EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
    EXPECT_GE(swarm.View().weight_mismatches, 1u);
    EXPECT_EQ(swarm.View().generation, 2u);
  }
}

TEST(SwarmFaultsTest, ACheckpointOfWeightsThatDifferIsNotTaken) {
  RunConfig config = ConfigOfThree();
  config.checkpoint_every = 10;
  SimSwarm swarm(config, 36);
  for (int i = 0; i < 6; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t odd = PeerAt(&swarm, 6, 0, 0);
  FlipABit(&swarm.Peer(odd), 9);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().generation == 2; }));
  EXPECT_GT(swarm.View().checkpoint_step, 10u) << "that of step 10 was of the wrong weights";
  EXPECT_THAT(swarm.UploadersOf(0), Not(Contains(swarm.Peer(odd).name)));
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(SwarmFaultsTest, APeerWhoseWeightsDifferAgainAndAgainGoesIntoQuarantine) {
  SimSwarm swarm(ConfigOfThree(), 39);
  for (int i = 0; i < 6; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t odd = PeerAt(&swarm, 6, 1, 1);
  FlipABit(&swarm.Peer(odd), 0, 100);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
  EXPECT_EQ(swarm.Peer(odd).stage, -1);
  EXPECT_THAT(swarm.View().last_difference, HasSubstr("shoal swarm release"));
}

// Its generation was to end with the next checkpoint when the scheduler died.
TEST(SwarmFaultsTest, TheNextSchedulerGivesAPeerInQuarantineNoStage) {
  SimSwarm swarm(ConfigOfThree(), 45);
  for (int i = 0; i < 6; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t odd = PeerAt(&swarm, 6, 1, 1);
  FlipABit(&swarm.Peer(odd), 0, 100);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().quarantines.size() == 1; }));
  ASSERT_EQ(swarm.View().state, RunState::kTraining);
  ASSERT_GE(swarm.Peer(odd).stage, 0);
  swarm.Peer(odd).filter = nullptr;
  const std::uint64_t generation = swarm.View().generation;
  swarm.RestartScheduler(true);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().generation > generation; }))
      << swarm.View().reason;
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
  EXPECT_EQ(swarm.Peer(odd).stage, -1);
}

TEST(SwarmFaultsTest, APeerWhoseWeightsDifferAgainAndAgainHoldsTheRunWithoutQuarantine) {
  RunConfig config = ConfigOfThree();
  config.quarantine_after = 0;
  SimSwarm swarm(config, 37);
  for (int i = 0; i < 6; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t odd = PeerAt(&swarm, 6, 1, 1);
  FlipABit(&swarm.Peer(odd), 0, 100);
  ASSERT_TRUE(swarm.RunUntil(
      [&] { return swarm.View().state == RunState::kPaused && swarm.View().generation == 4; }));
  EXPECT_THAT(swarm.View().reason, HasSubstr(swarm.Peer(odd).name));
  EXPECT_THAT(swarm.View().reason, HasSubstr("for the 4th time"));
  swarm.RunFor(std::chrono::minutes(10));
  EXPECT_EQ(swarm.View().state, RunState::kPaused);
  swarm.Peer(odd).filter = nullptr;
  swarm.Order(AdminCommand::Kind::kResume);
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(SwarmFaultsTest, WeightsThatDifferAtTheLastStepAreNotTheResult) {
  SimSwarm swarm(ConfigOfThree(), 38);
  for (int i = 0; i < 6; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t odd = PeerAt(&swarm, 6, 0, 1);
  FlipABit(&swarm.Peer(odd), 29);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_THAT(swarm.UploadersOf(1), Not(Contains(swarm.Peer(odd).name)));
  EXPECT_GE(swarm.View().weight_mismatches, 1u);
}

TEST(SwarmFaultsTest, DifferentMIsCounted) {
  SimSwarm swarm(SimConfig(2, 1), 34);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  swarm.Peer(1).filter = [](PeerMessage* message) {
    if (message->has_applied() && message->applied().step() == 2) {
      message->mutable_applied()->mutable_boundaries(0)->set_checksum(1);
    }
    return true;
  };
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().m_mismatches, 1u);
}

TEST(SwarmFaultsTest, UnequalGradientsInAStageGroupAbort) {
  SimSwarm swarm(SimConfig(1, 2), 35);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  int lies = 1;
  swarm.Peer(1).filter = [&](PeerMessage* message) {
    if (message->has_sync_done() && lies-- > 0) message->mutable_sync_done()->set_squared_norm(7);
    return true;
  };
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_THAT(swarm.View().reason, HasSubstr("stage 0"));
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(SwarmFaultsTest, FailedCheckpointNamesPeerAndCause) {
  SimSwarm swarm(SimConfig(2, 1), 36);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  int failures = 1;
  swarm.Peer(1).filter = [&](PeerMessage* message) {
    if (message->has_checkpoint_done() && failures-- > 0) {
      message->mutable_checkpoint_done()->set_error("no space left on device");
    }
    return true;
  };
  ASSERT_TRUE(swarm.RunUntil([&] { return !swarm.View().reason.empty() && failures < 1; }));
  EXPECT_THAT(swarm.View().reason, HasSubstr("no space left on device"));
  EXPECT_THAT(swarm.View().reason, HasSubstr("peer1"));
  EXPECT_EQ(swarm.View().state, RunState::kTraining);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().checkpoint_step > 0; }));
  EXPECT_EQ(swarm.View().reason, "");
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(SwarmFaultsTest, SlowPeersOnlyTakeLonger) {
  SimSwarm swarm(SimConfig(3, 2), 37);
  for (std::size_t i = 0; i < 6; ++i) {
    swarm.AddPeer();
    swarm.Peer(i).slowness = i == 2 ? 20 : 1;
  }
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished, std::chrono::hours(2)));
  EXPECT_EQ(swarm.View().generation, 1u);
}

class SwarmChaos : public ::testing::TestWithParam<int> {};

// Peers die and return at random, the scheduler restarts now and then; the run always ends, with
// every loss right.
TEST_P(SwarmChaos, EndsWithTheRightLosses) {
  const auto seed = static_cast<std::uint64_t>(GetParam());
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  SimSwarm swarm(SimConfig(2, 2), seed);
  constexpr std::size_t kPeers = 5;
  for (std::size_t i = 0; i < kPeers; ++i) swarm.AddPeer();
  for (int round = 0; round < 25 && swarm.View().state != RunState::kFinished; ++round) {
    swarm.RunFor(std::chrono::milliseconds(random() % 6000));
    swarm.Disturb(&random, kPeers, 8);
    const RunView view = swarm.View();
    EXPECT_EQ(view.losses.size(), view.step);
    EXPECT_LE(view.checkpoint_step, view.step);
  }
  for (std::size_t i = 0; i < kPeers; ++i) {
    if (!swarm.Peer(i).alive) swarm.Connect(i);
  }
  swarm.Order(AdminCommand::Kind::kResume);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
  const RunView view = swarm.View();
  ASSERT_EQ(view.losses.size(), 30u);
  for (std::size_t t = 0; t < view.losses.size(); ++t) {
    EXPECT_DOUBLE_EQ(view.losses[t], swarm.Loss(t));
  }
  auto replayed = NewSwarmState(swarm.config(), SimArtefacts(swarm.config()));
  ASSERT_TRUE(swarm.RestoreInto(replayed.get()).ok());
  EXPECT_EQ(replayed->View(swarm.now()).losses, view.losses);
  EXPECT_EQ(replayed->View(swarm.now()).generation, view.generation);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SwarmChaos, ::testing::Range(100, 140));

}  // namespace
}  // namespace shoal::scheduler
