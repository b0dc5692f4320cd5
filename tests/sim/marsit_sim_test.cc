// Swarms in virtual time that agree by Marsit.

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

// Rounds that are exact as often as two pipelines need it let the memories of eight drift apart.
TEST(MarsitSimTest, KeepsTheLossOfEightPipelines) {
  SwarmOptions options;
  options.stages = 1;
  options.pipelines = options.micro_batches = 8;
  options.adamw = true;
  options.learning_rate = [](std::uint64_t) { return 4e-3; };
  constexpr std::uint64_t kSteps = 120;
  const auto loss = [&](const std::string& method) {
    options.replica = method + ",start=20";
    SimSwarm swarm(options);
    EXPECT_TRUE(swarm.Open(0)) << Why(swarm);
    EXPECT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
    const auto& losses = swarm.losses_;
    return std::accumulate(losses.end() - 20, losses.end(), 0.0) / 20;
  };
  const double exact = loss("qadam:bits=32");
  EXPECT_LT(loss("marsit:every=auto"), 1.1 * exact);
  EXPECT_GT(loss("marsit:every=50,scale=4"), 1.2 * exact);
}

// Members lose their memories with a generation, and what is left is the same on all.
TEST(MarsitSimTest, GoesOnInANewGeneration) {
  SwarmOptions options;
  options.stages = 2;
  options.pipelines = 2;
  options.adamw = true;
  options.learning_rate = [](std::uint64_t) { return 2e-3; };
  options.replica = "marsit:every=10,start=10";
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(26)) << Why(swarm);
  swarm.Close();
  swarm.Run(std::chrono::seconds(1));
  ASSERT_TRUE(swarm.Open(26)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(60)) << Why(swarm);
  for (std::uint32_t s = 0; s < 2; ++s) {
    model::StageModel &one = *swarm.at(s, 0).model_, &other = *swarm.at(s, 1).model_;
    EXPECT_EQ(one.WeightChecksum(), other.WeightChecksum());
    std::vector<float> first(one.state_size(), 1.0F), second(first);
    ASSERT_TRUE(one.Read(model::StateVector::kFirstMoment, 0, first).ok());
    EXPECT_EQ(first, std::vector<float>(first.size()));
    ASSERT_TRUE(one.Read(model::StateVector::kSecondMoment, 0, first).ok());
    ASSERT_TRUE(other.Read(model::StateVector::kSecondMoment, 0, second).ok());
    EXPECT_EQ(first, second);
  }
  EXPECT_LT(swarm.losses_.back(), swarm.losses_[26]);
}

}  // namespace
}  // namespace shoal::pipeline
