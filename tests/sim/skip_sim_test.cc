// Whole swarms in virtual time in which a gradient is not finite: everybody skips the step, nothing
// is left of it, and training goes on.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "replica/methods/replica_method.h"
#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using test_support::OptionsOf;
using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::TinyStage;
using test_support::Why;
using Fault = TinyStage::Fault;

constexpr std::uint64_t kLostStep = 5, kSteps = 14;
constexpr std::uint32_t kLocalSteps = 3;  // the lost step is a sync step

struct Lost {
  Fault fault = Fault::kNone;
  std::uint32_t stage = 0, pipeline = 0;
  std::set<std::uint64_t> steps = {kLostStep};
};

// In one of the pipeline's micro-batches, and not its last.
void SetFault(SimSwarm* swarm, const Lost& lost) {
  swarm->at(lost.stage, lost.pipeline).tiny().SetFaults([lost](MicroBatchId id) {
    return lost.steps.contains(id.step) && id.index == 1 ? lost.fault : Fault::kNone;
  });
}

std::vector<SimSwarm::StageState> StatesOf(const SimSwarm& swarm) {
  std::vector<SimSwarm::StageState> states;
  for (const auto& peer : swarm.peers()) {
    states.push_back(swarm.SaveStage(peer->stage_, peer->pipeline_));
  }
  return states;
}

void ExpectEqualReplicas(SimSwarm& swarm) {
  for (const auto& peer : swarm.peers()) {
    EXPECT_EQ(peer->model_->WeightChecksum(), swarm.at(peer->stage_, 0).model_->WeightChecksum())
        << "stage " << peer->stage_ << ", pipeline " << peer->pipeline_;
  }
}

void ExpectFinite(const SimSwarm& swarm) {
  for (const SimSwarm::StageState& state : StatesOf(swarm)) {
    for (const std::vector<float>& vector : state) {
      EXPECT_TRUE(std::ranges::all_of(vector, [](float v) { return std::isfinite(v); }));
    }
  }
}

// Faults where each stage can have them, on the last pipeline.
std::vector<Lost> Faults(std::uint32_t pipelines) {
  const std::uint32_t last = pipelines - 1;
  return {{Fault::kLayer, 0, last},
          {Fault::kEmbedding, 0, last},
          {Fault::kLayer, 1, last},
          {Fault::kEmbedding, 1, last},
          {Fault::kInput, 1, last}};
}

struct Shape {
  std::string replica;
  std::uint32_t pipelines = 2;
  std::uint64_t checkpoint_every = 0;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.replica; }

SwarmOptions OptionsOfShape(const Shape& shape) {
  SwarmOptions options = OptionsOf("aqsgd:bits=4", "direct:bits=8", 2, shape.pipelines);
  const auto method = replica::ParseReplicaMethod(shape.replica);
  EXPECT_TRUE(method.ok()) << method.status().ToString();
  options.replica = shape.replica;
  options.units = method->traits.shards_parameters;
  options.sync_every = std::max<std::uint32_t>(1, method->local.steps);
  options.adamw = true;
  options.learning_rate = [](std::uint64_t) { return 4e-3; };
  options.checkpoint_every = shape.checkpoint_every;
  return options;
}

// Those who add its gradient up name whose it is, and nobody applies the step. So small a vector
// has one owner.
TEST(HugeGradientSimTest, WhoSendsItIsNamedByWhoAddsItUp) {
  for (const char* method :
       {"average", "average:codec=direct:bits=4/bucket=512", "qadam:bits=32"}) {
    SCOPED_TRACE(method);
    SimSwarm swarm(OptionsOfShape({method, 3}));
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    SetFault(&swarm, {Fault::kHuge, 1, 2, {kLostStep}});
    EXPECT_FALSE(swarm.TrainTo(kLostStep + 1));
    swarm.Run(std::chrono::seconds(1));
    std::size_t named = 0;
    for (const auto& peer : swarm.peers()) {
      if (!peer->failure_.has_value()) continue;
      EXPECT_EQ(peer->failure_->peer, swarm.at(1, 2).id_) << peer->failure_->status.ToString();
      EXPECT_EQ(peer->stage_, 1u);
      EXPECT_EQ(peer->failure_->status.code(), StatusCode::kInvalidArgument);
      EXPECT_NE(peer->failure_->status.message().find("norm of its gradient"), std::string::npos);
      ++named;
    }
    EXPECT_GE(named, 1u);
    EXPECT_EQ(swarm.losses_.size(), kLostStep);
  }
}

class SkipSimTest : public testing::TestWithParam<Shape> {};

TEST_P(SkipSimTest, NothingIsLeftOfALostStepAndTrainingGoesOn) {
  const SwarmOptions options = OptionsOfShape(GetParam());
  for (const Lost& lost : Faults(options.pipelines)) {
    SCOPED_TRACE("fault " + std::to_string(static_cast<int>(lost.fault)) + " on stage " +
                 std::to_string(lost.stage));
    SimSwarm swarm(options);
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    ASSERT_TRUE(swarm.TrainTo(kLostStep)) << Why(swarm);
    SetFault(&swarm, lost);
    const auto before = StatesOf(swarm);
    ASSERT_TRUE(swarm.TrainTo(kLostStep + 1)) << Why(swarm);
    EXPECT_EQ(swarm.skipped_, std::vector<std::uint64_t>{kLostStep});
    const auto after = StatesOf(swarm);
    if (options.sync_every == 1) {
      EXPECT_TRUE(after == before);
    } else {  // weights are what all have in common
      for (std::size_t i = 0; i < after.size(); ++i) {
        EXPECT_TRUE(after[i][1] == before[i][1] && after[i][2] == before[i][2]) << "peer " << i;
      }
    }
    ExpectEqualReplicas(swarm);
    ASSERT_TRUE(swarm.TrainTo(kLostStep + 1 + kLocalSteps)) << Why(swarm);
    if (!options.units || options.checkpoint_every > 0) {
      EXPECT_FALSE(StatesOf(swarm) == after);
    }
    ASSERT_TRUE(swarm.TrainTo(kSteps + 1)) << Why(swarm);
    EXPECT_EQ(swarm.skipped_.size(), 1u);
    EXPECT_TRUE(swarm.checksum_mismatches_.empty());
    EXPECT_LT(swarm.losses_.back(), swarm.losses_.front());
    ExpectEqualReplicas(swarm);
    ExpectFinite(swarm);
  }
}

TEST_P(SkipSimTest, TwoLostStepsInARowAreSkipped) {
  const SwarmOptions options = OptionsOfShape(GetParam());
  SimSwarm swarm(options);
  SetFault(&swarm, {Fault::kLayer, 0, 0, {0, 1}});
  SetFault(&swarm, {Fault::kInput, 1, 0, {kLostStep, kLostStep + 1}});
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(kSteps + 1)) << Why(swarm);
  EXPECT_EQ(swarm.skipped_, (std::vector<std::uint64_t>{0, 1, kLostStep, kLostStep + 1}));
  ExpectEqualReplicas(swarm);
  ExpectFinite(swarm);
}

std::vector<Shape> Shapes() {
  constexpr char kCoded[] = "weights=4,gradients=4,bucket=16,raw_below=100";
  const std::string qsdp = std::string("qsdp:") + kCoded;
  const std::string local = "local_steps=" + std::to_string(kLocalSteps);
  return {{"average", 1},
          {"average"},
          {"average:codec=direct:bits=4/bucket=16,feedback=true"},
          {"powersgd:rank=2,start=2"},
          {"powersgd:rank=2,start=2,stages=auto"},
          {"qadam:bits=4,bucket=16,start=3"},
          {"qadam:bits=4,bucket=16,start=9"},  // lost while the variance warms up
          {"onebit:bucket=16,start=3"},
          {"marsit:start=3,every=4"},
          {"marsit:start=3,every=4", 2, 1},
          {"marsit:start=9"},
          {qsdp},
          {qsdp, 2, 1},
          {qsdp + ",delta=true"},
          {qsdp + ",delta=true", 2, 1},
          {qsdp + ",levels=learned,learn=5"},
          {qsdp + ",shard_parameters=true"},
          {qsdp + ",shard_parameters=true", 2, 1},
          {"average:" + local},
          {"powersgd:rank=2,start=2," + local},
          {"qadam:bits=4,bucket=16,start=3", 3}};
}

INSTANTIATE_TEST_SUITE_P(Methods, SkipSimTest, testing::ValuesIn(Shapes()), [](const auto& test) {
  std::string name = test.param.replica + "_" + std::to_string(test.param.pipelines) + "_" +
                     std::to_string(test.param.checkpoint_every);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

// The third of them is not applied: its members wait, and go on in a new generation.
// Its pipeline breaks before the step is applied: nobody counts what was not finite there.
TEST(SkipSimTest, AGradientOfAPipelineThatBreaksSkipsNoStep) {
  int broken = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SwarmOptions options;
    options.pipelines = 3;
    options.micro_batches = 9;
    options.seed = seed;
    options.bytes_per_second = 200'000;
    SimSwarm swarm(options);
    SetFault(&swarm, {seed % 2 == 0 ? Fault::kLayer : Fault::kInput, 1, 1});
    ASSERT_TRUE(swarm.Open(0) && swarm.TrainTo(kLostStep)) << Why(swarm);
    swarm.Begin(kSteps);
    swarm.Run(std::chrono::microseconds(2000 * seed));
    if (swarm.losses_.size() != kLostStep) continue;
    ++broken;
    swarm.Leave({{0, 1}});
    ASSERT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
    EXPECT_TRUE(swarm.skipped_.empty());
    swarm.Run(std::chrono::seconds(5));
    EXPECT_EQ(swarm.at(1, 1).model_->WeightChecksum(), swarm.at(1, 0).model_->WeightChecksum());
    ExpectFinite(swarm);
  }
  EXPECT_GT(broken, 20);
}

TEST(SkipSimTest, ThreeInARowHoldTheRun) {
  const SwarmOptions options = OptionsOfShape({"qadam:bits=4,bucket=16,start=3"});
  SimSwarm swarm(options);
  SetFault(&swarm, {Fault::kInput, 1, 1, {4, 6, 7, 8}});
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(6)) << Why(swarm);
  const auto before = StatesOf(swarm);
  EXPECT_FALSE(swarm.TrainTo(9));
  EXPECT_TRUE(swarm.held() && !swarm.AnyFailed()) << Why(swarm);
  EXPECT_EQ(swarm.skipped_, (std::vector<std::uint64_t>{4, 6, 7}));
  EXPECT_TRUE(StatesOf(swarm) == before);
  swarm.Close();
  swarm.Run(std::chrono::seconds(1));
  swarm.at(1, 1).tiny().SetFaults(nullptr);
  for (std::uint32_t s = 0; s < options.stages; ++s) swarm.LoadStage(s, swarm.SaveStage(s, 0));
  ASSERT_TRUE(swarm.Open(8)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
  ExpectEqualReplicas(swarm);
}

// Between two syncs nobody changes anything either.
TEST(SkipSimTest, ALocalStepIsSkippedByAllPipelines) {
  SwarmOptions options = OptionsOfShape({"average:local_steps=3", 3});
  SimSwarm swarm(options);
  SetFault(&swarm, {Fault::kEmbedding, 1, 1, {4}});
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(4)) << Why(swarm);
  const auto before = StatesOf(swarm);
  ASSERT_TRUE(swarm.TrainTo(5)) << Why(swarm);
  EXPECT_EQ(swarm.skipped_, std::vector<std::uint64_t>{4});
  EXPECT_TRUE(StatesOf(swarm) == before);
  ASSERT_TRUE(swarm.TrainTo(12)) << Why(swarm);
  ExpectEqualReplicas(swarm);
}

// A sync that is due with the step takes the members' parameters as they are.
TEST(SkipSimTest, ASkippedSyncAgreesOnTheMeanWithoutOwnSteps) {
  const SwarmOptions options = OptionsOfShape({"average:local_steps=3", 3});
  SimSwarm swarm(options);
  SetFault(&swarm, {Fault::kLayer, 0, 2});
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(kLostStep)) << Why(swarm);
  std::vector<std::vector<double>> means;  // by stage
  for (std::uint32_t s = 0; s < options.stages; ++s) {
    std::vector<double>& mean = means.emplace_back(swarm.at(s, 0).tiny().state_size());
    for (std::uint32_t p = 0; p < options.pipelines; ++p) {
      const std::vector<float>& weights = swarm.at(s, p).tiny().weights();
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += weights[i] / options.pipelines;
    }
  }
  ASSERT_TRUE(swarm.TrainTo(kLostStep + 1)) << Why(swarm);
  EXPECT_EQ(swarm.skipped_, std::vector<std::uint64_t>{kLostStep});
  for (const auto& peer : swarm.peers()) {
    const std::vector<double>& mean = means[peer->stage_];
    for (std::size_t i = 0; i < mean.size(); ++i) {
      ASSERT_NEAR(peer->tiny().weights()[i], mean[i], 1e-6) << "value " << i;
    }
  }
}

// ---- what travels and what is kept of it ----

class SkipCodecTest : public testing::TestWithParam<const char*> {};

// Whatever the codec takes: what leaves the stage, and what its memory keeps, is finite.
TEST_P(SkipCodecTest, ZerosTakeThePlaceOfALostGradientOnABoundary) {
  SwarmOptions options = OptionsOf("raw:dtype=fp32", GetParam(), 3);
  options.segment_bytes_min = 1;
  SimSwarm swarm(options);
  SetFault(&swarm, {Fault::kInput, 2, 0});
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(kLostStep)) << Why(swarm);
  const auto before = StatesOf(swarm);
  ASSERT_TRUE(swarm.TrainTo(kLostStep + 1)) << Why(swarm);
  EXPECT_EQ(swarm.skipped_, std::vector<std::uint64_t>{kLostStep});
  EXPECT_TRUE(StatesOf(swarm) == before);
  ASSERT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
  EXPECT_EQ(swarm.skipped_.size(), 1u);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  EXPECT_LT(swarm.losses_.back(), swarm.losses_.front());
  ExpectFinite(swarm);
}

INSTANTIATE_TEST_SUITE_P(Codecs, SkipCodecTest,
                         testing::Values("raw:dtype=fp32", "raw:dtype=fp16", "direct:bits=8",
                                         "topk:ratio=0.1,bits=8,feedback=on", "lowrank:rank=1",
                                         "lowrank:rank=1,lazy=on,else=raw:dtype=fp32"));

// A codec refuses an activation that is not finite, as ever: the run cannot go on from it.
TEST(SkipCodecTest, AnActivationThatIsNotFiniteStaysAnError) {
  SwarmOptions options = OptionsOf("direct:bits=8", "direct:bits=8");
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(2)) << Why(swarm);
  for (float& weight : swarm.at(0, 0).tiny().weights()) weight = std::nanf("");
  EXPECT_FALSE(swarm.TrainTo(3));
  EXPECT_NE(Why(swarm).find("not finite"), std::string::npos) << Why(swarm);
}

}  // namespace
}  // namespace shoal::pipeline
