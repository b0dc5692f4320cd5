// Pipelines that leave in the midst of a step: the others keep what they have done of it.

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using test_support::Quantised;
using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

constexpr std::uint64_t kSteps = 12;

SwarmOptions Options(unsigned seed) {
  SwarmOptions options;
  options.stages = 2;
  options.pipelines = 3;
  options.micro_batches = 7;
  options.seed = seed;
  options.adamw = true;
  options.tied = seed % 2 == 0;
  options.run_steps = 1000;
  options.bytes_per_second = seed % 3 == 0 ? 0 : 100'000.0 * (seed % 4 + 1);
  return options;
}

void ExpectEqualGroups(SimSwarm& swarm, const std::vector<std::uint32_t>& left) {
  for (std::uint32_t stage = 0; stage < swarm.options_.stages; ++stage) {
    for (const std::uint32_t pipeline : left) {
      EXPECT_EQ(swarm.SaveStage(stage, pipeline), swarm.SaveStage(stage, left.front())) << stage;
    }
  }
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

// Whether two pipelines leave, the second soon after the first, perhaps in the same step.
void TrainAndLeave(SimSwarm* swarm, std::mt19937& random, bool two, std::set<int>* moments) {
  swarm->Begin(kSteps);
  swarm->Run(std::chrono::microseconds(random() % 300'000));
  if (swarm->losses_.size() >= kSteps) return;
  const SimSwarm::Reported at = swarm->Leave(1);
  // 0: all compute; 1: some are ready; 2: all are, gradients are exchanged; 3: some have them.
  moments->insert(at.synced > 0 ? 3 : at.ready == swarm->peers().size() ? 2 : at.ready > 0 ? 1 : 0);
  if (two) {
    swarm->Run(std::chrono::microseconds(random() % 30'000));
    if (swarm->losses_.size() < kSteps) swarm->Leave(2);
  }
  ASSERT_TRUE(swarm->TrainTo(kSteps)) << Why(*swarm);
  swarm->Run(std::chrono::seconds(5));
}

TEST(LeaveSimTest, TheStepIsThatOfAllMicroBatches) {
  for (const char* method : {"average", "powersgd:rank=2"}) {
    std::set<int> moments;
    for (unsigned seed = 1; seed <= 40; ++seed) {
      SCOPED_TRACE(std::string(method) + ", seed " + std::to_string(seed));
      SwarmOptions options = Options(seed);
      options.replica = method;
      SimSwarm whole(options);
      ASSERT_TRUE(whole.Open(0)) << Why(whole);
      ASSERT_TRUE(whole.TrainTo(kSteps)) << Why(whole);
      std::mt19937 random(seed);
      SimSwarm swarm(options);
      ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
      TrainAndLeave(&swarm, random, seed % 4 == 0, &moments);
      if (HasFatalFailure()) return;
      ASSERT_EQ(swarm.losses_.size(), kSteps);
      const bool exact = std::string(method) == "average";
      for (std::size_t i = 0; i < kSteps && exact; ++i) {
        EXPECT_NEAR(swarm.losses_[i], whole.losses_[i], 1e-4 * whole.losses_[i]) << "step " << i;
      }
      ExpectEqualGroups(
          swarm, seed % 4 == 0 ? std::vector<std::uint32_t>{0} : std::vector<std::uint32_t>{0, 2});
    }
    EXPECT_EQ(moments, (std::set<int>{0, 1, 2, 3}));
  }
}

TEST(LeaveSimTest, CodecsThatKeepActivationsGoOn) {
  std::set<int> moments;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SwarmOptions options = Quantised(3, 3, seed);
    options.micro_batches = 8;
    options.replica = seed % 2 == 0 ? "cocktail" : "average";
    options.segment_bytes_min = seed % 3 == 0 ? 1 : options.segment_bytes_min;
    options.bytes_per_second = 100'000.0 * (seed % 4);
    options.run_steps = 1000;
    std::mt19937 random(seed);
    SimSwarm swarm(options);
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    TrainAndLeave(&swarm, random, seed % 4 == 0, &moments);
    if (HasFatalFailure()) return;
    ExpectEqualGroups(
        swarm, seed % 4 == 0 ? std::vector<std::uint32_t>{0} : std::vector<std::uint32_t>{0, 2});
    EXPECT_GT(swarm.checksums_compared_, 0u);
  }
  EXPECT_EQ(moments, (std::set<int>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace shoal::pipeline
