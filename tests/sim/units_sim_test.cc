// Swarms whose stages hold neither all of their parameters nor all of their optimizer state.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

constexpr char kExact[] =
    "qsdp:weights=32,gradients=32,bucket=16,raw_below=100,shard_parameters=true";
constexpr char kCoded[] =
    "qsdp:weights=8,gradients=8,bucket=16,raw_below=100,shard_parameters=true";

// Behind the sixth step.
constexpr char kLearned[] =
    "qsdp:weights=3,gradients=8,bucket=16,raw_below=100,shard_parameters=true,levels=learned,"
    "learn=5";
constexpr char kUniform[] =
    "qsdp:weights=3,gradients=8,bucket=16,raw_below=100,shard_parameters=true";

SwarmOptions Units(std::uint32_t stages, std::uint32_t pipelines, const char* replica) {
  SwarmOptions options;
  options.stages = stages;
  options.pipelines = pipelines;
  options.adamw = true;
  options.units = true;
  options.replica = replica;
  options.learning_rate = [](std::uint64_t) { return 1e-2; };
  return options;
}

SwarmOptions Whole(SwarmOptions options) {
  options.units = false;
  options.replica = "average";
  return options;
}

std::vector<double> Losses(const SwarmOptions& options, std::uint64_t steps) {
  SimSwarm swarm(options);
  EXPECT_TRUE(swarm.Open(0)) << Why(swarm);
  EXPECT_TRUE(swarm.TrainTo(steps)) << Why(swarm);
  return swarm.losses_;
}

// Every peer's weights and moments, as the last checkpoint has them.
std::vector<SimSwarm::StageState> States(const SimSwarm& swarm, const SwarmOptions& options) {
  std::vector<SimSwarm::StageState> states;
  for (std::uint32_t s = 0; s < options.stages; ++s) {
    for (std::uint32_t p = 0; p < options.pipelines; ++p) states.push_back(swarm.SaveStage(s, p));
  }
  return states;
}

class Shapes : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(Shapes, ExactUnitsTrainAsStagesThatHoldAllDo) {
  const SwarmOptions options = Units(static_cast<std::uint32_t>(GetParam().first),
                                     static_cast<std::uint32_t>(GetParam().second), kExact);
  const std::vector<double> losses = Losses(options, 30), expected = Losses(Whole(options), 30);
  ASSERT_EQ(losses.size(), 30u);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], expected[i], 1e-4 * expected[i]) << "step " << i;
  }
  EXPECT_LT(losses.back(), 0.7 * losses.front());
}

TEST_P(Shapes, CodedUnitsTrainAndRepeatBitForBitWhateverTheDelays) {
  SwarmOptions options = Units(static_cast<std::uint32_t>(GetParam().first),
                               static_cast<std::uint32_t>(GetParam().second), kCoded);
  options.checkpoint_every = 30;
  std::vector<SimSwarm::StageState> states;
  std::vector<double> losses;
  for (const unsigned seed : {1u, 31u}) {
    options.seed = seed;
    SimSwarm swarm(options);
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(30)) << Why(swarm);
    const auto reached = States(swarm, options);
    if (seed == 1) {
      states = reached;
      losses = swarm.losses_;
    }
    EXPECT_EQ(reached, states) << "other delays";
    for (std::size_t i = 0; i < losses.size(); ++i) {  // pipelines' add up in any order
      EXPECT_NEAR(swarm.losses_[i], losses[i], 1e-12);
    }
  }
  for (std::uint32_t s = 0; s < options.stages; ++s) {
    for (std::uint32_t p = 1; p < options.pipelines; ++p) {
      EXPECT_EQ(states[s * options.pipelines + p], states[s * options.pipelines]);
    }
  }
  EXPECT_NEAR(losses.back(), Losses(Whole(options), 30).back(), 0.1 * losses.back());
}

INSTANTIATE_TEST_SUITE_P(StagesAndPipelines, Shapes,
                         testing::Values(std::pair(1, 2), std::pair(1, 4), std::pair(2, 2),
                                         std::pair(3, 3)));

TEST(UnitsSimTest, ANewGenerationGoesOnFromACheckpointBitForBit) {
  SwarmOptions options = Units(2, 2, kCoded);
  options.checkpoint_every = 6;
  SimSwarm through(options), again(options);
  ASSERT_TRUE(through.Open(0) && again.Open(0));
  ASSERT_TRUE(through.TrainTo(12)) << Why(through);
  ASSERT_TRUE(again.TrainTo(6)) << Why(again);
  // In the middle of another step.
  again.Begin(12);
  again.Run(std::chrono::milliseconds(20));
  again.Close();
  again.Run(std::chrono::seconds(1));
  ASSERT_TRUE(again.Open(6)) << Why(again);
  ASSERT_TRUE(again.TrainTo(12)) << Why(again);
  EXPECT_EQ(States(again, options), States(through, options));
}

TEST(UnitsSimTest, LevelsOfWeightsAreLearnedAndTheSameForAll) {
  for (const std::uint32_t stages : {1u, 2u}) {
    std::vector<std::vector<SimSwarm::StageState>> reached;  // behind 6 and 12 steps
    for (const char* method : {kLearned, kLearned, kUniform}) {
      SwarmOptions options = Units(stages, 3, method);
      options.checkpoint_every = 6;
      options.seed = reached.empty() ? 1 : 31;  // other delays
      SimSwarm swarm(options);
      ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
      for (const std::uint64_t steps : {6u, 12u}) {
        ASSERT_TRUE(swarm.TrainTo(steps)) << Why(swarm);
        reached.push_back(States(swarm, options));
        for (std::size_t i = 0; i < reached.back().size(); ++i) {
          EXPECT_EQ(reached.back()[i], reached.back()[i - i % 3]) << "peer " << i;
        }
      }
      EXPECT_LT(swarm.losses_.back(), swarm.losses_.front());
    }
    EXPECT_EQ(reached[2], reached[0]);
    EXPECT_EQ(reached[3], reached[1]);
    EXPECT_EQ(reached[4], reached[0]) << "nothing was learned yet";
    EXPECT_NE(reached[5], reached[1]);
  }
}

TEST(UnitsSimTest, WhatAPeerHoldsShrinksWithTheGroup) {
  std::uint64_t last = 0;
  for (const std::uint32_t pipelines : {1u, 2u, 4u}) {
    SwarmOptions options = Units(1, pipelines, kCoded);
    options.units = pipelines > 1;
    options.micro_batches = 8;
    SimSwarm swarm(options);
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
    std::uint64_t most = 0, largest = 0;
    for (const auto& peer : swarm.peers()) {
      const RunnerStats stats = peer->runner_->stats();
      // Weights, gradients and moments of all values, without units.
      const std::uint64_t all = 16 * peer->model_->state_size();
      most = std::max(most, pipelines > 1 ? stats.shard_bytes + stats.unit_peak_bytes : all);
      for (const model::UnitLayout& unit : peer->model_->units()) {
        largest = std::max<std::uint64_t>(largest, 4 * unit.values);
      }
      EXPECT_EQ(stats.unit_bytes, 0u) << "between steps nothing is held";
      // Two parts' weights and one's gradients, of the largest units.
      EXPECT_LE(stats.unit_peak_bytes, 3 * largest);
    }
    if (last > 0) {
      EXPECT_LT(most, last) << pipelines;
    }
    last = most;
  }
}

}  // namespace
}  // namespace shoal::pipeline
