// Generations that end with steps that no checkpoint has: who still holds them, and where the run
// goes on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "common/file.h"
#include "scheduler/config/swarm_limits.h"
#include "tests/support/temporary_folder.h"
#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {
namespace {

using control::v1::PeerMessage;
using ::testing::HasSubstr;

// Whoever dies, whenever: with another pipeline no step is trained twice, with one alone the run
// goes back to its last checkpoint.
TEST(KeptStepsTest, NoStepIsLostWhereEveryStageHasAMemberLeft) {
  for (std::uint64_t seed = 300; seed < 330; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const std::uint32_t pipelines = seed % 3 == 0 ? 1 : 2, stages = 3;
    RunConfig config = SimConfig(stages, pipelines);
    if (seed % 2 != 0) config.replica_method = "qadam:bits=4";
    SimSwarm swarm(config, seed);
    const std::size_t peers = stages * pipelines + 1;
    for (std::size_t i = 0; i < peers; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 2 + seed % 7; }));
    swarm.RunFor(std::chrono::milliseconds(random() % 700));
    const auto stage = static_cast<int>(random() % stages);
    const auto pipeline = static_cast<int>(random() % pipelines);
    swarm.Kill(PeerAt(&swarm, peers, pipeline, stage));
    if (pipelines > 1) {
      const std::uint64_t before = swarm.View().step;
      ASSERT_TRUE(
          swarm.RunUntil([&] { return swarm.View().generation == 2; }, std::chrono::seconds(10)));
      EXPECT_GE(swarm.View().step, before);
      EXPECT_EQ(swarm.View().checkpoint_step, 0u);
      ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
      EXPECT_EQ(swarm.View().losses.size(), 30u);
      continue;
    }
    ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused, std::chrono::seconds(10)));
    const RunView broken = swarm.View();
    EXPECT_THAT(broken.reason, HasSubstr("are kept if peers that hold them come back"));
    ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::seconds(20)));
    EXPECT_EQ(swarm.View().step, broken.checkpoint_step);
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
    EXPECT_EQ(swarm.View().losses.size(), 30u);
  }
}

// Behind the last step there is only its checkpoint to be made, in no further generation.
TEST(KeptStepsTest, TheLastStepIsSavedWhereItsCheckpointBroke) {
  for (const std::uint32_t pipelines : {1u, 2u}) {
    RunConfig config = SimConfig(2, pipelines);
    config.steps = 5;
    SimSwarm swarm(config, 336);
    const std::size_t peers = std::size_t{2} * pipelines;
    for (std::size_t i = 0; i < peers; ++i) swarm.AddPeer();
    bool mute = true;
    for (std::size_t i = 0; i < peers; ++i) {
      swarm.Peer(i).filter = [&mute](PeerMessage* message) {
        return !mute || !message->has_checkpoint_done();
      };
    }
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 5; }));
    swarm.RunFor(std::chrono::seconds(9));
    mute = false;
    const std::size_t lower = PeerAt(&swarm, peers, 0, 0), upper = PeerAt(&swarm, peers, 0, 1);
    PeerMessage message;
    message.mutable_link_broken()->set_generation(swarm.View().generation);
    const PeerId& other = swarm.Peer(upper).id;
    message.mutable_link_broken()->set_peer(other.key.data(), other.key.size());
    message.mutable_link_broken()->set_error("reset");
    swarm.Say(lower, message);
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished, std::chrono::minutes(2)))
        << swarm.View().reason;
    EXPECT_EQ(swarm.View().generation, 1u);
    EXPECT_EQ(swarm.View().losses.size(), 5u);
  }
}

// A broken link kills nobody: one pipeline loses nothing either.
TEST(KeptStepsTest, NoStepIsLostWithALink) {
  SimSwarm swarm(SimConfig(3, 1), 331);
  for (int i = 0; i < 3; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 5; }));
  const std::size_t lower = PeerAt(&swarm, 3, 0, 0), upper = PeerAt(&swarm, 3, 0, 1);
  PeerMessage message;
  message.mutable_link_broken()->set_generation(swarm.View().generation);
  const PeerId& other = swarm.Peer(upper).id;
  message.mutable_link_broken()->set_peer(other.key.data(), other.key.size());
  message.mutable_link_broken()->set_error("reset");
  swarm.Say(lower, message);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused, std::chrono::seconds(10)));
  const std::uint64_t reached = swarm.View().step;
  EXPECT_THAT(swarm.View().reason, HasSubstr("kept: the peers that are here hold them"));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::seconds(20)));
  EXPECT_EQ(swarm.View().step, reached);
  EXPECT_TRUE(swarm.Peer(lower).plan.in_place());
  EXPECT_TRUE(swarm.Peer(lower).closings.empty());
  // A second time without a step between: what is in place may be the trouble.
  message.mutable_link_broken()->set_generation(swarm.View().generation);
  swarm.Say(lower, message);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused, std::chrono::seconds(10)));
  const bool same = swarm.View().step == reached;
  EXPECT_THAT(swarm.View().reason, HasSubstr(same ? "are being saved" : "are kept"));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().losses.size(), 30u);
}

// With one pipeline a stage has one member: if it comes back at once, with its process alive, it
// still has everything.
TEST(KeptStepsTest, APeerThatComesBackAtOnceStillHoldsItsSteps) {
  for (const int seconds : {0, 30}) {
    SimSwarm swarm(SimConfig(3, 1), 332);
    for (int i = 0; i < 3; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 5; }));
    const std::size_t away = PeerAt(&swarm, 3, 0, 1);
    swarm.CutOff(away);
    ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused, std::chrono::seconds(10)));
    const std::uint64_t reached = swarm.View().step;
    EXPECT_THAT(swarm.View().reason, HasSubstr("kept if peers that hold them come back"));
    swarm.RunFor(std::chrono::seconds(seconds));
    swarm.Connect(away);
    ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::seconds(20)));
    // Later the others have been told to let go.
    EXPECT_EQ(swarm.View().step, seconds == 0 ? reached : 0);
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  }
}

TEST(KeptStepsTest, DoubtfulStepsAreNotKept) {
  SimSwarm swarm(SimConfig(2, 1), 333);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  swarm.Peer(1).filter = swarm.Peer(0).filter = [](PeerMessage* message) {
    if (message->has_step_ready() && message->step_ready().labels() > 0 &&
        message->step_ready().step() == 5) {
      message->mutable_step_ready()->set_loss_sum(std::nan(""));
    }
    return true;
  };
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_THAT(swarm.View().reason, HasSubstr("5 steps since the start are trained again"));
}

TEST(KeptStepsTest, WhatBecomesOfStepsGoesByTheMethod) {
  constexpr const char *kKept = "are kept", *kAgain = "are trained again";
  for (const auto& [method, fate] : {std::pair{"average", kKept},
                                     {"average:codec=dithered:step=0.3", kKept},
                                     {"cocktail", kKept},
                                     {"powersgd", kKept},
                                     {"qadam:bits=4", kKept},
                                     {"onebit", kKept},
                                     {"marsit", kKept},
                                     {"qsdp", kAgain},
                                     {"average:local_steps=8", kKept}}) {
    SCOPED_TRACE(method);
    RunConfig config = SimConfig(2, 2);
    config.replica_method = method;
    SimSwarm swarm(config, 334);
    for (int i = 0; i < 4; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 5; }));
    swarm.Kill(PeerAt(&swarm, 4, 0, 0));
    const std::size_t other = PeerAt(&swarm, 4, 1, 0);
    ASSERT_TRUE(swarm.RunUntil([&] { return !swarm.Peer(other).last_abort.empty(); }));
    EXPECT_THAT(swarm.Peer(other).last_abort, HasSubstr(fate));
  }
}

// ---- the scheduler is started again

TEST(KeptStepsTest, AfterARestartOfTheSchedulerPeersGoOnInPlace) {
  int went_on = 0;  // with the generation itself: nobody had heard an Apply that others had not
  for (std::uint64_t seed = 340; seed < 380; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const bool two = seed % 2 == 0;
    SimSwarm swarm(SimConfig(two ? 2 : 4, two ? 2 : 1), seed);
    for (int i = 0; i < 4; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 3 + seed % 20; }));
    swarm.RunFor(std::chrono::milliseconds(random() % (seed % 4 < 2 ? 40 : 1000)));
    const RunView before = swarm.View();
    std::uint64_t held = 0;  // some may not have heard the last Apply
    for (std::size_t i = 0; i < 4; ++i) held = std::max(held, swarm.Peer(i).applied);
    swarm.RestartScheduler(true);
    ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::minutes(1)));
    const RunView after = swarm.View();
    EXPECT_EQ(after.step, held);
    went_on += after.generation == before.generation ? 1 : 0;
    EXPECT_TRUE(after.generation == before.generation || swarm.Peer(0).plan.in_place());
    EXPECT_TRUE(swarm.Peer(0).closings.empty());
    for (std::size_t t = 0; t < std::min(after.losses.size(), before.losses.size()); ++t) {
      EXPECT_EQ(after.losses[t], before.losses[t]) << t;
    }
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
    EXPECT_EQ(swarm.View().losses.size(), 30u);
  }
  EXPECT_GT(went_on, 20);
  EXPECT_LT(went_on, 40);
}

// Whatever the method: nobody has to hold or save anything. The step at hand is not begun anew.
TEST(KeptStepsTest, AGenerationOutlivesItsScheduler) {
  for (const char* const method :
       {"average", "qadam:bits=4", "marsit", "qsdp", "average:local_steps=8"}) {
    SCOPED_TRACE(method);
    RunConfig config = SimConfig(2, 2);
    config.replica_method = method;
    SimSwarm swarm(config, 385);
    for (int i = 0; i < 5; ++i) swarm.AddPeer();
    for (const std::uint64_t step : {0u, 4u, 7u, 21u}) {
      ASSERT_TRUE(swarm.RunUntil([&] {
        bool all = swarm.View().state == RunState::kTraining && swarm.View().step == step;
        for (std::size_t i = 0; i < 5; ++i) {
          const SimPeer& peer = swarm.Peer(i);
          all = all && (peer.stage < 0 || (peer.applied == step && peer.plans.contains(step + 2)));
        }
        return all;
      })) << step;
      swarm.RestartScheduler(true);
      ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::seconds(20)));
      EXPECT_EQ(swarm.View().step, step);
    }
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(swarm.Peer(i).gone_on, swarm.Peer(i).stage < 0 ? 0u : 4u) << i;
    }
    EXPECT_EQ(swarm.View().generation, 1u);
    EXPECT_EQ(swarm.View().losses.size(), 30u);
    EXPECT_EQ(swarm.View().m_mismatches, 0u);
  }
}

// Who has not heard it does so first, whoever is ahead: else everybody would wait for each other.
TEST(KeptStepsTest, AnApplyThatOnlySomeHaveHeardEndsTheGenerationWithItsScheduler) {
  for (const int ahead : {0, 1}) {
    SCOPED_TRACE(ahead);
    SimSwarm swarm(SimConfig(1, 2), 387);
    for (int i = 0; i < 2; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntil([&] {
      const auto& a = swarm.Peer(0);
      const auto& b = swarm.Peer(1);
      return a.applied == 12 && b.applied == 12 && a.synced && b.synced && a.plans.contains(14) &&
             b.plans.contains(14);
    }));
    SimPeer& one = swarm.Peer(PeerAt(&swarm, 2, ahead, 0));
    one.plans.erase(12);
    one.synced = false;
    ++one.applied;
    one.losses.push_back(swarm.Loss(12));
    one.last_apply.set_step(12);
    one.last_apply.set_loss(swarm.Loss(12));
    one.last_apply.set_learning_rate(LearningRate(swarm.config(), 12));
    swarm.RestartScheduler(true);
    ASSERT_TRUE(
        swarm.RunUntil([&] { return swarm.View().generation == 2; }, std::chrono::minutes(1)));
    EXPECT_EQ(swarm.View().step, 13u);
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
    EXPECT_EQ(swarm.View().losses.size(), 30u);
    EXPECT_EQ(swarm.Peer(0).gone_on + swarm.Peer(1).gone_on, 0u);
  }
}

// How a step was to be reduced is what members say, and must be what their reports give.
TEST(KeptStepsTest, AnOrderToReduceThatDoesNotFitBeginsTheStepAnew) {
  for (const int liars : {0, 1, 2}) {
    SCOPED_TRACE(liars);
    SimSwarm swarm(SimConfig(1, 2), 388);
    for (int i = 0; i < 2; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntil([&] {
      return swarm.Peer(0).applied == 12 && swarm.Peer(1).applied == 12 && swarm.Peer(0).synced &&
             swarm.Peer(1).synced && swarm.Peer(0).plans.contains(14) &&
             swarm.Peer(1).plans.contains(14);
    }));
    for (int i = 0; i < liars; ++i) {
      control::v1::Reduce& reduce = swarm.Peer(static_cast<std::size_t>(i)).reduces.back();
      reduce.set_labels(reduce.labels() + 1);
    }
    swarm.RestartScheduler(true);
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 13; }, std::chrono::minutes(1)));
    EXPECT_EQ(swarm.View().generation, liars == 0 ? 1u : 2u);
    // One that all tell alike is found out when they have reported.
    EXPECT_EQ(swarm.Peer(0).gone_on, liars == 1 ? 0u : 1u);
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
    EXPECT_EQ(swarm.View().losses.size(), 30u);
  }
}

// A step that a member cannot go on with is begun anew, as is one that the new scheduler would do
// otherwise.
TEST(KeptStepsTest, AGenerationEndsWithItsSchedulerWhereAMemberCannotGoOn) {
  enum class Why { kStops, kPlanned, kConfig, kPaused, kStep };
  for (const Why why : {Why::kStops, Why::kPlanned, Why::kConfig, Why::kPaused, Why::kStep}) {
    SCOPED_TRACE(static_cast<int>(why));
    SimSwarm swarm(SimConfig(2, 2), 386);
    for (int i = 0; i < 4; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntil([&] {
      bool all = swarm.View().step == 12;
      for (std::size_t i = 0; i < 4; ++i) all = all && swarm.Peer(i).plans.contains(14);
      return all;
    }));
    SimPeer& one = swarm.Peer(1);
    one.stops = why == Why::kStops;
    one.paused = why == Why::kPaused;
    if (why == Why::kPlanned) one.plans.erase(14);
    if (why == Why::kStep) {
      one.plans.erase(12);
      ++one.applied;
      one.losses.push_back(swarm.Loss(12));
    }
    if (why == Why::kConfig) one.plan.set_config_hash(one.plan.config_hash() + 1);
    swarm.RestartScheduler(true);
    ASSERT_TRUE(
        swarm.RunUntil([&] { return swarm.View().generation == 2; }, std::chrono::minutes(1)));
    EXPECT_EQ(swarm.View().step, 12u);
    EXPECT_EQ(swarm.Peer(0).gone_on, 0u);
    one.paused = false;
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
    EXPECT_EQ(swarm.View().losses.size(), 30u);
  }
}

TEST(KeptStepsTest, AfterARestartTheOthersGoOnWithWhatOneDoesNotBringBack) {
  for (const bool liar : {false, true}) {
    SimSwarm swarm(SimConfig(2, 2), 361);
    for (int i = 0; i < 5; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 7; }));
    swarm.RunFor(std::chrono::milliseconds(100));
    const std::uint64_t reached = swarm.View().step;
    const std::size_t gone = PeerAt(&swarm, 5, 0, 1), other = PeerAt(&swarm, 5, 1, 1);
    for (std::size_t i = 0; i < 5; ++i) {
      ASSERT_TRUE(swarm.Peer(i).stage < 0 || swarm.Peer(i).applied == reached);
    }
    swarm.Peer(gone).forgets = true;
    if (liar) swarm.Peer(other).losses.back() += 1;
    swarm.RestartScheduler(true);
    ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::minutes(2)));
    // Whose word is right nobody knows: the run goes back.
    EXPECT_EQ(swarm.View().step, liar ? 0 : reached);
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  }
}

// Peers are not to keep a model in memory for a run that waits for somebody.
TEST(KeptStepsTest, NobodyHoldsAStageThatIsNotNeeded) {
  for (const std::uint32_t pipelines : {1u, 2u}) {
    const std::uint32_t stages = 3 - pipelines;
    SimSwarm swarm(SimConfig(stages, pipelines), 335);
    const std::size_t peers = 2;
    for (std::size_t i = 0; i < peers; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 5; }));
    const std::size_t victim = PeerAt(&swarm, peers, 0, stages - 1);
    swarm.Kill(victim);
    if (pipelines > 1) {  // the other of the stage is back at once, and does not want it any more
      const std::size_t other = PeerAt(&swarm, peers, 1, 0);
      swarm.CutOff(other);
      swarm.Peer(other).paused = true;
      swarm.RunFor(std::chrono::milliseconds(100));
      swarm.Connect(other);
    }
    ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
    const auto holders = [&] {
      std::size_t count = 0;
      for (std::size_t i = 0; i < peers; ++i) count += swarm.Peer(i).holds ? 1 : 0;
      return count;
    };
    swarm.RunFor(kReturnGrace / 2);
    EXPECT_EQ(holders(), peers - 1);
    // Saved ones a little longer: they may still be writing.
    swarm.RunFor(kReturnGrace + std::chrono::seconds(9) + (pipelines - 1) * kReleaseAfter);
    EXPECT_EQ(holders(), 0u);
    EXPECT_EQ(swarm.View().state, RunState::kPaused);
    swarm.Connect(victim);
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  }
}

TEST(KeptStepsTest, TheDocumentsSayHowLongPeersMayTake) {
  const auto seconds = [](Duration duration) {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(duration).count()) +
           " s";
  };
  const std::string source = test_support::Environment("SHOAL_SOURCE_DIR");
  const auto operations = ReadFile(source + "/docs/OPERATIONS.md", 1 << 20);
  const auto architecture = ReadFile(source + "/docs/ARCHITECTURE.md", 1 << 20);
  ASSERT_TRUE(operations.ok() && architecture.ok());
  EXPECT_THAT(*operations, HasSubstr("|" + seconds(kReturnGrace) + " to come back"));
  EXPECT_THAT(*operations, HasSubstr("after " + seconds(kRestartGrace) + " those who are back"));
  EXPECT_THAT(*operations, HasSubstr("checkpoint, after " + seconds(kFewerPipelinesAfter)));
  EXPECT_EQ(kLostTogether, std::chrono::milliseconds(500));
  EXPECT_THAT(*operations, HasSubstr("the others go on 0.5 s later"));
  EXPECT_THAT(*operations,
              HasSubstr("again after " + seconds(kBackoffFirst) + " to " + seconds(kBackoffMax)));
  EXPECT_THAT(*architecture, HasSubstr("has " + seconds(kReturnGrace) + " to come back"));
  const std::string few = "fewer than " + std::to_string(kCopiesWanted);
  EXPECT_THAT(*architecture, HasSubstr("a stage has " + few + " copies"));
}

// What a held run waits for is stored once, not with every message that comes meanwhile.
TEST(KeptStepsTest, WaitingForReturnedPeersStoresNoFloodOfEvents) {
  SimSwarm swarm(SimConfig(2, 1), 363);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 5; }));
  swarm.Peer(1).forgets = true;
  swarm.RestartScheduler(true);
  swarm.Order(AdminCommand::Kind::kPause);
  swarm.RunFor(kRestartGrace / 2);
  const std::size_t before = swarm.persisted().size();
  EXPECT_THAT(swarm.View().reason, HasSubstr("paused by the organiser"));
  swarm.RunFor(kRestartGrace / 4);
  EXPECT_EQ(swarm.persisted().size(), before);
}

// Only the last plan's hosts are believed: a stranger that names a stage and steps is not.
TEST(KeptStepsTest, AfterARestartAStrangerHoldsNothing) {
  SimSwarm swarm(SimConfig(2, 1), 362);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().checkpoint_step == 10; }));
  const std::uint64_t generation = swarm.View().generation;
  int strangers = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    SimPeer& peer = swarm.Peer(i);
    if (peer.stage >= 0) {
      swarm.Kill(i);
    } else {  // the spares
      peer.holds = true;
      peer.generation = generation;
      peer.applied = 28;
      peer.pipeline = 0;
      peer.stage = strangers++;
      peer.losses.assign(28, 0.001);
      peer.last_apply.set_step(27);
    }
  }
  swarm.RestartScheduler(true);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining, std::chrono::minutes(2)));
  EXPECT_EQ(swarm.View().step, 10u);
}

}  // namespace
}  // namespace shoal::scheduler
