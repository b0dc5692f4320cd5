// LANs of stage groups from the round-trip times that simulated peers measure.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/scheduler/sim_swarm.h"

namespace shoal::scheduler {
namespace {

using control::v1::PeerMessage;
using ::testing::HasSubstr;
using Lans = std::vector<std::uint32_t>;

std::string Bytes(const PeerId& peer) { return {peer.key.begin(), peer.key.end()}; }

RunConfig AutoConfig(std::uint32_t stages, std::uint32_t pipelines) {
  RunConfig config = SimConfig(stages, pipelines);
  config.replica_method = "qsdp:lan=auto";
  return config;
}

// Peers in houses: each measures the members of its stage group when it has a plan.
class Street {
 public:
  Street(const RunConfig& config, std::uint64_t seed) : swarm(config, seed) {}

  void Add(int house) {
    const std::size_t index = swarm.AddPeer();
    houses.push_back(house);
    swarm.Peer(index).filter = [this, index](PeerMessage* message) {
      if (message->has_plan_ready()) Measure(index, message->mutable_plan_ready());
      return true;
    };
    swarm.RunFor(std::chrono::milliseconds(300));  // they join in turn
  }
  void Measure(std::size_t index, control::v1::PlanReady* ready) {
    for (const auto& position : swarm.Peer(index).plan.positions()) {
      for (std::size_t other = 0; other < houses.size(); ++other) {
        const bool group = static_cast<int>(position.stage()) == swarm.Peer(index).stage;
        if (other == index || !group || Bytes(swarm.Peer(other).id) != position.peer()) continue;
        control::v1::RoundTrip* trip = ready->add_round_trips();
        trip->set_peer(position.peer());
        const double noise = 0.1 * static_cast<double>((7 * index + 3 * other) % 5);
        trip->set_ms((houses[index] == houses[other] ? 0.4 : 25) + noise);
      }
    }
  }
  // Whether all peers have the newest plan, and what it says of the LANs of a stage's peers.
  Lans PlanOf(std::uint32_t stage) {
    std::vector<Lans> seen;
    for (std::size_t i = 0; i < houses.size(); ++i) {
      if (!swarm.Peer(i).alive) continue;
      Lans lans(swarm.config().pipelines);
      for (const auto& position : swarm.Peer(i).plan.positions()) {
        if (position.stage() == stage) lans[position.pipeline()] = position.lan();
      }
      seen.push_back(lans);
    }
    for (const Lans& lans : seen) EXPECT_EQ(lans, seen.front()) << "the same for all";
    EXPECT_EQ(seen.front(), swarm.View().lans[stage]);
    return seen.front();
  }
  bool Trains() {
    return swarm.RunUntil([&] { return swarm.View().step > 3; });
  }

  SimSwarm swarm;
  std::vector<int> houses;
};

TEST(SwarmLansTest, TwoNearAndTwoFarAreFoundAndPlannedOnce) {
  Street street(AutoConfig(1, 4), 1);
  for (const int house : {1, 2, 1, 3}) street.Add(house);
  ASSERT_TRUE(street.Trains()) << street.swarm.View().reason;
  EXPECT_EQ(street.PlanOf(0), (Lans{1, 0, 1, 0}));
  EXPECT_EQ(street.swarm.View().generation, 2u) << "one plan without, one with it";
  EXPECT_THAT(street.swarm.Peer(0).last_abort, HasSubstr("share a LAN"));
  ASSERT_TRUE(street.swarm.RunUntilState(RunState::kFinished)) << street.swarm.View().reason;
  EXPECT_EQ(street.swarm.View().generation, 2u);
}

TEST(SwarmLansTest, EachStageHasItsOwn) {
  Street street(AutoConfig(2, 2), 2);
  for (const int house : {1, 2, 1, 3}) street.Add(house);  // joined in order of stages
  ASSERT_TRUE(street.Trains()) << street.swarm.View().reason;
  const Lans first = street.PlanOf(0), last = street.PlanOf(1);
  std::vector<std::vector<int>> where(2, std::vector<int>(2));
  for (std::size_t i = 0; i < 4; ++i) {
    const SimPeer& peer = street.swarm.Peer(i);
    where[static_cast<std::size_t>(peer.stage)][static_cast<std::size_t>(peer.pipeline)] =
        street.houses[i];
  }
  EXPECT_EQ(first, where[0][0] == where[0][1] ? (Lans{1, 1}) : (Lans{0, 0}));
  EXPECT_EQ(last, where[1][0] == where[1][1] ? (Lans{1, 1}) : (Lans{0, 0}));
  EXPECT_NE(first, last);
}

TEST(SwarmLansTest, WhereNobodyIsNearThereIsOnePlan) {
  for (const char* method : {"qsdp:lan=auto", "average"}) {
    RunConfig config = SimConfig(1, 3);
    config.replica_method = method;
    Street street(config, 3);
    const bool near = config.replica_method == "average";  // where nobody asks
    for (const int house : {1, near ? 1 : 2, near ? 1 : 3}) street.Add(house);
    ASSERT_TRUE(street.swarm.RunUntilState(RunState::kFinished)) << street.swarm.View().reason;
    EXPECT_EQ(street.swarm.View().generation, 1u) << method;
  }
}

TEST(SwarmLansTest, NamedLansAreInTheFirstPlan) {
  RunConfig config = SimConfig(1, 3);
  config.replica_method = "qsdp:lan=1-2";
  Street street(config, 4);
  for (const int house : {1, 2, 3}) street.Add(house);
  ASSERT_TRUE(street.Trains());
  EXPECT_EQ(street.PlanOf(0), (Lans{0, 1, 1}));
  EXPECT_EQ(street.swarm.View().generation, 1u);
}

// What is known of those who stay is in the plan that a newcomer gets; what it measures, in the
// next.
TEST(SwarmLansTest, ANewcomerIsMeasuredAndTheOthersAreKnown) {
  Street street(AutoConfig(1, 3), 5);
  for (const int house : {1, 1, 2, 1}) street.Add(house);  // the last is a spare
  ASSERT_TRUE(street.Trains()) << street.swarm.View().reason;
  EXPECT_EQ(street.PlanOf(0), (Lans{1, 1, 0}));
  const std::uint64_t before = street.swarm.View().generation;
  std::vector<Lans> plans;
  street.swarm.Peer(0).filter = [&, inner = street.swarm.Peer(0).filter](PeerMessage* message) {
    if (message->has_plan_ready()) plans.push_back(street.swarm.View().lans[0]);
    return inner(message);
  };
  street.swarm.Kill(2);
  ASSERT_TRUE(street.swarm.RunUntil([&] {
    return street.swarm.View().generation == before + 2 &&
           street.swarm.View().state == RunState::kTraining;
  })) << street.swarm.View().reason;
  EXPECT_EQ(plans, (std::vector<Lans>{{1, 1, 0}, {1, 1, 1}}));
  ASSERT_TRUE(street.swarm.RunUntilState(RunState::kFinished)) << street.swarm.View().reason;
}

// One that comes back under another address is somewhere else.
TEST(SwarmLansTest, WhoMovesIsMeasuredAgain) {
  Street street(AutoConfig(1, 2), 6);
  street.Add(1);
  street.Add(1);
  ASSERT_TRUE(street.Trains()) << street.swarm.View().reason;
  EXPECT_EQ(street.PlanOf(0), (Lans{1, 1}));
  street.swarm.Kill(1);
  ASSERT_TRUE(street.swarm.RunUntilState(RunState::kPaused));
  street.houses[1] = 2;
  street.swarm.Peer(1).filter = [&, inner = street.swarm.Peer(1).filter](PeerMessage* message) {
    if (message->has_hello()) message->mutable_hello()->add_addresses("192.0.2.7");
    return inner(message);
  };
  street.swarm.Connect(1);
  ASSERT_TRUE(street.swarm.RunUntilState(RunState::kTraining)) << street.swarm.View().reason;
  EXPECT_EQ(street.swarm.View().lans[0], (Lans{0, 0}));
}

// The line trembles around the limit: no plan after plan.
TEST(SwarmLansTest, TremblingTimesDoNotKeepTheRunFromTraining) {
  Street street(AutoConfig(1, 4), 7);
  std::mt19937_64 random(9);
  for (std::size_t i = 0; i < 4; ++i) {
    street.Add(static_cast<int>(i));
    street.swarm.Peer(i).filter = [&, i](PeerMessage* message) {
      if (!message->has_plan_ready()) return true;
      for (std::size_t other = 0; other < 4; ++other) {
        if (other == i) continue;
        control::v1::RoundTrip* trip = message->mutable_plan_ready()->add_round_trips();
        trip->set_peer(Bytes(street.swarm.Peer(other).id));
        trip->set_ms(1.5 + static_cast<double>(random() % 100) * 0.01);
      }
      return true;
    };
  }
  for (std::uint64_t round = 1; round <= 5; ++round) {
    const std::uint64_t step = street.swarm.View().step;
    ASSERT_TRUE(street.swarm.RunUntil([&] { return street.swarm.View().step > step + 1; }));
    EXPECT_LE(street.swarm.View().generation, 2 * round);
    street.swarm.Kill(3);
    ASSERT_TRUE(street.swarm.RunUntilState(RunState::kPaused));
    street.swarm.Connect(3);
  }
}

}  // namespace
}  // namespace shoal::scheduler
