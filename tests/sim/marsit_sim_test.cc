// Swarms in virtual time that agree by Marsit.

#include <gtest/gtest.h>

#include <cmath>
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

// Scales begin anew with a generation, and what members share stays the same on all.
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

// A run of two pipelines comes down to one, which regains the other. Momenta of the group are not
// saved, those of the one are. The variance stands still, so no step is longer than the bound.
TEST(MarsitSimTest, OnePipelineGoesOnAloneAndRegainsTheOther) {
  constexpr double kRate = 2e-3, kBeta1 = 0.9, kMost = 3.163;  // (1 - beta1) / sqrt(1 - beta2)
  for (const bool tied : {false, true}) {
    SwarmOptions options;
    options.stages = 2;
    options.pipelines = 2;
    options.tied = tied;
    options.adamw = true;
    options.learning_rate = [](std::uint64_t) { return kRate; };
    options.replica = "marsit:every=10,start=10";
    SimSwarm swarm(options);
    const auto begin = [&](std::uint32_t pipelines, std::uint64_t step) {
      const std::vector states{swarm.SaveStage(0, 0), swarm.SaveStage(1, 0)};
      swarm.SetPipelines(pipelines);
      swarm.Run(std::chrono::seconds(1));
      for (std::uint32_t s = 0; s < 2; ++s) swarm.LoadStage(s, states[s]);
      return swarm.Open(step);
    };
    ASSERT_TRUE(swarm.Open(0) && swarm.TrainTo(10)) << Why(swarm);
    const std::vector frozen{swarm.SaveStage(0, 0)[2], swarm.SaveStage(1, 0)[2]};
    ASSERT_TRUE(swarm.TrainTo(26)) << Why(swarm);
    ASSERT_TRUE(begin(1, 26)) << Why(swarm);
    for (std::uint64_t step = 26; step < 50; ++step) {
      const std::vector before{swarm.SaveStage(0, 0), swarm.SaveStage(1, 0)};
      ASSERT_TRUE(swarm.TrainTo(step + 1)) << Why(swarm);
      const double rate = kRate / (1 - std::pow(kBeta1, static_cast<double>(step + 1)));
      for (std::uint32_t s = 0; s < 2; ++s) {
        const auto after = swarm.SaveStage(s, 0);
        EXPECT_EQ(after[2], frozen[s]);
        for (std::size_t i = 0; i < after[0].size(); ++i) {
          const double decay = kRate * 0.1 * std::abs(before[s][0][i]);
          ASSERT_LE(std::abs(after[0][i] - before[s][0][i]), kMost * rate + decay) << step;
        }
      }
    }
    EXPECT_NE(swarm.SaveStage(0, 0)[1], std::vector<float>(swarm.SaveStage(0, 0)[1].size()));
    ASSERT_TRUE(begin(2, 50)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(80)) << Why(swarm);
    swarm.Run(std::chrono::seconds(1));
    for (std::uint32_t s = 0; s < 2; ++s) EXPECT_EQ(swarm.SaveStage(s, 1), swarm.SaveStage(s, 0));
    EXPECT_TRUE(swarm.checksum_mismatches_.empty());
    for (const double loss : swarm.losses_) EXPECT_TRUE(std::isfinite(loss));
    EXPECT_LT(swarm.losses_.back(), swarm.losses_[26]);
  }
}

}  // namespace
}  // namespace shoal::pipeline
