// What peers did not send yet outlives a generation in which they keep their stages.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::Why;

constexpr std::uint64_t kChange = 9, kSteps = 24;

struct Case {
  const char *name, *replica, *forward, *backward;
  bool same = true;  // bit for bit, as if there had been one generation
  double rate = 0.01;
  std::uint32_t sync_every = 1;  // local steps
};

// By clipping and labels a step of momenta is folded with another factor behind a change, so
// nothing is clipped here. Factors of powersgd are drawn anew, and marsit begins with an exact
// round.
constexpr Case kCases[] = {
    {"bits", "average:codec=direct:bits=2/bucket=64", "raw:dtype=fp32", "raw:dtype=fp32"},
    {"bf16", "average:dtype=bf16", "raw:dtype=fp32", "raw:dtype=fp32"},
    {"topk", "average:codec=topk:ratio=0.1/bits=4,feedback=true", "raw:dtype=fp32",
     "raw:dtype=fp32"},
    {"cocktail", "cocktail:random=0.5,top=0.5,bits=4,bucket=16", "raw:dtype=fp32",
     "raw:dtype=fp32"},
    {"qadam", "qadam:bits=2,bucket=64,start=3", "raw:dtype=fp32", "raw:dtype=fp32"},
    {"onebit", "onebit:bucket=64,start=4", "raw:dtype=fp32", "raw:dtype=fp32"},
    {"powersgd", "powersgd:rank=1,start=2", "raw:dtype=fp32", "raw:dtype=fp32", false},
    {"marsit", "marsit:start=3,every=10", "raw:dtype=fp32", "raw:dtype=fp32", false},
    {"guard", "average", "aqsgd:bits=2", "raw:dtype=fp32", true, 0.1},
    {"links", "average", "raw:dtype=fp32", "lowrank:rank=1"},
};

// The generation changes behind step 9: between two syncs, or before or in the midst of one.
constexpr Case kLocalCases[] = {
    {"local", "average:local_steps=4", "raw:dtype=fp32", "raw:dtype=fp32", true, 0.01, 4},
    {"outer", "average:local_steps=4,outer_rate=0.7,outer_momentum=0.9", "raw:dtype=fp32",
     "raw:dtype=fp32", true, 0.01, 4},
    {"sync", "average:local_steps=2,outer_rate=0.7,outer_momentum=0.9", "raw:dtype=fp32",
     "raw:dtype=fp32", true, 0.01, 2},
    {"topk", "average:codec=topk:ratio=0.1/bits=4,feedback=true,local_steps=2", "raw:dtype=fp32",
     "raw:dtype=fp32", true, 0.01, 2},
};

SwarmOptions Options(const Case& test, std::uint32_t pipelines = 2) {
  SwarmOptions options = test_support::OptionsOf(test.forward, test.backward, 2, pipelines);
  options.adamw = true;
  options.clip_norm = 0;
  options.learning_rate = [rate = test.rate](std::uint64_t) { return rate; };
  options.replica = test.replica;
  options.sync_every = test.sync_every;
  return options;
}

std::vector<SimSwarm::StageState> StatesOf(const SimSwarm& swarm) {
  return {swarm.SaveStage(0, 0), swarm.SaveStage(1, 0), swarm.SaveStage(0, 1),
          swarm.SaveStage(1, 1)};
}

// What pipeline 0 has into another one, which comes back.
void Load(SimSwarm* swarm, std::uint32_t pipeline) {
  constexpr model::StateVector kVectors[] = {model::StateVector::kWeights,
                                             model::StateVector::kFirstMoment,
                                             model::StateVector::kSecondMoment};
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    const auto state = swarm->SaveStage(stage, 0);
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(swarm->at(stage, pipeline).model_->Write(kVectors[i], 0, state[i]).ok());
    }
  }
}

void ExpectEqualReplicas(const SimSwarm& swarm) {
  for (std::uint32_t stage = 0; stage < 2; ++stage) {
    for (std::uint32_t p = 1; p < swarm.options_.pipelines; ++p) {
      EXPECT_EQ(swarm.SaveStage(stage, p), swarm.SaveStage(stage, 0)) << "pipeline " << p;
    }
  }
}

// The generation ends between two steps, or in the midst of one, which begins anew.
void ExpectToGoOn(const Case& test) {
  SimSwarm whole(Options(test));
  ASSERT_TRUE(whole.Open(0) && whole.TrainTo(kSteps)) << Why(whole);
  const auto cut = [&](bool keeps, int into_step_ms) {
    SwarmOptions options = Options(test);
    options.keeps_memories = keeps;
    SimSwarm swarm(options);
    EXPECT_TRUE(swarm.Open(0) && swarm.TrainTo(kChange)) << Why(swarm);
    swarm.Run(std::chrono::milliseconds(100));
    if (into_step_ms > 0) {
      swarm.Begin(kChange + 1);
      swarm.Run(std::chrono::milliseconds(into_step_ms));
      EXPECT_EQ(swarm.losses_.size(), kChange) << "not applied yet";
    }
    swarm.Close();
    swarm.Run(std::chrono::seconds(5));
    EXPECT_TRUE(swarm.Open(kChange) && swarm.TrainTo(kSteps)) << Why(swarm);
    swarm.Run(std::chrono::seconds(5));
    if (test.sync_every == 1) ExpectEqualReplicas(swarm);  // else they have own moments
    EXPECT_TRUE(swarm.checksum_mismatches_.empty());
    return std::pair(swarm.losses_, StatesOf(swarm));
  };
  const auto dropped = cut(false, 0);
  EXPECT_FALSE(dropped.second == StatesOf(whole)) << "nothing was kept that counts";
  for (const int into_step_ms : {0, 10, 25, 45}) {
    const auto kept = cut(true, into_step_ms);
    EXPECT_EQ(kept.first == whole.losses_, test.same) << into_step_ms;
    EXPECT_EQ(kept.second == StatesOf(whole), test.same) << into_step_ms;
    EXPECT_FALSE(kept.second == dropped.second) << into_step_ms;
  }
}

class KeptMemorySimTest : public testing::TestWithParam<Case> {};
TEST_P(KeptMemorySimTest, AGenerationGoesOnAsIfTheLastOneHadNotEnded) { ExpectToGoOn(GetParam()); }

class LocalStepsGoOn : public testing::TestWithParam<Case> {};
TEST_P(LocalStepsGoOn, AsIfTheLastGenerationHadNotEnded) { ExpectToGoOn(GetParam()); }
INSTANTIATE_TEST_SUITE_P(All, LocalStepsGoOn, testing::ValuesIn(kLocalCases),
                         [](const auto& test) { return std::string(test.param.name); });

// What a member keeps is its own, whoever else is in the group.
TEST_P(KeptMemorySimTest, ReplicasStayEqualWherePipelinesGoAndCome) {
  SimSwarm swarm(Options(GetParam(), 3));
  ASSERT_TRUE(swarm.Open(0) && swarm.TrainTo(6)) << Why(swarm);
  std::uint64_t step = 6;
  for (const std::uint32_t pipelines : {2U, 1U, 2U, 3U}) {
    swarm.Run(std::chrono::seconds(1));
    const std::uint32_t before = swarm.options_.pipelines;
    swarm.SetPipelines(pipelines);
    swarm.Run(std::chrono::seconds(1));
    for (std::uint32_t p = before; p < pipelines; ++p) Load(&swarm, p);
    ASSERT_TRUE(swarm.Open(step)) << Why(swarm);
    step += 5;
    ASSERT_TRUE(swarm.TrainTo(step)) << Why(swarm);
    swarm.Run(std::chrono::seconds(1));
    ExpectEqualReplicas(swarm);
  }
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  EXPECT_LT(swarm.losses_.back(), swarm.losses_.front());
}

INSTANTIATE_TEST_SUITE_P(All, KeptMemorySimTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace shoal::pipeline
