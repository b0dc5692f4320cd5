// Invited peers that lie: complaints, refusals, losses and norms.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "scheduler/config/swarm_limits.h"
#include "scheduler/steps/plausibility.h"
#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {
namespace {

using control::v1::PeerMessage;
using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;

PeerMessage LinkBroken(const SimPeer& by, const SimPeer& of) {
  PeerMessage message;
  message.mutable_link_broken()->set_generation(by.generation);
  message.mutable_link_broken()->set_peer(of.id.key.data(), of.id.key.size());
  message.mutable_link_broken()->set_error("stalled for 20s");
  return message;
}

// Lies in every generation, as soon as it trains, up to `lies` times.
void LieAboutLinks(SimSwarm* swarm, std::size_t liar, std::size_t honest, int lies) {
  std::uint64_t lied_in = 0;
  for (int said = 0; said < lies;) {
    ASSERT_TRUE(swarm->RunUntil([&] {
      const RunView view = swarm->View();
      return view.state == RunState::kFinished || swarm->Peer(liar).stage < 0 ||
             (view.state == RunState::kTraining && view.generation > lied_in) ||
             (view.state == RunState::kTraining && said >= 3);
    }));
    if (swarm->View().state == RunState::kFinished) return;
    if (swarm->View().state != RunState::kTraining || swarm->Peer(liar).stage < 0) {
      swarm->RunFor(std::chrono::milliseconds(500));
      if (swarm->View().state == RunState::kTraining && swarm->Peer(liar).stage < 0) return;
      continue;
    }
    lied_in = swarm->View().generation;
    swarm->Say(liar, LinkBroken(swarm->Peer(liar), swarm->Peer(honest)));
    swarm->RunFor(std::chrono::milliseconds(200));
    ++said;
  }
}

TEST(SwarmHostileTest, LiesAboutALinkNeverHoldTheRunNorCostTheHonestPeerItsPlace) {
  SimSwarm swarm(SimConfig(2, 1), 201);
  for (int i = 0; i < 3; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t liar = PeerAt(&swarm, 3, 0, 0), honest = PeerAt(&swarm, 3, 0, 1);
  LieAboutLinks(&swarm, liar, honest, 10);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
  EXPECT_EQ(swarm.View().generation, 4u) << "three lies, then a spare has its place";
  EXPECT_EQ(PeerAt(&swarm, 3, 0, 1), honest);
  EXPECT_NE(PeerAt(&swarm, 3, 0, 0), liar);
}

TEST(SwarmHostileTest, WithoutASpareALiarIsNotBelievedAndTheRunGoesOn) {
  SimSwarm swarm(SimConfig(2, 1), 202);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t liar = PeerAt(&swarm, 2, 0, 1), honest = PeerAt(&swarm, 2, 0, 0);
  LieAboutLinks(&swarm, liar, honest, 12);
  EXPECT_EQ(swarm.View().generation, 4u);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
  EXPECT_EQ(swarm.View().generation, 4u);
}

TEST(SwarmHostileTest, AnUnconfirmedComplaintNamesWhoAloneSaysIt) {
  SimSwarm swarm(SimConfig(2, 1), 203);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  swarm.Say(0, LinkBroken(swarm.Peer(0), swarm.Peer(1)));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_THAT(swarm.View().reason, HasSubstr("only peer0 (" + swarm.Peer(0).id.ToShort()));
}

TEST(SwarmHostileTest, ALinkThatBothEndsCallBrokenHoldsTheRunAfterFiveTimes) {
  SimSwarm swarm(SimConfig(2, 1), 204);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  for (std::uint64_t generation = 1; generation <= 5; ++generation) {
    ASSERT_TRUE(swarm.RunUntil([&] {
      return swarm.View().state == RunState::kTraining && swarm.View().generation == generation;
    })) << swarm.View().reason;
    swarm.Say(0, LinkBroken(swarm.Peer(0), swarm.Peer(1)));
    swarm.Say(1, LinkBroken(swarm.Peer(1), swarm.Peer(0)));
  }
  swarm.RunFor(std::chrono::minutes(10));
  EXPECT_EQ(swarm.View().state, RunState::kPaused);
  EXPECT_EQ(swarm.View().generation, 5u);
  EXPECT_THAT(swarm.View().reason, HasSubstr("interruption 5 in a row"));
}

// Its neighbours stand still then, and one of them may be the only one to say so.
TEST(SwarmHostileTest, ADoubtedComplaintCountsWhereTheStepDoesNotEnd) {
  SimSwarm swarm(SimConfig(2, 1), 205);
  for (int i = 0; i < 2; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t one = PeerAt(&swarm, 2, 0, 1), other = PeerAt(&swarm, 2, 0, 0);
  LieAboutLinks(&swarm, one, other, 3);
  ASSERT_TRUE(swarm.RunUntil(
      [&] { return swarm.View().state == RunState::kTraining && swarm.View().generation == 4; }));
  swarm.Say(one, LinkBroken(swarm.Peer(one), swarm.Peer(other)));
  swarm.Peer(one).filter = [](PeerMessage* message) { return message->has_heartbeat(); };
  swarm.RunFor(std::chrono::seconds(30));
  EXPECT_EQ(swarm.View().state, RunState::kTraining);
  EXPECT_THAT(swarm.View().reason, HasSubstr("the run goes on"));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused, TimeoutsOf(kPeerTimeoutDefault).doubt));
  EXPECT_THAT(swarm.View().reason, HasSubstr("the step did not end"));
  swarm.Peer(one).filter = nullptr;
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(SwarmHostileTest, WhoIsComplainedOfBySeveralLosesItsPlaceNotTheyTheirs) {
  SimSwarm swarm(SimConfig(3, 1), 206);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t first = PeerAt(&swarm, 4, 0, 0), ill = PeerAt(&swarm, 4, 0, 1),
                    last = PeerAt(&swarm, 4, 0, 2);
  LieAboutLinks(&swarm, first, ill, 1);
  LieAboutLinks(&swarm, last, ill, 1);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(PeerAt(&swarm, 4, 0, 0), first);
  EXPECT_EQ(PeerAt(&swarm, 4, 0, 2), last);
  EXPECT_NE(PeerAt(&swarm, 4, 0, 1), ill);
}

TEST(SwarmHostileTest, AComplaintAboutALinkThatThePlanDoesNotHaveChangesNothing) {
  SimSwarm swarm(SimConfig(3, 2), 207);
  for (int i = 0; i < 6; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t by = PeerAt(&swarm, 6, 0, 0), of = PeerAt(&swarm, 6, 1, 1);
  for (int i = 0; i < 10; ++i) swarm.Say(by, LinkBroken(swarm.Peer(by), swarm.Peer(of)));
  swarm.Say(by, LinkBroken(swarm.Peer(by), swarm.Peer(by)));
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().generation, 1u);
}

TEST(SwarmHostileTest, TwoKeysThatCallThePlanInvalidAreReplacedAndTheRunGoesOn) {
  SimSwarm swarm(SimConfig(2, 2), 208);
  for (std::size_t i = 0; i < 6; ++i) {
    swarm.AddPeer();
    if (i >= 2) continue;
    swarm.Peer(i).filter = [](PeerMessage* message) {
      if (message->has_plan_ready()) {
        const auto generation = message->plan_ready().generation();
        message->mutable_plan_failed()->set_generation(generation);
        message->mutable_plan_failed()->set_error("invalid argument: I lie");
      }
      return true;
    };
  }
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
  EXPECT_EQ(swarm.View().generation, 3u);
  EXPECT_EQ(swarm.Peer(0).stage, -1);
  EXPECT_EQ(swarm.Peer(1).stage, -1);
}

TEST(SwarmHostileTest, TwoKeysThatCallThePlanInvalidDoNotFailARunWithoutSpares) {
  SimSwarm swarm(SimConfig(2, 2), 209);
  for (std::size_t i = 0; i < 4; ++i) {
    swarm.AddPeer();
    if (i >= 2) continue;
    swarm.Peer(i).filter = [](PeerMessage* message) {
      if (message->has_plan_ready()) {
        const auto generation = message->plan_ready().generation();
        message->mutable_plan_failed()->set_generation(generation);
        message->mutable_plan_failed()->set_error("invalid argument: I lie");
      }
      return true;
    };
  }
  swarm.RunFor(std::chrono::minutes(10));
  EXPECT_EQ(swarm.View().state, RunState::kPaused);
  for (std::size_t i = 0; i < 2; ++i) swarm.Peer(i).filter = nullptr;
  swarm.Order(AdminCommand::Kind::kResume);
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
}

TEST(SwarmHostileTest, KeysThatComeAndGoLeaveNothing) {
  SimSwarm swarm(SimConfig(2, 1), 210);
  for (int i = 0; i < 250; ++i) {
    const std::size_t key = swarm.AddPeer();
    PeerMessage heartbeat;
    heartbeat.mutable_heartbeat()->set_status_json("{\"name\":\"" + std::string(200, 'x') + "\"}");
    swarm.Say(key, heartbeat);
    swarm.RunFor(std::chrono::seconds(1));
    swarm.Kill(key);
  }
  swarm.RunFor(std::chrono::seconds(5));
  std::size_t absent = 0;
  for (const MemberView& member : swarm.View().members) {
    absent += !member.connected && member.stage < 0 ? 1 : 0;
    EXPECT_TRUE(member.connected || member.status_json.empty());
  }
  EXPECT_LE(absent, kAbsentMax);
  EXPECT_GT(absent, kAbsentMax / 2) << "the newest are known yet";
}

// ---- losses and norms ----

RunConfig LongConfig(std::uint32_t stages, std::uint32_t pipelines) {
  RunConfig config = SimConfig(stages, pipelines);
  config.steps = 90;
  return config;
}

void Multiply(SimPeer* peer, std::uint64_t step, double factor) {
  peer->filter = [=](PeerMessage* message) {
    if (message->has_sync_done() && message->sync_done().step() >= step) {
      auto* done = message->mutable_sync_done();
      done->set_squared_norm(done->squared_norm() * factor);
    }
    return true;
  };
}

TEST(SwarmHostileTest, ANormOf1e30IsRefusedNamedAndASpareTakesThePlace) {
  SimSwarm swarm(LongConfig(2, 1), 220);
  for (int i = 0; i < 3; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t liar = PeerAt(&swarm, 3, 0, 1);
  Multiply(&swarm.Peer(liar), 45, 1e30);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_EQ(swarm.View().step, 45u) << "the step is not applied";
  EXPECT_EQ(swarm.View().refused_values, 1u);
  EXPECT_THAT(swarm.View().last_refused, HasSubstr(swarm.Peer(liar).name));
  EXPECT_THAT(swarm.View().reason, HasSubstr("gradient norm of 1e+15 times the usual one"));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
  EXPECT_EQ(swarm.View().generation, 2u);
  EXPECT_NE(PeerAt(&swarm, 3, 0, 1), liar);
}

TEST(SwarmHostileTest, ANormThatOneMemberAloneReportsNamesItAmongThree) {
  SimSwarm swarm(SimConfig(2, 3), 221);
  for (int i = 0; i < 7; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t liar = PeerAt(&swarm, 7, 1, 0);
  Multiply(&swarm.Peer(liar), 3, 1e30);  // before there is a history
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_THAT(swarm.View().last_refused, HasSubstr(swarm.Peer(liar).name));
  EXPECT_THAT(swarm.View().last_refused, HasSubstr("differs from the others"));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.Peer(liar).stage, -1);
}

// All of them sum up what one sent: who reports first is no more to blame.
TEST(SwarmHostileTest, ANormOf1e30ThatAGroupAgreesOnIsNoMembersFault) {
  SimSwarm swarm(LongConfig(2, 3), 228);
  for (int i = 0; i < 6; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  std::vector<std::size_t> group;
  for (int pipeline = 0; pipeline < 3; ++pipeline) group.push_back(PeerAt(&swarm, 6, pipeline, 1));
  for (const std::size_t peer : group) Multiply(&swarm.Peer(peer), 45, 1e30);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().refused_values == 2; }));
  EXPECT_THAT(swarm.View().last_refused, HasSubstr("what one of them sent is wrong"));
  for (const std::size_t peer : group) {
    EXPECT_THAT(swarm.View().last_refused, HasSubstr(swarm.Peer(peer).name));
    swarm.Peer(peer).filter = nullptr;
  }
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
  for (const MemberView& member : swarm.View().members) EXPECT_EQ(member.quarantine, "");
  for (const std::string& event : swarm.persisted()) {
    EXPECT_THAT(event, Not(HasSubstr("\"fault\"")));
  }
}

TEST(SwarmHostileTest, LossesThatCannotBeAreRefusedAndNamed) {
  for (const double loss : {-50.0, -1e30, 1e6, 1e300}) {
    SimSwarm swarm(SimConfig(2, 2), 222);
    for (int i = 0; i < 5; ++i) swarm.AddPeer();
    ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
    const std::size_t liar = PeerAt(&swarm, 5, 0, 1);
    swarm.Peer(liar).filter = [=](PeerMessage* message) {
      if (message->has_step_ready()) message->mutable_step_ready()->set_loss_sum(loss);
      return true;
    };
    ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
    EXPECT_THAT(swarm.View().last_refused, HasSubstr(swarm.Peer(liar).name));
    ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
    EXPECT_EQ(swarm.Peer(liar).stage, -1);
  }
}

TEST(SwarmHostileTest, OnePipelinesLossThatIsNotFiniteDoesNotHoldTheRun) {
  SimSwarm swarm(SimConfig(2, 2), 226);
  for (int i = 0; i < 5; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t liar = PeerAt(&swarm, 5, 0, 1);
  swarm.Peer(liar).filter = [](PeerMessage* message) {
    if (message->has_step_ready()) message->mutable_step_ready()->set_loss_sum(std::nan(""));
    return true;
  };
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_THAT(swarm.View().last_refused, HasSubstr(swarm.Peer(liar).name));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
  EXPECT_EQ(swarm.Peer(liar).stage, -1);
}

// Its values are wrong whenever it computes. A liar says so even where it only follows others.
void LoseGradients(SimPeer* peer, std::uint64_t from, bool lies) {
  peer->filter = [=](PeerMessage* message) {
    if (!message->has_sync_done() || message->sync_done().step() < from) return true;
    const auto plan = peer->plans.find(message->sync_done().step());
    const bool computes = plan != peer->plans.end() &&
                          plan->second.pipelines(peer->pipeline).micro_batches_size() > 0;
    if (computes || lies) message->mutable_sync_done()->set_squared_norm(std::nan(""));
    return true;
  };
}

TEST(SwarmHostileTest, OnePeersGradientsThatAreNotFiniteDoNotHoldTheRun) {
  for (const int peers : {4, 5}) {
    for (const bool lies : {false, true}) {
      SimSwarm swarm(LongConfig(2, 2), 231);
      for (int i = 0; i < peers; ++i) swarm.AddPeer();
      ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
      const std::size_t ill = PeerAt(&swarm, peers, 0, 1);
      LoseGradients(&swarm.Peer(ill), 20, lies);
      std::uint64_t most = 0;
      bool back = false;
      ASSERT_TRUE(swarm.RunUntil(
          [&] {
            const std::uint64_t step = swarm.View().step;
            back = back || step < most;
            most = std::max(most, step);
            return swarm.View().state == RunState::kFinished;
          },
          std::chrono::hours(1)))
          << swarm.View().reason;
      EXPECT_FALSE(back) << "a step was trained again";
      EXPECT_THAT(swarm.View().last_refused, HasSubstr(swarm.Peer(ill).name));
      EXPECT_EQ(swarm.Peer(ill).stage, -1);
      // As often as a peer may have a stage again before it is in quarantine; with a spare, which
      // goes to its place, it has none again.
      const bool spare = peers == 5;
      EXPECT_THAT(swarm.View().skipped_steps, AllOf(Ge(2u), Le(lies || spare ? 2u : 6u)));
      ASSERT_EQ(swarm.View().quarantines.size(), spare ? 0u : 1u);
    }
  }
}

// A sum that another has spoilt is not finite for who follows, too, whoever says so first.
TEST(SwarmHostileTest, WhoFollowsIsNotRefusedForASumThatNobodyFindsFinite) {
  SimSwarm swarm(LongConfig(2, 2), 233);
  for (int i = 0; i < 4; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 7; }));
  const std::size_t victim = PeerAt(&swarm, 4, 0, 1);
  swarm.Kill(victim);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().generation == 2; }));
  swarm.Connect(victim);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().generation == 3; }));
  const std::uint64_t lost = swarm.View().step + 1;
  for (std::size_t i = 0; i < 4; ++i) {
    swarm.Peer(i).filter = [lost](PeerMessage* message) {
      if (message->has_sync_done() && message->sync_done().step() == lost) {
        message->mutable_sync_done()->set_squared_norm(std::nan(""));
      }
      return true;
    };
  }
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
  EXPECT_EQ(swarm.View().skipped_steps, 1u);
  EXPECT_EQ(swarm.View().refused_values, 0u) << swarm.View().last_refused;
  EXPECT_EQ(swarm.View().generation, 3u);
}

// Too high a learning rate spoils the gradients of all.
TEST(SwarmHostileTest, GradientsOfBothPipelinesThatAreNotFiniteHoldTheRun) {
  SimSwarm swarm(LongConfig(2, 2), 232);
  for (int i = 0; i < 5; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  for (const std::uint32_t pipeline : {0u, 1u}) {
    LoseGradients(&swarm.Peer(PeerAt(&swarm, 5, pipeline, 1)), 20, false);
  }
  swarm.RunFor(std::chrono::minutes(5));
  EXPECT_EQ(swarm.View().state, RunState::kPaused);
  EXPECT_THAT(swarm.View().reason, HasSubstr("the gradient is not finite at step 22"));
  EXPECT_EQ(swarm.View().skipped_steps, 2u);
}

// What the others do without it is no fault of the run.
TEST(SwarmHostileTest, WhoFailsAtWhatOthersDoGoesIntoQuarantine) {
  SimSwarm swarm(LongConfig(2, 3), 227);
  for (int i = 0; i < 6; ++i) swarm.AddPeer();
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const std::size_t ill = PeerAt(&swarm, 6, 0, 1);
  swarm.Peer(ill).filter = [](PeerMessage* message) {
    if (!message->has_step_ready()) return true;
    control::v1::PlanFailed failed;
    failed.set_generation(message->step_ready().generation());
    failed.set_error("invalid argument: a value is not finite");
    *message->mutable_plan_failed() = failed;
    return true;
  };
  const auto quarantined = [&] {
    return std::ranges::any_of(swarm.View().members, [&](const MemberView& member) {
      return member.peer == swarm.Peer(ill).id && member.state == "quarantine" &&
             member.quarantine.find("cannot do its part") != std::string::npos;
    });
  };
  EXPECT_TRUE(swarm.RunUntil(quarantined)) << swarm.View().reason;
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
  EXPECT_LE(swarm.View().generation, 8u) << "it does not stutter on";
}

// A stage of two is its own; there is no spare.
struct LonelyLiar {
  explicit LonelyLiar(unsigned seed) : swarm(SimConfig(2, 1), seed) {
    for (int i = 0; i < 2; ++i) swarm.AddPeer();
    EXPECT_TRUE(swarm.RunUntilState(RunState::kTraining));
    liar = PeerAt(&swarm, 2, 0, 1);
    swarm.Peer(liar).filter = [](PeerMessage* message) {
      if (message->has_step_ready()) message->mutable_step_ready()->set_loss_sum(-50);
      return true;
    };
    EXPECT_TRUE(swarm.RunUntil([this] { return View().state == "quarantine"; }));
  }
  MemberView View() {
    for (const MemberView& member : swarm.View().members) {
      if (member.peer == swarm.Peer(liar).id) return member;
    }
    return {};
  }

  SimSwarm swarm;
  std::size_t liar = 0;
};

TEST(SwarmHostileTest, WhoLiesAgainAndAgainGoesIntoQuarantineForAWhile) {
  LonelyLiar test(240);
  EXPECT_EQ(test.swarm.View().refused_values, 3u);
  EXPECT_THAT(test.View().quarantine, HasSubstr("reports a loss of -50"));
  EXPECT_THAT(test.swarm.View().reason, HasSubstr("it is in quarantine for 30m"));
  EXPECT_THAT(test.swarm.View().reason,
              HasSubstr("waiting for 1 more peer (1 of 2 are here), in quarantine: " +
                        test.swarm.Peer(test.liar).name));
  test.swarm.RunFor(std::chrono::minutes(25));
  EXPECT_EQ(test.swarm.View().generation, 3u);
  EXPECT_TRUE(test.swarm.RunUntil([&] { return test.swarm.View().generation == 4; },
                                  std::chrono::minutes(10)));
  EXPECT_EQ(test.View().quarantine, "");
  // It did not learn: twice as long. Five failures in a row hold the run before that.
  const auto held = [&] {
    return test.swarm.View().reason.find("interruption 5 in a row") != std::string::npos;
  };
  ASSERT_TRUE(test.swarm.RunUntil(held));
  test.swarm.Order(AdminCommand::Kind::kResume);
  ASSERT_TRUE(test.swarm.RunUntil([&] { return test.View().state == "quarantine"; }));
  EXPECT_EQ(test.swarm.View().refused_values, 6u);
  EXPECT_THAT(test.swarm.View().reason, HasSubstr("it is in quarantine for 1h"));
}

TEST(SwarmHostileTest, WhoComesBackIsStillInQuarantineAndTheOrganiserMayEndIt) {
  LonelyLiar test(241);
  test.swarm.Kill(test.liar);
  test.swarm.RunFor(std::chrono::minutes(15));  // it is forgotten as a member
  test.swarm.Connect(test.liar);
  test.swarm.RunFor(std::chrono::seconds(10));
  EXPECT_EQ(test.View().state, "quarantine");
  test.swarm.Peer(test.liar).filter = nullptr;
  test.swarm.Release(test.liar);
  EXPECT_EQ(test.View().quarantine, "");
  EXPECT_TRUE(test.swarm.RunUntilState(RunState::kFinished)) << test.swarm.View().reason;
}

TEST(SwarmHostileTest, TheNextSchedulerKnowsWhoIsInQuarantineAndWhoWasPardoned) {
  LonelyLiar test(242);
  test.swarm.RunFor(std::chrono::minutes(10));
  test.swarm.RestartScheduler(true);
  test.swarm.RunFor(std::chrono::seconds(10));
  EXPECT_EQ(test.View().state, "quarantine");
  EXPECT_THAT(test.View().quarantine, HasSubstr("reports a loss of -50"));
  EXPECT_NEAR(test.View().quarantine_s, 20 * 60, 60);
  test.swarm.Kill(test.liar);
  test.swarm.RestartScheduler(true);
  test.swarm.RunFor(std::chrono::seconds(10));
  ASSERT_EQ(test.swarm.View().quarantines.size(), 1u) << "also of one that is not here";
  EXPECT_EQ(test.swarm.View().quarantines[0].peer, test.swarm.Peer(test.liar).id);
  test.swarm.Release(test.liar);
  test.swarm.Peer(test.liar).filter = nullptr;
  test.swarm.RestartScheduler(true);
  test.swarm.Connect(test.liar);
  test.swarm.RunFor(std::chrono::seconds(10));
  EXPECT_EQ(test.View().quarantine, "");
  EXPECT_TRUE(test.swarm.RunUntilState(RunState::kFinished)) << test.swarm.View().reason;
}

TEST(SwarmHostileTest, ALossFarAboveTheRunsAndTheOtherPipelinesIsRefused) {
  for (const bool all : {false, true}) {
    SimSwarm swarm(LongConfig(2, 2), 223);
    for (int i = 0; i < 4; ++i) swarm.AddPeer();
    for (std::size_t i = 0; i < 4; ++i) {
      swarm.Peer(i).filter = [=, &swarm](PeerMessage* message) {
        auto* ready = message->mutable_step_ready();
        const bool once = swarm.View().refused_values == 0;
        const bool high = ready->step() == 60 && (all || (once && swarm.Peer(i).pipeline == 1));
        if (ready->labels() > 0 && high)
          ready->set_loss_sum(90.0 * static_cast<double>(ready->labels()));
        return true;
      };
      const auto inner = swarm.Peer(i).filter;
      swarm.Peer(i).filter = [inner](PeerMessage* message) {
        return !message->has_step_ready() || inner(message);
      };
    }
    ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 60; }));
    swarm.RunFor(std::chrono::seconds(4));
    // What all pipelines report is the model's doing.
    EXPECT_EQ(swarm.View().refused_values, all ? 0u : 1u) << swarm.View().last_refused;
  }
}

// Loss and norms of honest runs: a first phase of large gradients, warm-up, noise of small batches,
// spikes, a loss that falls to nothing, and one that diverges tenfold. Sanitized programs, ten
// times slower, try a tenth of the seeds.
#if defined(SHOAL_SANITIZED)
constexpr std::uint64_t kHonestRuns = 5;
#else
constexpr std::uint64_t kHonestRuns = 50;
#endif

TEST(PlausibilityTest, HonestRunsAreNeverRefused) {
  for (std::uint64_t seed = 0; seed < kHonestRuns; ++seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    Plausibility plausibility(1);
    for (int step = 0; step < 2000; ++step) {
      double norm = (1 + 300 * std::exp(-step / 5.0)) * std::exp(normal(random));
      if (random() % 100 == 0) norm *= 100;  // a spike
      if (step > 1000) norm *= 30;           // the rate was raised
      if (step > 1500) norm *= 1e-5;         // learnt by heart
      double loss = (10 * std::exp(-step / 300.0) + 1e-4) * std::exp(0.3 * normal(random));
      if (random() % 100 == 0) loss += 10;  // a hard sample
      EXPECT_FALSE(plausibility.NormExcess(0, true, norm * norm)) << seed << " " << step;
      EXPECT_TRUE(plausibility.LossFits(loss, {})) << seed << " " << step;
      plausibility.AddNorm(0, true, norm * norm);
      plausibility.AddLoss(loss);
    }
  }
}

TEST(PlausibilityTest, SpeaksOnlyAfter32StepsAndOnlyBeyondTheFactor) {
  Plausibility plausibility(2);
  for (std::size_t step = 0; step < kHistoryArmed; ++step) {
    EXPECT_FALSE(plausibility.NormExcess(1, true, 1e30));
    plausibility.AddNorm(1, true, 4);
  }
  EXPECT_TRUE(plausibility.NormExcess(1, true, 1e30));
  EXPECT_TRUE(plausibility.NormExcess(1, true, 4.1e8));
  EXPECT_FALSE(plausibility.NormExcess(1, true, 3.9e8));
  EXPECT_FALSE(plausibility.NormExcess(0, true, 1e30));
  EXPECT_FALSE(plausibility.NormExcess(1, false, 1e30));
  EXPECT_FALSE(plausibility.NormExcess(1, true, 0));
}

TEST(PlausibilityTest, AFlatLossIsSaidAndAFallingOneIsNot) {
  std::vector<double> flat(kFlatSteps, 2.5), falling;
  for (std::size_t step = 0; step < kFlatSteps; ++step) {
    falling.push_back(3 - 1e-4 * static_cast<double>(step));
  }
  EXPECT_THAT(FlatLossText(flat), HasSubstr("has not fallen for 400 steps"));
  EXPECT_EQ(FlatLossText(falling), "");
  flat.pop_back();
  EXPECT_EQ(FlatLossText(flat), "") << "too short to say";
}

TEST(SwarmHostileTest, AFlatLossIsShownAndTheRunGoesOn) {
  RunConfig config = SimConfig(2, 1);
  config.steps = 450;
  SimSwarm swarm(config, 224);
  for (std::size_t i = 0; i < 2; ++i) {
    swarm.AddPeer();
    swarm.Peer(i).filter = [](PeerMessage* message) {
      if (message->has_step_ready() && message->step_ready().labels() > 0) {
        message->mutable_step_ready()->set_loss_sum(25);
      }
      return true;
    };
  }
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 399; }));
  EXPECT_EQ(swarm.View().warning, "");
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 410; }));
  EXPECT_THAT(swarm.View().warning, HasSubstr("has not fallen"));
  EXPECT_EQ(swarm.View().reason, swarm.View().warning);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().generation, 1u);
}

}  // namespace
}  // namespace shoal::scheduler
