// Whole swarms that measure held-out loss before some of their steps.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/boundary/evaluation_link.h"
#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using net::Frame;
using net::FrameKind;
using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::TinyShape;
using test_support::TinyStage;
using test_support::Why;

constexpr std::uint64_t kSteps = 4;
// More than may wait at a stage.
constexpr std::uint32_t kMicroBatches = 3 * kEvaluationAhead;

bool Evaluates(std::uint64_t step) { return step % 2 == 0; }

// Of each pipeline, rows of one and two samples in turns; other samples in another pipeline.
std::vector<MicroBatchPlan> Rows(std::uint64_t step, std::uint32_t pipeline) {
  std::vector<MicroBatchPlan> plan;
  if (!Evaluates(step)) return plan;
  for (std::uint32_t i = 0; i < kMicroBatches; ++i) {
    MicroBatchPlan micro_batch;
    micro_batch.global_index = i;
    micro_batch.samples.push_back({2 * i + pipeline});
    if (i % 2 == 0) micro_batch.samples.push_back({2 * i + 1 - pipeline});
    plan.push_back(std::move(micro_batch));
  }
  return plan;
}

SwarmOptions Options(std::uint32_t stages, std::uint32_t pipelines) {
  SwarmOptions options = test_support::Quantised(stages, pipelines);
  options.evaluation = Rows;
  return options;
}

// The same rows through one stage that has all layers, without a boundary.
model::StepLoss Reference(const SimSwarm& swarm, std::uint32_t pipelines) {
  const TinyShape& shape = swarm.shape_;
  TinyStage whole(shape, {0, shape.layers}, 77);
  model::StepLoss loss;
  for (std::uint32_t p = 0; p < pipelines; ++p) {
    for (const MicroBatchPlan& plan : Rows(0, p)) {
      std::vector<std::int32_t> tokens, labels, segments;
      for (const SampleId sample : plan.samples) {
        EXPECT_TRUE(swarm.data_->AppendRow(sample, &tokens, &labels, &segments).ok());
      }
      model::MicroBatch micro_batch;
      micro_batch.samples = plan.samples;
      micro_batch.rows = static_cast<std::uint32_t>(plan.samples.size());
      micro_batch.tokens = shape.row_tokens;
      micro_batch.token_ids = tokens;
      micro_batch.labels = labels;
      model::StepLoss part;
      EXPECT_TRUE(whole.Evaluate(micro_batch, {}, &part).ok());
      loss.sum += part.sum;
      loss.labels += part.labels;
    }
  }
  return loss;
}

TEST(HeldOutSimTest, TheLossIsThatOfAllLayersInOnePlace) {
  for (const std::uint32_t stages : {1u, 2u, 4u}) {
    for (const std::uint32_t pipelines : {1u, 2u}) {
      SCOPED_TRACE(std::to_string(stages) + " stages, " + std::to_string(pipelines));
      SimSwarm swarm(Options(stages, pipelines));
      ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
      ASSERT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
      const model::StepLoss wanted = Reference(swarm, pipelines);
      ASSERT_GT(wanted.labels, 0u);
      EXPECT_EQ(swarm.held_out_[0].labels, wanted.labels);
      EXPECT_NEAR(swarm.held_out_[0].sum, wanted.sum, 1e-3 * wanted.sum);
      EXPECT_EQ(swarm.held_out_[1].labels, 0u);
      // Training has changed the weights since.
      EXPECT_EQ(swarm.held_out_[2].labels, wanted.labels);
      EXPECT_GT(std::fabs(swarm.held_out_[2].sum - wanted.sum), 1e-3 * wanted.sum);
    }
  }
}

TEST(HeldOutSimTest, TrainingIsTheSameBitForBit) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    SwarmOptions options = Options(3, 2);
    options.seed = seed;
    SimSwarm with(options);
    ASSERT_TRUE(with.Open(0)) << Why(with);
    ASSERT_TRUE(with.TrainTo(kSteps)) << Why(with);
    options.evaluation = nullptr;
    SimSwarm without(options);
    ASSERT_TRUE(without.Open(0)) << Why(without);
    ASSERT_TRUE(without.TrainTo(kSteps)) << Why(without);
    EXPECT_EQ(with.SaveWeights(), without.SaveWeights()) << "seed " << seed;
    EXPECT_EQ(with.losses_, without.losses_) << "seed " << seed;
    EXPECT_TRUE(with.checksum_mismatches_.empty());
  }
}

TEST(HeldOutSimTest, NoStageGetsMoreThanItMayHold) {
  SimSwarm swarm(Options(3, 1));
  std::map<std::pair<std::uint8_t, std::uint8_t>, int> untaken;
  int most = 0, frames = 0;
  swarm.network_.tap = [&](const PeerId& from, const PeerId& to, Frame* frame) {
    if (frame->kind != FrameKind::kEvaluation) return 1;
    ++frames;
    if (from.key[0] < to.key[0]) {
      most = std::max(most, ++untaken[{from.key[0], to.key[0]}]);
    } else {
      --untaken[{to.key[0], from.key[0]}];
    }
    return 1;
  };
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
  EXPECT_EQ(most, static_cast<int>(kEvaluationAhead));
  EXPECT_EQ(frames, 2 * 2 * 2 * static_cast<int>(kMicroBatches)) << "steps, boundaries, directions";
}

// An activation of a held-out row overflows where those of training do not.
class Overflowing final : public TinyStage {
 public:
  using TinyStage::TinyStage;
  Status Evaluate(const model::MicroBatch& micro_batch, std::span<float> output,
                  model::StepLoss* loss) override {
    SHOAL_RETURN_IF_ERROR(TinyStage::Evaluate(micro_batch, output, loss));
    if (!output.empty()) output.back() = std::numeric_limits<float>::infinity();
    return Status::Ok();
  }
};

TEST(HeldOutSimTest, ALossThatIsNotFiniteDoesNotEndTraining) {
  SwarmOptions options = Options(3, 1);
  const TinyShape shape;
  options.new_model = [shape](std::uint32_t stage) -> std::unique_ptr<model::StageModel> {
    const model::StageRange range{shape.layers * stage / 3, shape.layers * (stage + 1) / 3};
    if (stage == 0) return std::make_unique<Overflowing>(shape, range, 77);
    return std::make_unique<TinyStage>(shape, range, 77);
  };
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
  EXPECT_TRUE(std::isnan(swarm.held_out_[0].sum));
  for (const double loss : swarm.losses_) EXPECT_TRUE(std::isfinite(loss));
}

TEST(HeldOutSimTest, BytesThatCannotBeDecodedAreTheSendersFault) {
  SimSwarm swarm(Options(3, 1));
  swarm.network_.tap = [&](const PeerId& from, const PeerId& to, Frame* frame) {
    if (frame->kind == FrameKind::kEvaluation && from.key[0] == 1 && to.key[0] == 2) {
      frame->payload.data()[0] ^= std::byte{0xff};
    }
    return 1;
  };
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  EXPECT_FALSE(swarm.TrainTo(1));
  const auto& failure = swarm.at(1, 0).failure_;
  ASSERT_TRUE(failure.has_value());
  EXPECT_NE(failure->status.message().find("evaluation of micro-batch 0 of step 0"),
            std::string::npos)
      << failure->status.ToString();
  ASSERT_TRUE(failure->peer.has_value());
  EXPECT_EQ(*failure->peer, swarm.at(0, 0).id_);
}

TEST(HeldOutSimTest, ANeighbourThatFallsSilentIsNamed) {
  SimSwarm swarm(Options(3, 1));
  swarm.network_.tap = [&](const PeerId& from, const PeerId&, Frame* frame) {
    return frame->kind == FrameKind::kEvaluation && from.key[0] == 1 ? 0 : 1;
  };
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  EXPECT_FALSE(swarm.TrainTo(1));
  bool named = false;
  for (const auto& peer : swarm.peers()) {
    if (!peer->failure_) continue;
    const std::string text = peer->failure_->status.ToString();
    named = named ||
            text.find("the evaluation of micro-batch 0 of step 0 from peer") != std::string::npos;
  }
  EXPECT_TRUE(named);
}

}  // namespace
}  // namespace shoal::pipeline
