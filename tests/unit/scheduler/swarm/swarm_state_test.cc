// The run of a healthy swarm, admission, restarts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {
namespace {

using control::v1::PeerMessage;
using ::testing::HasSubstr;

void AddPeers(SimSwarm* swarm, int count) {
  for (int i = 0; i < count; ++i) swarm->AddPeer();
}

// In a known order: the delays of peers that come together are drawn.
void AddPeersInTurn(SimSwarm* swarm, int count) {
  for (int i = 0; i < count; ++i) {
    swarm->AddPeer();
    swarm->RunFor(std::chrono::milliseconds(300));
  }
}

PeerMessage HelloMessage() {
  PeerMessage message;
  message.mutable_hello()->set_protocol(net::kProtocolVersion);
  message.mutable_hello()->set_listen_port(1);
  return message;
}

TEST(SwarmStateTest, PlanFreezesTheVarianceAfterTheWarmUpOfTheRate) {
  RunConfig config = SimConfig(1, 2);
  config.replica_method = "qadam:bits=4";
  config.warmup_steps = 17;
  SimSwarm swarm(config, 5);
  AddPeers(&swarm, 2);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  EXPECT_EQ(swarm.Peer(0).plan.config().replica_method(),
            "qadam:bits=4,bucket=512,start=17,refresh=off");
}

TEST(SwarmStateTest, StagesOfPowerSgdAreDecidedOncePerGeneration) {
  RunConfig config = SimConfig(3, 2);
  config.replica_method = "powersgd:rank=4,start=12,stages=auto";
  SimSwarm swarm(config, 5);
  // As with 1F1B: the last stage's backward ends first, the first one's last.
  swarm.backward_end = [](int stage) {
    return std::chrono::milliseconds(stage == 0 ? 1000 : 600 / stage);
  };
  AddPeers(&swarm, 6);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step >= 16; }));
  swarm.RestartScheduler(true);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
  for (std::size_t p = 0; p < 6; ++p) {
    const SimPeer* peer = &swarm.Peer(p);
    std::uint64_t first = 0;  // of the generation
    for (std::size_t i = 0; i < peer->reduces.size(); ++i) {
      const control::v1::Reduce& reduce = peer->reduces[i];
      if (i == 0 || reduce.generation() != peer->reduces[i - 1].generation()) first = reduce.step();
      const std::vector<std::uint32_t> exact(reduce.exact_stages().begin(),
                                             reduce.exact_stages().end());
      // Stages 0, 1 and 2 have their gradients after 1000, 600 and 300 ms. An exact exchange takes
      // them 900, 450 and 300 ms, factors 360, 180 and 120 ms. With factors everywhere stage 0 is
      // the last one, after 1360 ms. Exact exchanges end at 1900, 1050 and 600 ms, so only stage 0
      // gains by factors.
      const bool decided = reduce.step() >= std::max<std::uint64_t>(12, first + 3);
      EXPECT_EQ(exact, decided ? (std::vector<std::uint32_t>{1, 2})
                               : (std::vector<std::uint32_t>{0, 1, 2}))
          << reduce.generation() << " step " << reduce.step();
    }
    EXPECT_GT(peer->reduces.back().generation(), peer->reduces.front().generation());
  }
}

class SwarmSeeds : public ::testing::TestWithParam<int> {};

TEST_P(SwarmSeeds, TrainsToTheEnd) {
  SimSwarm swarm(SimConfig(3, 2), static_cast<std::uint64_t>(GetParam()));
  AddPeers(&swarm, 6);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished)) << swarm.View().reason;
  const RunView view = swarm.View();
  EXPECT_EQ(view.step, 30u);
  EXPECT_EQ(view.generation, 1u);
  EXPECT_EQ(view.checkpoint_step, 30u);
  ASSERT_EQ(view.losses.size(), 30u);
  for (std::size_t t = 0; t < view.losses.size(); ++t) {
    // Token mean over the labels of both pipelines.
    EXPECT_DOUBLE_EQ(view.losses[t], swarm.Loss(t));
  }
  // Two boundaries, two pipelines, each step; weights at the checkpoints, once per stage.
  EXPECT_EQ(view.m_checks, 30u * 4u);
  EXPECT_EQ(view.m_mismatches, 0u);
  EXPECT_EQ(view.weight_checks, 3u * swarm.checkpoints().size());
  EXPECT_EQ(view.weight_mismatches, 0u);
  EXPECT_EQ(swarm.checkpoints().back(), 30u);
  EXPECT_GT(view.samples_per_second, 0);
  swarm.RunFor(std::chrono::seconds(1));
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(swarm.Peer(static_cast<std::size_t>(i)).finished);
    EXPECT_EQ(swarm.Peer(static_cast<std::size_t>(i)).status.state(), "finished");
  }
  const auto weights = swarm.state().CurrentWeights();
  EXPECT_TRUE(weights.contains("layer.5.optimizer"));
  EXPECT_TRUE(weights.contains("head"));
  EXPECT_FALSE(weights.contains("data"));
}

INSTANTIATE_TEST_SUITE_P(Seeds, SwarmSeeds, ::testing::Range(1, 6));

TEST(SwarmStateTest, ApplyCarriesGlobalNormLossAndRate) {
  RunConfig config = SimConfig(2, 1);
  config.steps = 1;
  auto state = NewSwarmState(config, SimArtefacts(config));
  TimePoint now{std::chrono::seconds(5)};
  std::vector<Action> actions;
  const auto say = [&](ConnectionId id, const PeerMessage& message) {
    actions = state->Handle(PeerMessageReceived{id, message}, now);
  };
  for (ConnectionId id : {1, 2}) {
    state->Handle(PeerConnected{id, SimPeerId(static_cast<std::uint32_t>(id)), "h"}, now);
    say(id, HelloMessage());
  }
  PeerMessage message;
  message.mutable_plan_ready()->set_generation(1);
  for (ConnectionId id : {1, 2}) say(id, message);
  control::v1::StepReady* ready = message.mutable_step_ready();
  ready->set_generation(1);
  ready->set_micro_batches(6);
  say(1, message);
  ready->set_labels(8);
  ready->set_loss_sum(16);
  say(2, message);
  control::v1::SyncDone* done = message.mutable_sync_done();
  done->set_generation(1);
  done->set_squared_norm(9);
  say(1, message);
  done->set_squared_norm(16);
  say(2, message);
  std::vector<control::v1::Apply> applies;
  for (const Action& action : actions) {
    const auto* send = std::get_if<SendTo>(&action);
    if (send != nullptr && send->message.has_apply()) applies.push_back(send->message.apply());
  }
  ASSERT_EQ(applies.size(), 2u);
  for (const control::v1::Apply& apply : applies) {
    EXPECT_DOUBLE_EQ(apply.global_norm(), 5.0 / 8);  // sqrt(9 + 16) / labels
    EXPECT_DOUBLE_EQ(apply.loss(), 2.0);
    EXPECT_EQ(apply.labels(), 8u);
    EXPECT_DOUBLE_EQ(apply.learning_rate(), LearningRate(config, 0));
    EXPECT_TRUE(apply.checkpoint());  // the last step
  }
}

TEST(SwarmStateTest, PlanNamesPositionsAndEveryStagesArtefacts) {
  SimSwarm swarm(SimConfig(3, 1), 3);
  AddPeersInTurn(&swarm, 4);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const auto names = [&](std::size_t peer) {
    std::set<std::string> set;
    for (const auto& artefact : swarm.Peer(peer).plan.artefacts()) set.insert(artefact.name());
    return set;
  };
  EXPECT_EQ(names(0), (std::set<std::string>{"embedding", "layer.0", "layer.1", "data"}));
  EXPECT_EQ(names(1), (std::set<std::string>{"layer.2", "layer.3"}));
  EXPECT_EQ(names(2), (std::set<std::string>{"layer.4", "layer.5", "head", "data"}));
  const auto& plan = swarm.Peer(1).plan;
  ASSERT_EQ(plan.positions_size(), 3);
  EXPECT_EQ(plan.positions(1).first_layer(), 2u);
  EXPECT_EQ(plan.positions(1).last_layer(), 4u);
  EXPECT_EQ(plan.positions(0).addresses(0), "10.0.0.0:9000");
  EXPECT_EQ(swarm.View().members.at(3).stage, -1);  // came too late: a spare
}

TEST(SwarmStateTest, WaitsForOrderWithoutAutoStart) {
  RunConfig config = SimConfig(2, 1);
  config.auto_start = false;
  SimSwarm swarm(config, 1);
  AddPeers(&swarm, 2);
  swarm.RunFor(std::chrono::seconds(20));
  EXPECT_EQ(swarm.View().state, RunState::kWaiting);
  EXPECT_THAT(swarm.View().reason, HasSubstr("shoal swarm start"));
  swarm.Order(AdminCommand::Kind::kStart);
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(SwarmStateTest, PauseSavesACheckpointFirstAndLosesNothing) {
  SimSwarm swarm(SimConfig(2, 1), 4);
  AddPeers(&swarm, 2);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 4; }));
  swarm.Order(AdminCommand::Kind::kPause);
  EXPECT_EQ(swarm.View().state, RunState::kTraining);
  EXPECT_THAT(swarm.View().reason, HasSubstr("pausing"));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_EQ(swarm.View().checkpoint_step, 5u);
  EXPECT_THAT(swarm.View().reason, HasSubstr("shoal swarm resume"));
  swarm.RunFor(std::chrono::minutes(2));
  EXPECT_EQ(swarm.View().state, RunState::kPaused);
  EXPECT_EQ(swarm.Peer(0).status.state(), "paused");
  swarm.Order(AdminCommand::Kind::kResume);
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(SwarmStateTest, SecondPauseOrderLosesNoStep) {
  SimSwarm swarm(SimConfig(2, 1), 4);
  AddPeers(&swarm, 2);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 4; }));
  swarm.Order(AdminCommand::Kind::kPause);
  swarm.Order(AdminCommand::Kind::kPause);
  EXPECT_EQ(swarm.View().state, RunState::kTraining);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  EXPECT_EQ(swarm.View().checkpoint_step, 5u);
}

TEST(SwarmStateTest, ResumeTakesAnOrderedPauseBack) {
  SimSwarm swarm(SimConfig(2, 1), 4);
  AddPeers(&swarm, 2);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 4; }));
  swarm.Order(AdminCommand::Kind::kPause);
  swarm.Order(AdminCommand::Kind::kResume);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().generation, 1u);
}

// ---- admission ----

struct Admission {
  Admission() : config(SimConfig(2, 1)), state(NewSwarmState(config, SimArtefacts(config))) {
    state->Handle(PeerConnected{7, SimPeerId(1), "host"}, TimePoint{});
  }
  void Say(const PeerMessage& message) {
    refused.Clear();
    disconnected = false;
    for (const Action& action : state->Handle(PeerMessageReceived{7, message}, TimePoint{})) {
      if (const auto* send = std::get_if<SendTo>(&action)) {
        if (send->message.has_refused()) refused = send->message.refused();
      }
      disconnected |= std::holds_alternative<Disconnect>(action);
    }
  }
  RunConfig config;
  std::unique_ptr<SwarmState> state;
  control::v1::Refused refused;
  bool disconnected = false;
};

TEST(AdmissionTest, OtherProtocolVersionNamesBoth) {
  Admission test;
  PeerMessage message = HelloMessage();
  message.mutable_hello()->set_protocol(net::kProtocolVersion + 41);
  test.Say(message);
  EXPECT_EQ(test.refused.code(), static_cast<int>(StatusCode::kFailedPrecondition));
  EXPECT_THAT(test.refused.error(), HasSubstr("version " + std::to_string(net::kProtocolVersion)));
  EXPECT_THAT(test.refused.error(),
              HasSubstr("version " + std::to_string(net::kProtocolVersion + 41)));
  EXPECT_TRUE(test.disconnected);
  EXPECT_FALSE(test.state->IsMember(SimPeerId(1)));
}

TEST(AdmissionTest, OtherRunNamesBoth) {
  Admission test;
  PeerMessage message = HelloMessage();
  message.mutable_hello()->set_run(5);
  test.Say(message);
  EXPECT_THAT(test.refused.error(), HasSubstr(RunId{5}.ToHex()));
  EXPECT_THAT(test.refused.error(), HasSubstr(test.config.run.ToHex()));
}

TEST(AdmissionTest, ARightHelloIsWelcomed) {
  Admission test;
  test.Say(HelloMessage());
  EXPECT_FALSE(test.disconnected);
  EXPECT_TRUE(test.state->IsMember(SimPeerId(1)));
}

TEST(AdmissionTest, FirstMessageMustBeAHello) {
  Admission test;
  PeerMessage message;
  message.mutable_heartbeat();
  test.Say(message);
  EXPECT_TRUE(test.disconnected);
}

TEST(AdmissionTest, ConnectionWithoutHelloIsClosed) {
  Admission test;
  bool closed = false;
  for (const Action& action : test.state->Handle(Tick{}, TimePoint{std::chrono::seconds(11)})) {
    closed |= std::holds_alternative<Disconnect>(action);
  }
  EXPECT_TRUE(closed);
}

TEST(AdmissionTest, NewerConnectionOfAPeerReplacesTheOlder) {
  SimSwarm swarm(SimConfig(2, 1), 8);
  AddPeers(&swarm, 2);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  const auto place = swarm.View().members.at(0).stage;
  swarm.Connect(0);  // the old connection is still open
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.disconnects() == 1; }));
  EXPECT_EQ(swarm.View().state, RunState::kPaused);
  EXPECT_THAT(swarm.View().reason, HasSubstr("connected again"));
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().members.size(), 2u);
  EXPECT_EQ(swarm.View().members.at(0).stage, place);
}

TEST(SwarmStateTest, AThousandPeersJoin) {
  SimSwarm swarm(SimConfig(2, 2), 9);
  AddPeers(&swarm, 1000);
  swarm.RunFor(std::chrono::seconds(1));
  EXPECT_EQ(swarm.View().members.size(), 1000u);
  for (int i = 0; i < 30 && swarm.View().state != RunState::kFinished; ++i) {
    swarm.RunFor(std::chrono::seconds(2));
  }
  EXPECT_EQ(swarm.View().state, RunState::kFinished);
  int placed = 0;
  for (const MemberView& member : swarm.View().members) placed += member.stage >= 0 ? 1 : 0;
  EXPECT_EQ(placed, 4);
  EXPECT_EQ(swarm.View().generation, 1u);
}

TEST(SwarmStateTest, PausedMembersGetNoStage) {
  SimSwarm swarm(SimConfig(2, 1), 9);
  swarm.AddPeer();
  PeerMessage pause = HelloMessage();
  pause.mutable_hello()->set_paused(true);
  swarm.AddPeer();
  swarm.Say(1, pause);
  swarm.Peer(1).paused = true;
  swarm.RunFor(std::chrono::milliseconds(700));
  if (swarm.View().generation == 0) {
    swarm.RunFor(std::chrono::seconds(10));
  }
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().state != RunState::kPreparing; }));
  EXPECT_FALSE(swarm.View().members.at(1).wants_stage);
  EXPECT_THAT(swarm.View().reason, HasSubstr("1 of 2 are here"));
  swarm.AddPeer();
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().members.at(1).stage, -1);
}

// ---- restart ----

void ExpectSameHistory(const RunView& a, const RunView& b) {
  EXPECT_EQ(a.state, b.state);
  EXPECT_EQ(a.generation, b.generation);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.checkpoint_step, b.checkpoint_step);
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.loss, b.loss);
}

TEST(RestartTest, ReplayGivesTheSameView) {
  SimSwarm swarm(SimConfig(2, 2), 10);
  AddPeers(&swarm, 4);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().checkpoint_step == 10; }));
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step >= 14; }));
  swarm.Kill(2);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kPaused));
  auto restored = NewSwarmState(swarm.config(), SimArtefacts(swarm.config()));
  ASSERT_TRUE(swarm.RestoreInto(restored.get()).ok());
  ExpectSameHistory(swarm.View(), restored->View(swarm.now()));
  EXPECT_THAT(restored->View(swarm.now()).reason, HasSubstr("started again"));

  ASSERT_EQ(swarm.state().CurrentWeights().size(), restored->CurrentWeights().size());
  for (const auto& [name, artefact] : swarm.state().CurrentWeights()) {
    EXPECT_EQ(artefact.hash(), restored->CurrentWeights().at(name).hash());
  }
  swarm.Connect(2);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  auto finished = NewSwarmState(swarm.config(), SimArtefacts(swarm.config()));
  ASSERT_TRUE(swarm.RestoreInto(finished.get()).ok());
  ExpectSameHistory(swarm.View(), finished->View(swarm.now()));
}

TEST(RestartTest, RunGoesOnFromTheLastCheckpoint) {
  SimSwarm swarm(SimConfig(2, 1), 11);
  AddPeers(&swarm, 3);
  ASSERT_TRUE(swarm.RunUntil([&] { return swarm.View().step == 17; }));
  for (std::size_t i = 0; i < 3; ++i) swarm.Peer(i).forgets = true;
  swarm.RestartScheduler(true);
  EXPECT_EQ(swarm.View().state, RunState::kPaused);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  EXPECT_EQ(swarm.View().step, 10u);
  EXPECT_EQ(swarm.View().generation, 2u);
  bool optimizer = false;
  for (const MemberView& member : swarm.View().members) {
    if (member.stage != 0) continue;
    for (std::size_t i = 0; i < 3; ++i) {
      if (!(swarm.Peer(i).id == member.peer)) continue;
      for (const auto& artefact : swarm.Peer(i).plan.artefacts()) {
        optimizer |= artefact.name() == "layer.0.optimizer";
      }
      EXPECT_EQ(swarm.Peer(i).plan.resume_step(), 10u);
    }
  }
  EXPECT_TRUE(optimizer);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  EXPECT_EQ(swarm.View().losses.size(), 30u);
}

TEST(RestartTest, OrderedPauseSurvives) {
  SimSwarm swarm(SimConfig(2, 1), 12);
  AddPeers(&swarm, 2);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  swarm.Order(AdminCommand::Kind::kPause);
  swarm.RestartScheduler(true);
  swarm.RunFor(std::chrono::minutes(1));
  EXPECT_EQ(swarm.View().state, RunState::kPaused);
  swarm.Order(AdminCommand::Kind::kResume);
  EXPECT_TRUE(swarm.RunUntilState(RunState::kFinished));
}

TEST(RestartTest, RefusesAnotherModelAndDamagedLogs) {
  SimSwarm swarm(SimConfig(2, 1), 13);
  AddPeers(&swarm, 2);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kTraining));
  RunConfig other = swarm.config();
  other.seed = 77;
  auto state = NewSwarmState(other, SimArtefacts(other));
  const Status changed = state->Restore(swarm.persisted().front(), {});
  EXPECT_EQ(changed.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(changed.message(), HasSubstr("seed"));
  state = NewSwarmState(swarm.config(), SimArtefacts(swarm.config()));
  EXPECT_EQ(state->Restore(swarm.persisted().back(), {}).code(), StatusCode::kDataLoss);
  EXPECT_EQ(state->Restore("not an event", {}).code(), StatusCode::kDataLoss);
}

TEST(RestartTest, AFinishedRunTellsPeersThatComeBack) {
  SimSwarm swarm(SimConfig(2, 1), 14);
  AddPeers(&swarm, 2);
  ASSERT_TRUE(swarm.RunUntilState(RunState::kFinished));
  swarm.RestartScheduler(true);
  EXPECT_EQ(swarm.View().state, RunState::kFinished);
  swarm.Peer(0).finished = false;
  swarm.RunFor(std::chrono::seconds(20));
  EXPECT_TRUE(swarm.Peer(0).finished);
}

TEST(SwarmStateTest, TooLittleDataFailsWithTheCause) {
  RunConfig config = SimConfig(2, 1);
  config.train_rows = 3;
  auto state = NewSwarmState(config, SimArtefacts(config));
  EXPECT_EQ(state->View(TimePoint{}).state, RunState::kFailed);
  EXPECT_THAT(state->View(TimePoint{}).reason, HasSubstr("run.toml"));
}

}  // namespace
}  // namespace shoal::scheduler
