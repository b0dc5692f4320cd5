// Pipelines that lose a member in the midst of a long step: the others keep what they have of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/config/swarm_limits.h"
#include "scheduler/history/run_audit.h"
#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunConfig Long(std::uint32_t pipelines, std::uint64_t steps) {
  RunConfig config = SimConfig(2, pipelines);
  config.steps = steps;
  config.micro_batches = 7;
  config.checkpoint_every = 1000;
  config.train_rows = 50000;
  return config;
}

void ExpectRight(const SimSwarm& swarm) {
  const RunView view = swarm.View();
  for (std::size_t t = 0; t < view.losses.size(); ++t) {
    ASSERT_NEAR(view.losses[t], swarm.Loss(t), 1e-12) << t;
  }
  std::vector<TimedEvent> events;
  for (const std::string& event : swarm.persisted()) events.push_back(*DecodeTimedEvent(event));
  const auto order = FindSampleOrder(events);
  const auto ledger = ReplayLedger(events, order->stages);
  ASSERT_TRUE(ledger.ok()) << ledger.status().ToString();
  const auto audit = AuditLedger(*ledger, *MakeSampleDeal(*order), order->stages);
  ASSERT_TRUE(audit.ok()) << audit.status().ToString();
  EXPECT_EQ(audit->samples,
            swarm.config().steps * swarm.config().micro_batches * swarm.config().micro_batch_rows);
}

class Broken : public ::testing::Test {
 protected:
  // Trains up to the midst of a step of ten seconds.
  void Begin(SimSwarm* swarm, std::size_t peers) {
    for (std::size_t i = 0; i < peers; ++i) swarm->AddPeer();
    swarm->backward_end = [this](int) { return work_; };
    ASSERT_TRUE(swarm->RunUntil([&] { return swarm->View().step == 3; }));
    swarm->RunFor(std::chrono::seconds(5));
    ASSERT_EQ(swarm->View().step, 3u);
  }
  // The rest is short steps.
  void Finish(SimSwarm* swarm) {
    work_ = std::chrono::milliseconds(300);
    ASSERT_TRUE(swarm->RunUntilState(RunState::kFinished)) << swarm->View().reason;
    ExpectRight(*swarm);
  }
  Duration work_ = std::chrono::seconds(10);
};

TEST_F(Broken, TheOthersGoOnWithTheStep) {
  SimSwarm swarm(Long(3, 30), 601);
  Begin(&swarm, 6);
  const std::size_t victim = PeerAt(&swarm, 6, 1, 0), left = PeerAt(&swarm, 6, 1, 1);
  const std::size_t other = PeerAt(&swarm, 6, 0, 0);
  swarm.Kill(victim);
  swarm.RunFor(std::chrono::seconds(2));
  EXPECT_EQ(swarm.View().generation, 1u);
  EXPECT_EQ(swarm.View().state, RunState::kTraining);
  EXPECT_EQ(swarm.Peer(left).plans.at(3).pipelines(1).micro_batches_size(), 0) << "it follows";
  EXPECT_EQ(swarm.Peer(other).plans.at(3).amendment(), 1u);
  ASSERT_EQ(swarm.Peer(other).plans.at(3).lost_size(), 1);
  EXPECT_EQ(swarm.Peer(other).plans.at(3).lost(0).pipeline(), 1u);
  EXPECT_EQ(swarm.Peer(other).plans.at(3).lost(0).stage(), 0u);
  EXPECT_EQ(swarm.Peer(other).plans.at(3).pipelines(1).micro_batches_size(), 0);
  EXPECT_EQ(swarm.Peer(other).plans.at(3).pipelines(0).micro_batches_size(), 4);
  EXPECT_THAT(swarm.View().reason, HasSubstr("2 of 3 pipelines train, since lost peer"));
  EXPECT_THAT(swarm.View().reason, HasSubstr(swarm.Peer(victim).name));
  work_ = std::chrono::milliseconds(300);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 8; }, std::chrono::minutes(1)));
  EXPECT_EQ(swarm.View().generation, 1u);
  EXPECT_GE(swarm.Peer(left).applied, 7u) << "a copy of its stage, though its pipeline has a gap";
  EXPECT_THAT(swarm.View().reason, HasSubstr("follows the others"));
  EXPECT_EQ(swarm.Peer(other).plans.rbegin()->second.amendment(), 0u);
  swarm.RunFor(std::chrono::seconds(2));
  swarm.RestartScheduler(true);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  swarm.RunFor(std::chrono::seconds(1));
  EXPECT_EQ(swarm.View().generation, 1u) << "it knows who is left, and goes on";
  EXPECT_EQ(swarm.Peer(left).gone_on, 1u);
  swarm.Connect(victim);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().reason.empty(); }, std::chrono::minutes(1)));
  EXPECT_EQ(swarm.Peer(victim).pipeline, swarm.Peer(left).pipeline) << "it filled the gap";
  EXPECT_GE(swarm.Peer(left).plan.resume_step(), 8u);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRight(swarm);
}

// Also in the first moments of a step, where the loss of one that counts begins it anew.
TEST_F(Broken, TheLossOfAPeerThatOnlyFollowsBeginsNoStepAnew) {
  SimSwarm swarm(Long(2, 30), 616);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  swarm.backward_end = [this](int) { return work_; };
  work_ = std::chrono::seconds(3);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 3; }));
  const std::size_t victim = PeerAt(&swarm, 4, 1, 0), left = PeerAt(&swarm, 4, 1, 1);
  swarm.Kill(victim);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.Peer(left).plan.positions_size() == 3; }));
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 5; }, std::chrono::minutes(1)));
  const std::uint64_t generation = swarm.View().generation;
  swarm.RunFor(std::chrono::milliseconds(300));
  swarm.Kill(left);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 7; }, std::chrono::minutes(1)));
  EXPECT_EQ(swarm.View().generation, generation);
  for (const auto& event : swarm.persisted()) {
    EXPECT_THAT(event, Not(HasSubstr("dealt_until"))) << "nobody does any of it again";
  }
  Finish(&swarm);
}

control::v1::PeerMessage GaveUp(const SimPeer& of, std::uint64_t generation) {
  control::v1::PeerMessage message;
  message.mutable_link_broken()->set_generation(generation);
  message.mutable_link_broken()->set_peer(of.id.key.data(), of.id.key.size());
  message.mutable_link_broken()->set_error("nothing came");
  message.mutable_link_broken()->set_ended(true);
  return message;
}

// Both live, and the link between them broke: then one of another pipeline is lost.
TEST_F(Broken, WhoCanDoNothingWithoutANeighbourIsCountedOnIfThatOneIsLost) {
  for (const bool neighbour : {true, false}) {  // is it that is lost
    SCOPED_TRACE(neighbour);
    work_ = std::chrono::seconds(10);
    SimSwarm swarm(Long(3, 30), 617);
    Begin(&swarm, 6);
    const std::size_t halts = PeerAt(&swarm, 6, 1, 0), next = PeerAt(&swarm, 6, 1, 1);
    const std::size_t other = PeerAt(&swarm, 6, 2, 0), whole = PeerAt(&swarm, 6, 0, 0);
    control::v1::PeerMessage message = GaveUp(swarm.Peer(next), 1);
    message.mutable_link_broken()->set_ended(false);
    message.mutable_link_broken()->set_halted(true);
    swarm.Say(halts, message);
    swarm.RunFor(std::chrono::milliseconds(300));
    swarm.Kill(neighbour ? next : other);
    swarm.RunFor(std::chrono::seconds(2));
    EXPECT_EQ(swarm.View().generation, 1u);
    ASSERT_EQ(swarm.View().step, 3u);
    EXPECT_EQ(swarm.Peer(whole).plans.at(3).lost_size(), neighbour ? 1 : 2);
    EXPECT_EQ(swarm.Peer(halts).stage, neighbour ? 0 : -1);
    Finish(&swarm);
  }
}

// It said of its weights what no other does, before the others had said anything.
TEST_F(Broken, TheWeightsOfWhoHasLeftAreNotCompared) {
  RunConfig config = Long(3, 30);
  config.weight_check_every = 1;
  SimSwarm swarm(config, 619);
  Begin(&swarm, 6);
  const std::size_t victim = PeerAt(&swarm, 6, 1, 0);
  const std::size_t others[] = {PeerAt(&swarm, 6, 0, 0), PeerAt(&swarm, 6, 2, 0)};
  swarm.Peer(victim).corrupt = true;
  std::vector<std::pair<std::size_t, control::v1::PeerMessage>> said;
  for (const std::size_t other : others) {
    swarm.Peer(other).filter = [&said, other](control::v1::PeerMessage* message) {
      if (message->has_applied()) said.emplace_back(other, *message);
      return !message->has_applied();
    };
  }
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 4; }));
  swarm.RunFor(std::chrono::seconds(7));
  ASSERT_EQ(said.size(), 2u);
  swarm.Kill(victim);
  swarm.RunFor(std::chrono::seconds(1));
  for (const std::size_t other : others) swarm.Peer(other).filter = nullptr;
  for (const auto& [other, message] : said) swarm.Say(other, message);
  swarm.RunFor(std::chrono::seconds(1));
  EXPECT_EQ(swarm.View().generation, 1u);
  EXPECT_EQ(swarm.View().weight_mismatches, 0u) << swarm.View().reason;
  Finish(&swarm);
}

// Who is left of a broken pipeline has no links in it: what they say of each other is no fault.
TEST_F(Broken, WhoIsLeftIsNotBlamedByItsNeighbour) {
  RunConfig config = SimConfig(3, 3);
  config.steps = 30;
  config.micro_batches = 7;
  config.checkpoint_every = 1000;
  config.train_rows = 50000;
  SimSwarm swarm(config, 618);
  Begin(&swarm, 9);
  const std::size_t first = PeerAt(&swarm, 9, 1, 0), second = PeerAt(&swarm, 9, 1, 1);
  control::v1::PeerMessage message = GaveUp(swarm.Peer(second), 1);
  message.mutable_link_broken()->set_ended(false);
  message.mutable_link_broken()->set_halted(true);
  swarm.Kill(PeerAt(&swarm, 9, 1, 2));
  swarm.RunFor(std::chrono::milliseconds(200));
  swarm.Say(first, message);
  swarm.RunFor(std::chrono::seconds(1));
  swarm.Say(first, message);
  swarm.RunFor(std::chrono::seconds(3));
  EXPECT_EQ(swarm.View().generation, 1u) << swarm.View().reason;
  EXPECT_EQ(swarm.Peer(first).stage, 0);
  Finish(&swarm);
}

// The scheduler waited for good for the step of a pipeline whose members had given the generation
// up, as they waited for one that was lost.
TEST_F(Broken, WhoGaveTheGenerationUpIsNotCountedOn) {
  SimSwarm swarm(Long(2, 30), 611);
  Begin(&swarm, 4);
  const std::size_t victim = PeerAt(&swarm, 4, 1, 0), other = PeerAt(&swarm, 4, 0, 0);
  swarm.Say(other, GaveUp(swarm.Peer(victim), 1));
  swarm.RunFor(std::chrono::milliseconds(300));
  swarm.Kill(victim);
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.View().generation == 2; }, std::chrono::seconds(4)));
  Finish(&swarm);
}

TEST_F(Broken, WhoGivesTheGenerationUpLateIsNotCountedOn) {
  SimSwarm swarm(Long(2, 30), 612);
  Begin(&swarm, 4);
  const std::size_t victim = PeerAt(&swarm, 4, 1, 0), other = PeerAt(&swarm, 4, 0, 0);
  swarm.Kill(victim);
  swarm.RunFor(std::chrono::seconds(2));
  ASSERT_EQ(swarm.View().generation, 1u);
  swarm.Say(other, GaveUp(swarm.Peer(victim), 1));
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.View().generation == 2; }, std::chrono::seconds(4)));
  Finish(&swarm);
}

TEST_F(Broken, APipelineThatGaveUpLeavesOnce) {
  SimSwarm swarm(Long(4, 30), 614);
  Begin(&swarm, 8);
  const std::size_t first = PeerAt(&swarm, 8, 1, 0), other = PeerAt(&swarm, 8, 0, 0);
  const std::size_t second = PeerAt(&swarm, 8, 2, 0), left = PeerAt(&swarm, 8, 3, 0);
  swarm.Say(other, GaveUp(swarm.Peer(first), 1));
  swarm.RunFor(std::chrono::milliseconds(300));
  swarm.Kill(first);
  swarm.Kill(PeerAt(&swarm, 8, 0, 1));  // what is left makes no pipeline
  swarm.Kill(other);
  swarm.RunFor(std::chrono::seconds(2));
  ASSERT_EQ(swarm.Peer(left).plans.at(3).lost_size(), 3);
  swarm.Kill(second);
  swarm.RunFor(std::chrono::seconds(2));
  ASSERT_EQ(swarm.View().generation, 1u);
  ASSERT_EQ(swarm.Peer(left).plans.at(3).lost_size(), 1);
  EXPECT_EQ(swarm.Peer(left).plans.at(3).lost(0).pipeline(), 2u);
}

// It was remembered, and the next plan has no such pipeline.
TEST_F(Broken, WhoGaveUpAGenerationThatHasEndedCountsInTheNext) {
  SimSwarm swarm(Long(3, 30), 613);
  for (int i = 0; i < 6; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 5; }));
  const std::size_t victim = PeerAt(&swarm, 6, 2, 0), left = PeerAt(&swarm, 6, 2, 1);
  swarm.Kill(victim);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused, std::chrono::seconds(4)));
  swarm.Say(left, GaveUp(swarm.Peer(victim), 1));
  swarm.backward_end = [this](int) { return work_; };
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.View().generation == 2; }, std::chrono::seconds(4)));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  swarm.RunFor(std::chrono::seconds(5));
  swarm.Kill(PeerAt(&swarm, 6, 1, 0));
  swarm.RunFor(std::chrono::seconds(2));
  EXPECT_EQ(swarm.View().generation, 2u);
  Finish(&swarm);
}

TEST_F(Broken, AShortStepBeginsAnewInPlace) {
  SimSwarm swarm(Long(3, 30), 602);
  for (int i = 0; i < 6; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 5; }));
  swarm.Kill(PeerAt(&swarm, 6, 1, 0));
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.View().generation == 2; }, std::chrono::seconds(4)));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRight(swarm);
}

// What is left of two pipelines makes one: then a new plan has more of them, at once if the step
// ends sooner though it begins anew, else with its end.
TEST_F(Broken, TwoThatMakeAPipelineGetAPlanForIt) {
  for (const bool late : {false, true}) {
    SCOPED_TRACE(late);
    work_ = std::chrono::seconds(10);
    SimSwarm swarm(Long(3, 30), 603);
    Begin(&swarm, 6);
    const std::size_t lower = PeerAt(&swarm, 6, 2, 0), upper = PeerAt(&swarm, 6, 1, 1);
    if (late) swarm.RunFor(std::chrono::seconds(4));
    swarm.Kill(PeerAt(&swarm, 6, 1, 0));
    swarm.Kill(PeerAt(&swarm, 6, 2, 1));
    swarm.RunFor(std::chrono::seconds(4));
    EXPECT_EQ(swarm.View().generation, late ? 1u : 2u);
    EXPECT_EQ(swarm.View().step, 3u);
    ASSERT_TRUE(
        swarm.RunUntil([&] { return swarm.View().generation == 2; }, std::chrono::seconds(20)));
    EXPECT_EQ(swarm.View().step, late ? 4u : 3u);
    swarm.RunFor(std::chrono::seconds(1));
    EXPECT_EQ(swarm.Peer(lower).pipeline, swarm.Peer(upper).pipeline);
    EXPECT_TRUE(swarm.Peer(lower).plan.in_place());
    EXPECT_FALSE(swarm.Peer(lower).shadow);
    Finish(&swarm);
  }
}

// But a step begins anew for that once only: else none would end where peers are lost that often.
TEST_F(Broken, AStepThatBeganAnewGoesOn) {
  SimSwarm swarm(Long(5, 30), 607);
  Begin(&swarm, 10);
  const auto kill = [&](const std::set<Position>& lost) {
    std::vector<std::size_t> victims;
    for (std::size_t i = 0; i < 10; ++i) {
      const SimPeer& peer = swarm.Peer(i);
      const Position at(peer.pipeline, peer.stage);
      if (peer.alive && lost.contains(at)) victims.push_back(i);
    }
    ASSERT_EQ(victims.size(), lost.size());
    for (const std::size_t victim : victims) swarm.Kill(victim);
    swarm.RunFor(std::chrono::seconds(6));
  };
  kill({{1, 0}, {2, 1}, {3, 0}, {4, 1}});
  EXPECT_EQ(swarm.View().generation, 2u);
  kill({{1, 0}, {2, 1}});  // of three pipelines
  EXPECT_EQ(swarm.View().step, 3u);
  EXPECT_EQ(swarm.View().generation, 2u);
  EXPECT_THAT(swarm.View().reason, HasSubstr("1 of 5 pipelines train, since lost peer"));
  Finish(&swarm);
}

// While a newcomer gets its stage, others go: the step goes on, and the newcomer counts at last.
TEST_F(Broken, TheOthersGoOnWithTheStepWhileANewcomerGetsItsStage) {
  for (const bool newcomers : {false, true}) {  // whose pipeline it is that breaks
    SCOPED_TRACE(newcomers);
    SimSwarm swarm(Long(3, 40), 608);
    swarm.catch_up = std::chrono::seconds(60);
    work_ = std::chrono::seconds(10);
    Begin(&swarm, 6);
    swarm.Kill(PeerAt(&swarm, 6, 2, 0));
    swarm.RunFor(std::chrono::seconds(2));
    const std::size_t left = PeerAt(&swarm, 6, 0, 0);
    for (int i = 0; i < 2; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().generation == 2; }));
    swarm.RunFor(std::chrono::seconds(9));  // too late to begin the step anew
    int shadows = 0, broken = -1;
    for (std::size_t i = 0; i < 8; ++i) {
      const SimPeer& peer = swarm.Peer(i);
      shadows += peer.alive && peer.shadow;
      const int stage = newcomers ? 0 : 1;
      if (peer.alive && peer.shadow == newcomers && peer.stage == stage && i != left) {
        broken = static_cast<int>(i);
      }
    }
    ASSERT_GT(shadows, 0);
    ASSERT_GE(broken, 0);
    const std::uint64_t step = swarm.View().step;
    swarm.Kill(static_cast<std::size_t>(broken));
    swarm.RunFor(std::chrono::seconds(3));
    EXPECT_EQ(swarm.View().generation, 2u);
    EXPECT_EQ(swarm.View().step, step);
    Finish(&swarm);
  }
}

// It is back before anything is decided, as a new process that holds nothing.
TEST_F(Broken, OneThatComesBackEmptyIsNoHolder) {
  SimSwarm swarm(Long(3, 30), 609);
  Begin(&swarm, 6);
  const std::size_t back = PeerAt(&swarm, 6, 1, 0);
  swarm.Kill(PeerAt(&swarm, 6, 2, 1));
  swarm.CutOff(back);
  swarm.Peer(back).forgets = true;
  swarm.RunFor(std::chrono::milliseconds(100));
  swarm.Connect(back);
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.View().generation == 2; }, std::chrono::seconds(4)));
  swarm.RunFor(std::chrono::seconds(1));
  EXPECT_EQ(swarm.Peer(back).stage, -1) << "what was left of the two makes a pipeline";
  Finish(&swarm);
}

// It is back before the others have gone on without it, and wants no stage.
TEST_F(Broken, OneThatComesBackPausedDoesNotEndTheStep) {
  SimSwarm swarm(Long(3, 30), 605);
  Begin(&swarm, 6);
  const std::size_t victim = PeerAt(&swarm, 6, 1, 0);
  swarm.CutOff(victim);
  swarm.Peer(victim).paused = true;
  swarm.RunFor(std::chrono::milliseconds(200));
  swarm.Connect(victim);
  swarm.RunFor(std::chrono::seconds(2));
  EXPECT_EQ(swarm.View().generation, 1u);
  EXPECT_THAT(swarm.View().reason, HasSubstr("2 of 3 pipelines train, since lost peer"));
  Finish(&swarm);
}

// It had agreed on the step before its pipeline left, and comes back to a scheduler that knows it
// from its log alone: what it holds are not the sums of those who went on.
TEST_F(Broken, WhoLeftDoesNotApplyWhatTheOthersAgreedOnLater) {
  SimSwarm swarm(Long(3, 30), 606);
  Begin(&swarm, 6);
  const std::size_t victim = PeerAt(&swarm, 6, 1, 0), other = PeerAt(&swarm, 6, 0, 0);
  const std::size_t neighbour = PeerAt(&swarm, 6, 1, 1);
  swarm.Peer(victim).filter = [](control::v1::PeerMessage* message) {
    return !message->has_sync_done();
  };
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.Peer(victim).synced; }, std::chrono::minutes(1)));
  swarm.RunFor(std::chrono::seconds(1));
  swarm.CutOff(victim);
  swarm.Kill(neighbour);  // or the generation ended with the step, so that it follows
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 4; }, std::chrono::minutes(1)));
  ASSERT_EQ(swarm.View().generation, 1u);
  swarm.RunFor(std::chrono::seconds(1));
  ASSERT_EQ(swarm.Peer(other).applied, 4u);
  ASSERT_TRUE(swarm.Peer(victim).synced);
  swarm.Peer(victim).filter = nullptr;
  const TimePoint restarted = swarm.now();
  swarm.RestartScheduler(true);
  swarm.Connect(victim);
  work_ = std::chrono::milliseconds(300);
  ASSERT_TRUE(
      swarm.RunUntil([&] { return swarm.View().generation == 2; }, std::chrono::minutes(1)));
  EXPECT_LT(swarm.now() - restarted, kRestartGrace) << "nobody waits for who has left";
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  ExpectRight(swarm);
}

// The same stage of two pipelines: both leave, one is left.
TEST_F(Broken, TwoLeaveTogether) {
  SimSwarm swarm(Long(3, 30), 604);
  Begin(&swarm, 6);
  const std::size_t other = PeerAt(&swarm, 6, 0, 0);
  swarm.Kill(PeerAt(&swarm, 6, 1, 1));
  swarm.Kill(PeerAt(&swarm, 6, 2, 1));
  swarm.RunFor(std::chrono::seconds(2));
  EXPECT_EQ(swarm.View().generation, 1u);
  EXPECT_EQ(swarm.Peer(other).plans.at(3).pipelines(0).micro_batches_size(), 7);
  Finish(&swarm);
}

// While gradients are exchanged, and with reports of the step under way.
TEST_F(Broken, AtAnyMoment) {
#if defined(SHOAL_SANITIZED)
  constexpr std::uint64_t kSeeds = 10;  // programs are ten times slower
#else
  constexpr std::uint64_t kSeeds = 60;
#endif
  std::uint64_t amended = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RunConfig config = Long(4, 25);
    if (seed % 3 == 0) config.checkpoint_every = 4;
    SimSwarm swarm(config, seed);
    std::mt19937_64 random(seed);
    constexpr std::size_t kPeers = 9;
    for (std::size_t i = 0; i < kPeers; ++i) swarm.AddPeer();
    swarm.backward_end = [&](int) { return std::chrono::milliseconds(500 + random() % 9000); };
    for (int fault = 0; fault < 12 && swarm.View().state != RunState::kFinished; ++fault) {
      swarm.RunFor(std::chrono::milliseconds(random() % 20000));
      const std::size_t victim = random() % kPeers;
      switch (random() % 8) {
        case 0: swarm.RestartScheduler(true); break;
        case 1: swarm.CutOff(victim); break;
        default: swarm.Kill(victim);
      }
      if (random() % 3 > 0) swarm.RunFor(std::chrono::milliseconds(random() % 30000));
      swarm.Connect(victim);
    }
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished, std::chrono::hours(3)))
        << swarm.View().reason;
    ExpectRight(swarm);
    for (const std::string& event : swarm.persisted()) {
      amended += event.find("dealt_until") != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_GT(amended, kSeeds);
}

}  // namespace
}  // namespace shoal::scheduler
