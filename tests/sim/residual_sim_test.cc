// Error feedback of gradients in whole swarms: nothing that was not sent is lost, whatever happens
// to steps and stores.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "compression/codecs/feedback_codec.h"
#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using net::Frame;
using net::FrameKind;
using storage::BoundarySide;
using test_support::Images;
using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::TinyStage;
using test_support::Why;

constexpr char kTopK[] = "topk:ratio=0.1,bits=8,feedback=on";
constexpr std::uint64_t kSamples = 36;

SwarmOptions Options(const std::string& backward, std::uint32_t stages = 2,
                     std::uint32_t pipelines = 1) {
  return test_support::OptionsOf("raw:dtype=fp32", backward, stages, pipelines);
}

compression::SampleShape ShapeOf(const SimSwarm& swarm) {
  return {swarm.shape_.row_tokens, swarm.shape_.hidden};
}

Images ImagesOf(SimSwarm::Peer& peer, std::uint32_t boundary,
                BoundarySide side = BoundarySide::kResidual) {
  return test_support::ImagesOf(peer, test_support::Place(boundary, side));
}

Images AllImages(SimSwarm& swarm) {
  Images all;
  for (const auto& peer : swarm.peers()) {
    for (std::uint32_t boundary = 0; boundary + 1 < swarm.options_.stages; ++boundary) {
      for (auto& [sample, image] : ImagesOf(*peer, boundary)) {
        all[(std::uint64_t{peer->pipeline_} * 8 + peer->stage_) * 8 * kSamples +
            boundary * kSamples + sample] = image;
      }
    }
  }
  return all;
}

// ---- nothing is lost ----

// By sample: what the last stage made of gradients, in all.
using Sums = std::map<std::uint64_t, std::vector<double>>;

void AddRows(const float* rows, std::size_t values, const std::vector<SampleId>& samples,
             double sign, Sums* sums) {
  for (const SampleId sample : samples) {
    std::vector<double>& sum = (*sums)[sample.value];
    sum.resize(values);
    for (std::size_t i = 0; i < values; ++i) sum[i] += sign * rows[i];
    rows += values;
  }
}

// Adds up the gradients that it hands back.
class CountingStage final : public TinyStage {
 public:
  CountingStage(const test_support::TinyShape& shape, model::StageRange range, Sums* sums)
      : TinyStage(shape, range, 77), values_(shape.row_tokens * shape.hidden), sums_(sums) {}
  Status Forward(const model::MicroBatch& micro_batch, std::span<float> output,
                 model::StepLoss* loss) override {
    samples_[micro_batch.id] = micro_batch.samples;
    return TinyStage::Forward(micro_batch, output, loss);
  }
  Status BackwardInput(MicroBatchId id, std::span<const float> output_gradient,
                       std::span<float> input_gradient) override {
    const Status status = TinyStage::BackwardInput(id, output_gradient, input_gradient);
    if (!input_gradient.empty()) {
      AddRows(input_gradient.data(), values_, samples_[id], 1, sums_);
    }
    return status;
  }

 private:
  const std::size_t values_;
  Sums* const sums_;
  std::map<MicroBatchId, std::vector<SampleId>> samples_;
};

class Conserved : public testing::TestWithParam<const char*> {};

TEST_P(Conserved, GradientsAreWhatArrivedPlusWhatIsKept) {
  const test_support::TinyShape shape;
  Sums missing;  // computed minus decoded
  SwarmOptions options = Options(GetParam());
  options.new_model = [&](std::uint32_t stage) {
    return std::make_unique<CountingStage>(shape, model::StageRange{2 * stage, 2 * stage + 2},
                                           &missing);
  };
  SimSwarm swarm(options);
  const auto codec = compression::MakeCodec(GetParam(), shape.hidden).value();
  const compression::SampleShape of_sample = ShapeOf(swarm);
  swarm.network_.tap = [&](const PeerId&, const PeerId&, Frame* frame) {
    if (frame->kind != FrameKind::kGradient) return 1;
    EXPECT_EQ(frame->samples.front().base_version, 0u);
    std::vector<float> values(frame->samples.size() * of_sample.values());
    std::vector<compression::SampleToDecode> wanted;
    std::vector<SampleId> samples;
    for (std::size_t i = 0; i < frame->samples.size(); ++i) {
      wanted.push_back(
          {std::span(values).subspan(i * of_sample.values(), of_sample.values()), false, {}});
      samples.push_back(frame->samples[i].sample);
    }
    const compression::RandomKey key{test_support::kSimRun.value, frame->micro_batch.step,
                                     frame->micro_batch.index, 0, 1};
    EXPECT_TRUE(codec->Decode(frame->payload.bytes(), wanted, of_sample, key, {}).ok());
    AddRows(values.data(), of_sample.values(), samples, -1, &missing);
    return 1;
  };
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  constexpr int kVisits = 6;
  ASSERT_TRUE(swarm.TrainTo(kVisits * options.steps_per_epoch)) << Why(swarm);
  const Images images = ImagesOf(swarm.at(1, 0), 0);
  ASSERT_EQ(images.size(), kSamples);
  double kept = 0;
  for (const auto& [sample, image] : images) {
    std::vector<float> residual(of_sample.values());
    ASSERT_TRUE(compression::CheckResidualImage(image, of_sample).ok());
    compression::ReadResidualImage(image, residual);
    float largest = 0;
    for (const float r : residual) largest = std::max(largest, std::abs(r));
    for (std::size_t i = 0; i < residual.size(); ++i) {
      // Six roundings to 11 bits, of residuals of this size.
      EXPECT_NEAR(missing[sample][i], residual[i], kVisits * 2 * largest * 0x1p-11);
      kept += std::abs(residual[i]);
    }
  }
  EXPECT_GT(kept, 0);
  // The end that receives gradients keeps nothing.
  EXPECT_EQ(swarm.at(0, 0).store_->stats().records, 0u);
  EXPECT_EQ(swarm.at(1, 0).runner_->stats().staged_bytes, 0u);
  EXPECT_EQ(swarm.at(1, 0).runner_->stats().prefetch_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Codecs, Conserved,
                         testing::Values(kTopK, "direct:bits=2,feedback=on",
                                         "tiles:bits=2,feedback=on"));

// ---- steps that do not count, restarts ----

TEST(ResidualSimTest, ARestartContinuesToTheBit) {
  SwarmOptions options = Options(kTopK, 3, 2);
  options.forward = "aqsgd:bits=4";
  SimSwarm undisturbed(options);
  ASSERT_TRUE(undisturbed.Open(0)) << Why(undisturbed);
  ASSERT_TRUE(undisturbed.TrainTo(10)) << Why(undisturbed);
  options.seed = 5;
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  for (const std::uint64_t step : {4u, 5u, 10u}) {
    ASSERT_TRUE(swarm.TrainTo(step)) << Why(swarm);
    if (step == 10) break;
    swarm.Close();
    swarm.Run(std::chrono::seconds(1));
    ASSERT_TRUE(swarm.Open(step)) << Why(swarm);
  }
  EXPECT_EQ(swarm.SaveWeights(), undisturbed.SaveWeights());
  EXPECT_EQ(AllImages(swarm), AllImages(undisturbed));
  EXPECT_EQ(AllImages(swarm).size(), 2 * kSamples);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
  // With feedback gradients differ from those without.
  SimSwarm without(Options("topk:ratio=0.1,bits=8", 3, 2));
  without.options_.forward = options.forward;
  ASSERT_TRUE(without.Open(0)) << Why(without);
  ASSERT_TRUE(without.TrainTo(10)) << Why(without);
  EXPECT_NE(without.SaveWeights(), undisturbed.SaveWeights());
}

TEST(ResidualSimTest, ALostMessageLeavesTheResidualsOfBeforeTheStep) {
  SimSwarm undisturbed(Options(kTopK));
  ASSERT_TRUE(undisturbed.Open(0));
  ASSERT_TRUE(undisturbed.TrainTo(9));
  SimSwarm swarm(Options(kTopK));
  ASSERT_TRUE(swarm.Open(0));
  ASSERT_TRUE(swarm.TrainTo(5)) << Why(swarm);
  const auto weights = swarm.SaveWeights();
  const Images before = AllImages(swarm);
  ASSERT_EQ(before.size(), kSamples);
  int sent = 0;
  swarm.network_.tap = [&](const PeerId&, const PeerId&, Frame* frame) {
    return frame->kind == FrameKind::kGradient && ++sent == 4 ? 0 : 1;
  };
  EXPECT_FALSE(swarm.TrainTo(9));
  EXPECT_GE(sent, 4);
  swarm.Close();
  swarm.Run(std::chrono::seconds(1));
  EXPECT_EQ(AllImages(swarm), before);
  swarm.network_.tap = nullptr;
  swarm.LoadWeights(weights);
  ASSERT_TRUE(swarm.Open(5)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(9)) << Why(swarm);
  EXPECT_EQ(swarm.SaveWeights(), undisturbed.SaveWeights());
  EXPECT_EQ(AllImages(swarm), AllImages(undisturbed));
}

TEST(ResidualSimTest, APipelineThatDoesNotCountKeepsItsResiduals) {
  SimSwarm swarm(Options(kTopK, 2, 2));
  ASSERT_TRUE(swarm.Open(0));
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
  const Images counts = ImagesOf(swarm.at(1, 0), 0);
  const Images does_not = ImagesOf(swarm.at(1, 1), 0);
  ASSERT_EQ(does_not.size(), kSamples / 2);
  swarm.counted_ = {0};
  ASSERT_TRUE(swarm.TrainTo(6)) << Why(swarm);
  EXPECT_EQ(ImagesOf(swarm.at(1, 1), 0), does_not);
  const Images later = ImagesOf(swarm.at(1, 0), 0);
  for (const auto& [sample, image] : counts) EXPECT_NE(later.at(sample), image);
}

TEST(ResidualSimTest, GoingBackToAnOlderStepForgetsNewerResiduals) {
  SimSwarm swarm(Options(kTopK));
  ASSERT_TRUE(swarm.Open(0));
  ASSERT_TRUE(swarm.TrainTo(4)) << Why(swarm);
  const auto weights = swarm.SaveWeights();
  ASSERT_TRUE(swarm.TrainTo(5)) << Why(swarm);
  swarm.Close();
  swarm.Run(std::chrono::seconds(1));
  swarm.LoadWeights(weights);
  ASSERT_TRUE(swarm.Open(4)) << Why(swarm);
  swarm.Run(std::chrono::seconds(1));
  // Step 4, the fifth, visited samples 12 to 23.
  const Images images = ImagesOf(swarm.at(1, 0), 0);
  EXPECT_EQ(images.size(), kSamples - 12);
  EXPECT_FALSE(images.contains(12));
  EXPECT_TRUE(images.contains(24));
  ASSERT_TRUE(swarm.TrainTo(9)) << Why(swarm);
  EXPECT_EQ(ImagesOf(swarm.at(1, 0), 0).size(), kSamples);
}

// ---- stores that lose ----

TEST(ResidualSimTest, WhereTheQuotaIsShortMStaysAndResidualsGo) {
  SwarmOptions options = Options(kTopK);
  options.forward = "aqsgd:bits=4";
  // An image, of either kind, has 16 + 2 x 40 bytes: room for all m and a third of the residuals.
  options.store_bytes_max = (kSamples + kSamples / 3) * 96;
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0));
  ASSERT_TRUE(swarm.TrainTo(9)) << Why(swarm);
  EXPECT_EQ(ImagesOf(swarm.at(1, 0), 0, BoundarySide::kReceiver).size(), kSamples);
  EXPECT_EQ(ImagesOf(swarm.at(0, 0), 0, BoundarySide::kSender).size(), kSamples);
  EXPECT_EQ(ImagesOf(swarm.at(1, 0), 0).size(), kSamples / 3);
  EXPECT_EQ(swarm.at(0, 0).runner_->stats().first_visits, kSamples);
  EXPECT_TRUE(swarm.checksum_mismatches_.empty());
}

TEST(ResidualSimTest, ALostResidualOrOneOfAnotherShapeIsNoneAndTheRunGoesOn) {
  SimSwarm swarm(Options(kTopK));
  ASSERT_TRUE(swarm.Open(0));
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
  swarm.Close();
  swarm.Run(std::chrono::seconds(1));
  const storage::BoundaryEnd boundary_end{test_support::kSimRun, 0, BoundarySide::kResidual};
  storage::DeltaStore& store = *swarm.at(1, 0).store_;
  ASSERT_TRUE(store.Drop(boundary_end, std::vector<SegmentId>{{1}}, UINT64_MAX).ok());
  std::vector<storage::DeltaUpdate> updates(1);
  updates[0].segment.value = 2;
  updates[0].record = store.Get(boundary_end, {3}).value().value();
  updates[0].record.tokens += 1;
  ASSERT_TRUE(store.Commit(boundary_end, updates, nullptr).ok());
  ASSERT_TRUE(swarm.Open(3)) << Why(swarm);
  ASSERT_TRUE(swarm.TrainTo(6)) << Why(swarm);
  EXPECT_EQ(ImagesOf(swarm.at(1, 0), 0).size(), kSamples);
}

// ---- what it is for ----

// Near the end of a training, where what a codec leaves out in every visit decides.
double LastLoss(const std::string& backward) {
  SwarmOptions options = Options(backward, 4);
  options.learning_rate = [](std::uint64_t) { return 0.3; };
  SimSwarm swarm(options);
  EXPECT_TRUE(swarm.Open(0)) << Why(swarm);
  EXPECT_TRUE(swarm.TrainTo(60)) << Why(swarm);
  return std::accumulate(swarm.losses_.end() - 3, swarm.losses_.end(), 0.0) / 3;
}

TEST(ResidualSimTest, WithFeedbackASmallShareOfTheGradientTrainsNearlyAsAll) {
  const double all = LastLoss("raw:dtype=fp32");
  const double with = LastLoss(kTopK);
  const double without = LastLoss("topk:ratio=0.1,bits=8");
  EXPECT_GT(without, 1.1 * all);
  EXPECT_LT(with - all, 0.25 * (without - all)) << all << " " << with << " " << without;
}

// ---- refusals ----

TEST(ResidualSimTest, CodecsOfTheWrongDirectionAreRefused) {
  SwarmOptions options;
  options.forward = kTopK;
  SimSwarm forward(options);
  EXPECT_FALSE(forward.Open(0));
  EXPECT_NE(Why(forward).find("take aqsgd:delta=topk:ratio=0.1/bits=8/bucket=128"),
            std::string::npos)
      << Why(forward);
  SimSwarm backward(Options("aqsgd:bits=4"));
  EXPECT_FALSE(backward.Open(0));
  EXPECT_NE(Why(backward).find("is not right on average"), std::string::npos) << Why(backward);
}

}  // namespace
}  // namespace shoal::pipeline
