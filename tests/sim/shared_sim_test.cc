// Swarms whose stages all hold a tensor that every layer uses: its copies move alike.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

constexpr std::uint64_t kSteps = 12;

SwarmOptions Sharing(std::uint32_t stages, std::uint32_t pipelines, const std::string& replica) {
  SwarmOptions options;
  options.stages = stages;
  options.pipelines = pipelines;
  options.tied = false;
  options.bias = true;
  options.adamw = true;
  options.replica = replica;
  options.learning_rate = [](std::uint64_t) { return 1e-2; };
  options.units = replica.find("shard_parameters=true") != std::string::npos;
  return options;
}

// By stage, then pipeline.
std::vector<std::vector<float>> Biases(SimSwarm& swarm, const SwarmOptions& options) {
  std::vector<std::vector<float>> biases;
  for (std::uint32_t stage = 0; stage < options.stages; ++stage) {
    for (std::uint32_t pipeline = 0; pipeline < options.pipelines; ++pipeline) {
      model::StageModel& model = *swarm.at(stage, pipeline).model_;
      std::vector<float> bias(swarm.shape_.hidden);
      const model::TensorLayout& tensor = model.layout().back();
      EXPECT_EQ(tensor.name, "bias");
      EXPECT_TRUE(model.Read(model::StateVector::kWeights, tensor.offset, bias).ok());
      biases.push_back(std::move(bias));
    }
  }
  return biases;
}

struct Trained {
  std::vector<double> losses;
  std::vector<std::vector<float>> biases;
};

Trained Train(const SwarmOptions& options) {
  SimSwarm swarm(options);
  EXPECT_TRUE(swarm.Open(0)) << Why(swarm);
  EXPECT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
  return {swarm.losses_, Biases(swarm, options)};
}

class SharedTensors : public testing::TestWithParam<const char*> {};

TEST_P(SharedTensors, AllCopiesAreEqualToTheBitAndLearn) {
  for (const std::uint32_t stages : {2U, 4U}) {
    SwarmOptions options = Sharing(stages, 3, GetParam());
    if (options.replica.find("local_steps=3") != std::string::npos) options.sync_every = 3;
    const Trained trained = Train(options);
    SimSwarm fresh(options);
    ASSERT_TRUE(fresh.Open(0)) << Why(fresh);
    EXPECT_NE(trained.biases.front(), Biases(fresh, options).front()) << "nobody learned of it";
    for (const std::vector<float>& bias : trained.biases) {
      EXPECT_EQ(bias, trained.biases.front()) << stages << " stages";
    }
    EXPECT_LT(trained.losses.back(), trained.losses.front());
    options.seed = 999;  // other delays
    EXPECT_EQ(Train(options).biases, trained.biases);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SharedTensors,
    testing::Values("average", "average:codec=dithered:step=0.3", "powersgd:rank=2,start=2",
                    "qadam:bits=4,bucket=16,start=3", "onebit:bucket=16,start=3",
                    "marsit:start=3,every=4", "qsdp:weights=8,gradients=8,bucket=16,raw_below=100",
                    "qsdp:weights=8,gradients=8,bucket=16,raw_below=1,lan=1-2",
                    "average:local_steps=3", "average:codec=dithered:step=0.3,local_steps=3"));

// Stages of every cut do what a single one does, which adds up all of it by itself.
TEST(SharedTensorsTest, AnyCutTrainsAsASingleStageDoes) {
  const Trained single = Train(Sharing(1, 1, "average"));
  for (const std::uint32_t stages : {2U, 3U, 4U}) {
    for (const std::uint32_t pipelines : {1U, 3U}) {
      const Trained cut = Train(Sharing(stages, pipelines, "average"));
      for (std::size_t i = 0; i < single.losses.size(); ++i) {
        EXPECT_NEAR(cut.losses[i], single.losses[i], 1e-4 * single.losses[i]) << i;
      }
      for (std::size_t i = 0; i < single.biases.front().size(); ++i) {
        EXPECT_NEAR(cut.biases.back()[i], single.biases.front()[i], 1e-4) << i;
      }
    }
  }
}

// Without loss on the wire, whoever owns a shard of the tensor makes the same step of it.
TEST(SharedTensorsTest, ShardsOfItDoTheStepsOfTheWhole) {
  const std::string exact = "qsdp:weights=32,gradients=32,bucket=16,raw_below=100";
  const Trained whole = Train(Sharing(3, 2, "average"));
  for (const std::string& method : {exact, exact + ",shard_parameters=true"}) {
    SimSwarm swarm(Sharing(3, 2, method));
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
    for (std::size_t i = 0; i < whole.losses.size(); ++i) {
      EXPECT_NEAR(swarm.losses_[i], whole.losses[i], 1e-5 * whole.losses[i]) << method << i;
    }
  }
}

}  // namespace
}  // namespace shoal::pipeline
