// Whole swarms in virtual time whose pipelines step on their own between two exchanges.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "optimizer/adamw.h"
#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::TinyStage;
using test_support::Why;

constexpr double kRate = 2e-3;

SwarmOptions LocalOptions(const std::string& method, std::uint32_t sync_every,
                          std::uint32_t stages = 2, std::uint32_t pipelines = 3) {
  SwarmOptions options;
  options.stages = stages;
  options.pipelines = pipelines;
  options.adamw = true;
  options.learning_rate = [](std::uint64_t) { return kRate; };
  options.replica = method + "local_steps=" + std::to_string(sync_every);
  options.sync_every = sync_every;
  return options;
}

// ---- against plain loops ----

// The pipelines of a run of one stage, one after the other, in fp64 where they meet.
class Reference {
 public:
  Reference(const SwarmOptions& options, double outer_rate, double outer_momentum)
      : options_(options), rate_(outer_rate), momentum_(outer_momentum) {
    shape_.adamw = true;
    shape_.clip_norm = options.clip_norm;
    data_ = test_support::NewTinyData(
        shape_, std::uint64_t{options.micro_batches} * options.rows * options.steps_per_epoch);
    for (std::uint32_t p = 0; p < options.pipelines; ++p) {
      models_.push_back(
          std::make_unique<TinyStage>(shape_, model::StageRange{0, shape_.layers}, 77));
    }
    common_.assign(models_[0]->weights().begin(), models_[0]->weights().end());
    velocity_.assign(common_.size(), 0);
  }

  void Train(std::uint64_t steps) {
    for (; step_ < steps; ++step_) {
      for (std::uint32_t p = 0; p < models_.size(); ++p) Step(step_, p);
      if ((step_ + 1) % options_.sync_every == 0) Sync();
    }
  }
  // The last pipelines are gone, and their micro-batches are the others'.
  void Leave(std::size_t left) { models_.resize(left); }
  const std::vector<double>& common() const { return common_; }

 private:
  std::uint32_t Pipelines() const { return static_cast<std::uint32_t>(models_.size()); }
  void Step(std::uint64_t step, std::uint32_t pipeline) {
    TinyStage& model = *models_[pipeline];
    std::uint64_t labels = 0;
    for (std::uint32_t j = pipeline; j < options_.micro_batches; j += Pipelines()) {
      labels += MicroBatch(&model, step, j);
    }
    const double scale = 1.0 / static_cast<double>(labels);
    const double norm = std::sqrt(model.SquaredGradientNorm(scale));
    ASSERT_TRUE(model.Apply(step, scale, norm, kRate).ok());
  }

  std::uint64_t MicroBatch(TinyStage* model, std::uint64_t step, std::uint32_t index) {
    const std::uint64_t slot = (step % options_.steps_per_epoch) * options_.micro_batches + index;
    std::vector<std::int32_t> tokens, labels, segments;
    for (std::uint32_t r = 0; r < options_.rows; ++r) {
      EXPECT_TRUE(data_->AppendRow({slot * options_.rows + r}, &tokens, &labels, &segments).ok());
    }
    model::MicroBatch batch;
    batch.id = {step, index};
    batch.rows = options_.rows;
    batch.tokens = shape_.row_tokens;
    batch.token_ids = tokens;
    batch.labels = labels;
    model::StepLoss loss;
    EXPECT_TRUE(model->Forward(batch, {}, &loss).ok());
    EXPECT_TRUE(model->BackwardInput(batch.id, {}, {}).ok());
    for (bool more = true; more;) more = *model->BackwardWeights(batch.id);
    return loss.labels;
  }

  void Sync() {
    for (std::size_t i = 0; i < common_.size(); ++i) {
      double mean = 0;
      for (const auto& model : models_) mean += (common_[i] - model->weights()[i]);
      mean /= static_cast<double>(models_.size());
      velocity_[i] = momentum_ * velocity_[i] + mean;
      common_[i] -= rate_ * (mean + momentum_ * velocity_[i]);
      for (const auto& model : models_) model->weights()[i] = static_cast<float>(common_[i]);
    }
  }

  const SwarmOptions options_;
  const double rate_, momentum_;
  test_support::TinyShape shape_;
  std::shared_ptr<const dataset::PreparedData> data_;
  std::vector<std::unique_ptr<TinyStage>> models_;
  std::vector<double> common_, velocity_;
  std::uint64_t step_ = 0;
};

struct ReferenceCase {
  std::uint32_t steps;
  double rate, momentum, clip;
};

class LocalReference : public testing::TestWithParam<ReferenceCase> {};

TEST_P(LocalReference, OneStageDoesWhatPlainLoopsDo) {
  const ReferenceCase& one = GetParam();
  SwarmOptions options = LocalOptions("average:", one.steps, 1, 3);
  options.clip_norm = one.clip;
  options.replica +=
      ",outer_rate=" + std::to_string(one.rate) + ",outer_momentum=" + std::to_string(one.momentum);
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  Reference reference(options, one.rate, one.momentum);
  for (std::uint64_t steps = one.steps; steps <= 6 * one.steps; steps += one.steps) {
    ASSERT_TRUE(swarm.TrainTo(steps)) << Why(swarm);
  }
  reference.Train(6 * one.steps);
  const std::vector<float>& weights = swarm.at(0, 1).tiny().weights();
  ASSERT_EQ(weights.size(), reference.common().size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    ASSERT_NEAR(weights[i], reference.common()[i], 2e-5) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, LocalReference,
                         testing::Values(ReferenceCase{1, 1, 0, 1}, ReferenceCase{4, 1, 0, 1},
                                         ReferenceCase{5, 0.7, 0.9, 0.3}));

TEST(LocalStepsTest, CutsAndTheTiedEmbeddingDoNotChangeTheResult) {
  SwarmOptions options = LocalOptions("average:", 4, 1);
  options.clip_norm = 0;  // the norm of one pipeline's gradient knows one end of the embedding
  SimSwarm whole(options);
  ASSERT_TRUE(whole.Open(0) && whole.TrainTo(20)) << Why(whole);
  options.stages = 2;
  SimSwarm cut(options);
  ASSERT_TRUE(cut.Open(0) && cut.TrainTo(20)) << Why(cut);
  for (std::uint32_t l = 0; l < cut.shape_.layers; ++l) {
    const std::vector<float> expected = whole.at(0, 0).tiny().Layer(l);
    const std::vector<float> layer = cut.at(l < cut.shape_.layers / 2 ? 0 : 1, 2).tiny().Layer(l);
    ASSERT_EQ(layer.size(), expected.size());
    for (std::size_t i = 0; i < layer.size(); ++i) ASSERT_NEAR(layer[i], expected[i], 1e-4) << l;
  }
}

// ---- all methods ----

class LocalMethods : public testing::TestWithParam<const char*> {};

bool EndsAgree(SimSwarm& swarm, std::uint32_t pipeline) {
  const std::vector<float> first = swarm.at(0, pipeline).tiny().Embedding();
  const auto& last = swarm.at(1, pipeline).tiny().weights();
  return std::equal(first.begin(), first.end(), last.end() - first.size());
}

TEST_P(LocalMethods, AHundredStepsKeepReplicasEqualToTheBitAtSyncs) {
  SwarmOptions options = LocalOptions(GetParam(), 5);
  std::vector<std::uint64_t> checksums;
  for (const unsigned seed : {1u, 31u}) {  // other delays
    options.seed = seed;
    SimSwarm swarm(options);
    ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
    std::vector<std::uint64_t> now;
    for (std::uint64_t steps = 3; steps <= 100; steps += steps % 5 == 3 ? 2 : 3) {
      ASSERT_TRUE(swarm.TrainTo(steps)) << Why(swarm);
      for (std::uint32_t s = 0; s < 2; ++s) {
        const std::uint64_t first = swarm.at(s, 0).model_->WeightChecksum();
        for (std::uint32_t p = 1; p < 3; ++p) {
          const bool equal = swarm.at(s, p).model_->WeightChecksum() == first;
          ASSERT_EQ(equal, steps % 5 == 0) << steps;
        }
        now.push_back(first);
      }
      for (std::uint32_t p = 0; p < 3; ++p) ASSERT_TRUE(EndsAgree(swarm, p)) << steps;
    }
    EXPECT_LT(swarm.losses_.back(), 0.6 * swarm.losses_.front());
    if (checksums.empty()) checksums = now;
    EXPECT_EQ(now, checksums);
  }
}

TEST_P(LocalMethods, BytesAreCountedNextToAnExchangeInEveryStep) {
  SwarmOptions options = LocalOptions(GetParam(), 5);
  SimSwarm local(options);
  ASSERT_TRUE(local.Open(0) && local.TrainTo(20)) << Why(local);
  options.replica = "average";
  SimSwarm average(options);
  ASSERT_TRUE(average.Open(0) && average.TrainTo(20)) << Why(average);
  for (std::uint32_t s = 0; s < 2; ++s) {
    const replica::KindBytes own = local.at(s, 1).runner_->stats().replica;
    const replica::KindBytes exact = average.at(s, 1).runner_->stats().replica;
    EXPECT_EQ(own.raw_sent, exact.raw_sent);
    EXPECT_EQ(own.raw_received, exact.raw_received);
    EXPECT_LT(own.wire_sent, exact.wire_sent);
  }
}

INSTANTIATE_TEST_SUITE_P(All, LocalMethods,
                         testing::Values("average:", "average:codec=topk:ratio=0.25/bits=2,",
                                         "average:codec=dithered:step=0.3,",
                                         "powersgd:rank=2,start=2,", "qadam:bits=4,bucket=64,",
                                         "onebit:bucket=64,", "cocktail:random=0.25,top=0.5,"));

// Behind a step that is no sync, two of three pipelines go on with what all had in common last.
TEST(LocalStepsTest, PipelinesThatAreWholeGoOnWithoutTheOthers) {
  SwarmOptions options = LocalOptions("average:", 4, 1, 3);
  options.replica += ",outer_rate=0.7,outer_momentum=0.9";
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0) && swarm.TrainTo(10)) << Why(swarm);
  swarm.Run(std::chrono::seconds(1));
  swarm.SetPipelines(2);
  swarm.Run(std::chrono::seconds(1));
  ASSERT_TRUE(swarm.Open(10) && swarm.TrainTo(20)) << Why(swarm);
  Reference reference(options, 0.7, 0.9);
  reference.Train(10);
  reference.Leave(2);
  reference.Train(20);
  const std::vector<float>& weights = swarm.at(0, 1).tiny().weights();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    ASSERT_NEAR(weights[i], reference.common()[i], 2e-5) << i;
  }
}

// As a process whose memory of the former generation is gone.
TEST(LocalStepsTest, NobodyGoesOnWithoutWhatWasInCommon) {
  SimSwarm swarm(LocalOptions("average:", 4, 1, 2));
  ASSERT_TRUE(swarm.Open(0) && swarm.TrainTo(6)) << Why(swarm);
  swarm.Close();
  swarm.Run(std::chrono::seconds(1));
  swarm.at(0, 1).kept_.At(5);
  EXPECT_FALSE(swarm.Open(6));
  ASSERT_TRUE(swarm.at(0, 1).trouble());
  EXPECT_NE(swarm.at(0, 1).trouble()->status.message().find("had in common"), std::string::npos);
}

// ---- pipelines that differ ----

TEST(LocalStepsTest, APipelineWithoutLabelsFollowsTheOthers) {
  SwarmOptions options = LocalOptions("average:", 3);
  options.micro_batches = 2;
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0) && swarm.TrainTo(2)) << Why(swarm);
  SimSwarm untouched(options);
  EXPECT_EQ(swarm.at(0, 2).model_->WeightChecksum(), untouched.at(0, 2).model_->WeightChecksum());
  EXPECT_NE(swarm.at(0, 1).model_->WeightChecksum(), untouched.at(0, 1).model_->WeightChecksum());
  ASSERT_TRUE(swarm.TrainTo(6)) << Why(swarm);
  EXPECT_EQ(swarm.at(0, 2).model_->WeightChecksum(), swarm.at(0, 0).model_->WeightChecksum());
}

TEST(LocalStepsTest, APipelineThatDoesNotCountIsLeftOutAndAdoptsTheRest) {
  SwarmOptions options = LocalOptions("average:", 3);
  SimSwarm swarm(options);
  swarm.counted_ = {0, 2};
  ASSERT_TRUE(swarm.Open(0) && swarm.TrainTo(3)) << Why(swarm);
  EXPECT_EQ(swarm.at(1, 1).model_->WeightChecksum(), swarm.at(1, 0).model_->WeightChecksum());
  for (std::uint32_t p = 0; p < 3; ++p) EXPECT_TRUE(EndsAgree(swarm, p));
}

// ---- failures ----

TEST(LocalStepsTest, ADeadPeerAtAnyMomentLeavesWhatAFreshGenerationGives) {
  SwarmOptions options = LocalOptions("average:codec=topk:ratio=0.25/bits=2,", 3);
  options.random_delays = false;
  const auto finish = [](SimSwarm* swarm, const std::vector<std::vector<float>>& weights) {
    swarm->Close();
    swarm->Run(std::chrono::seconds(1));
    swarm->LoadWeights(weights);
    for (const auto& peer : swarm->peers()) {
      const std::vector<float> zeros(peer->tiny().weights().size(), 0.0F);
      for (const auto which :
           {model::StateVector::kFirstMoment, model::StateVector::kSecondMoment}) {
        ASSERT_TRUE(peer->tiny().Write(which, 0, zeros).ok());
      }
    }
    ASSERT_TRUE(swarm->Open(3) && swarm->TrainTo(9)) << Why(*swarm);
  };
  SimSwarm expected(options);
  ASSERT_TRUE(expected.Open(0) && expected.TrainTo(3)) << Why(expected);
  const auto weights = expected.SaveWeights();
  finish(&expected, weights);
  for (int moment = 1; moment <= 24; ++moment) {
    SCOPED_TRACE(moment);
    SimSwarm swarm(options);
    ASSERT_TRUE(swarm.Open(0) && swarm.TrainTo(3)) << Why(swarm);
    swarm.Begin(6);
    swarm.Run(std::chrono::milliseconds(9 * moment));
    swarm.at(1, 1).runner_.reset();
    swarm.Run(std::chrono::seconds(2));
    finish(&swarm, weights);
    EXPECT_EQ(swarm.SaveWeights(), expected.SaveWeights());
  }
}

}  // namespace
}  // namespace shoal::pipeline
