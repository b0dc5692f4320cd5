// Gradients as low-rank factors in whole swarms. Every message builds on the error that the message
// before it on its link left. Steps that do not count leave nothing, and both ends agree on them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compression/api/stateful_codec.h"
#include "tests/sim/sim_util.h"

namespace shoal::pipeline {
namespace {

using compression::LowRankState;
using net::Frame;
using net::FrameKind;
using test_support::SimSwarm;
using test_support::SwarmOptions;
using test_support::TinyStage;
using test_support::Why;

constexpr char kAuto[] = "lowrank:rank=1";
constexpr char kLazy[] = "lowrank:rank=1,lazy=on,else=raw:dtype=fp32";
constexpr char kAll[] = "lowrank:rank=2,epilogue=false,lazy=on,factors=fp32";

SwarmOptions Options(const std::string& backward, std::uint32_t stages = 3,
                     std::uint32_t pipelines = 1) {
  return test_support::OptionsOf("raw:dtype=fp32", backward, stages, pipelines);
}

// ---- a slow and obvious sender beside every real one ----

// What the layers of a stage took and gave, by micro-batch.
struct Recorded {
  std::map<MicroBatchId, std::vector<float>> inputs, gradients;
};

class RecordingStage final : public TinyStage {
 public:
  RecordingStage(const test_support::TinyShape& shape, model::StageRange range, Recorded* recorded)
      : TinyStage(shape, range, 77), recorded_(recorded) {}
  Status Forward(const model::MicroBatch& micro_batch, std::span<float> output,
                 model::StepLoss* loss) override {
    recorded_->inputs[micro_batch.id].assign(micro_batch.input.begin(), micro_batch.input.end());
    return TinyStage::Forward(micro_batch, output, loss);
  }
  Status BackwardInput(MicroBatchId id, std::span<const float> output_gradient,
                       std::span<float> input_gradient) override {
    const Status status = TinyStage::BackwardInput(id, output_gradient, input_gradient);
    recorded_->gradients[id].assign(input_gradient.begin(), input_gradient.end());
    return status;
  }

 private:
  Recorded* const recorded_;
};

// A link's memory, said once more in plain words; and what went into the link and came out of it.
struct Reference {
  LowRankState kept, newest;
  std::uint64_t step = 0;
  std::uint32_t next = 0;  // micro-batch
  std::uint64_t messages = 0, low_rank = 0;
  std::vector<double> missing;  // sum of gradients less sum of decoded ones
};

class Watched {
 public:
  explicit Watched(SwarmOptions options) : options_(WithStages(std::move(options))) {
    swarm_ = std::make_unique<SimSwarm>(options_);
    codec_ = compression::MakeCodec(options_.backward, swarm_->shape_.hidden).value();
    swarm_->network_.tap = [this](const PeerId& from, const PeerId&, Frame* frame) {
      if (frame->kind == FrameKind::kGradient) Check(from.key[0] - 1, from.key[1] - 1, *frame);
      return 1;
    };
  }

  SimSwarm& swarm() { return *swarm_; }
  Reference& link(std::uint32_t stage, std::uint32_t pipeline = 0) {
    return references_[{pipeline, stage}];
  }
  // Whether the steps from now on count on this pipeline.
  std::map<std::uint32_t, bool> idle_;
  std::vector<std::uint64_t> idle_steps_;

 private:
  SwarmOptions WithStages(SwarmOptions options) {
    const test_support::TinyShape shape;
    options.new_model = [this, shape, stages = options.stages](std::uint32_t stage) {
      recorded_.push_back(std::make_unique<Recorded>());
      return std::make_unique<RecordingStage>(
          shape,
          model::StageRange{shape.layers * stage / stages, shape.layers * (stage + 1) / stages},
          recorded_.back().get());
    };
    return options;
  }

  // Everything of the step before counted, unless it is said that it did not.
  void BeginStep(std::uint32_t pipeline, std::uint64_t step, Reference* link) {
    const bool counted = !idle_[pipeline] || link->step < idle_steps_.front();
    if (counted) link->kept = link->newest;
    link->newest = link->kept;
    link->step = step;
    link->next = 0;
  }

  void Check(std::uint32_t stage, std::uint32_t pipeline, const Frame& frame) {
    Reference& link = references_[{pipeline, stage}];
    const MicroBatchId id = frame.micro_batch;
    if (id.step != link.step) BeginStep(pipeline, id.step, &link);
    ASSERT_EQ(id.index, link.next++) << "sent in order";
    const Recorded& stage_saw = *recorded_[pipeline * options_.stages + stage];
    const std::vector<float>& gradient = stage_saw.gradients.at(id);
    const std::vector<float>& input = stage_saw.inputs.at(id);
    const compression::SampleShape shape{swarm_->shape_.row_tokens, swarm_->shape_.hidden};
    std::vector<std::span<const float>> samples;
    for (std::size_t at = 0; at < gradient.size(); at += shape.values()) {
      samples.push_back(std::span(gradient).subspan(at, shape.values()));
    }
    const std::uint32_t count = options_.micro_batches / options_.pipelines;
    const std::uint32_t global = id.index * options_.pipelines + pipeline;
    const compression::RandomKey key{test_support::kSimSeed, id.step, global, stage - 1, 1};
    const compression::LinkPosition position{options_.stages, stage, count, id.index};
    std::vector<std::byte> payload(codec_->EncodedBytesMax(shape, samples.size()));
    LowRankState next;
    const auto bytes = codec_->stateful()->EncodeOnLink({samples, shape, key, position, input},
                                                        link.newest, payload, &next, nullptr);
    ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
    payload.resize(*bytes);
    const auto sent = frame.payload.bytes();
    ASSERT_TRUE(std::equal(payload.begin(), payload.end(), sent.begin(), sent.end()))
        << "stage " << stage << ", step " << id.step << ", micro-batch " << id.index;
    link.newest = std::move(next);
    ++link.messages;
    link.low_rank += codec_->stateful()->SaysLowRank(sent) ? 1 : 0;

    std::vector<float> values(gradient.size());
    std::vector<compression::SampleToDecode> wanted;
    for (std::size_t at = 0; at < values.size(); at += shape.values()) {
      wanted.push_back({std::span(values).subspan(at, shape.values()), false, {}});
    }
    ASSERT_TRUE(codec_->Decode(sent, wanted, shape, key, {}).ok());
    link.missing.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      link.missing[i] += double{gradient[i]} - values[i];
    }
  }

  std::vector<std::unique_ptr<Recorded>> recorded_;
  const SwarmOptions options_;
  std::unique_ptr<SimSwarm> swarm_;
  std::shared_ptr<const compression::MessageCodec> codec_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Reference> references_;  // pipeline, stage
};

class EveryMessage : public testing::TestWithParam<std::tuple<const char*, SchedulePolicy>> {};

TEST_P(EveryMessage, BuildsOnTheOneBeforeItOnItsLink) {
  SwarmOptions options = Options(std::get<0>(GetParam()), 4, 2);
  options.policy = std::get<1>(GetParam());
  options.micro_batches = 10;
  Watched watched(options);
  SimSwarm& swarm = watched.swarm();
  ASSERT_TRUE(swarm.Open(0)) << Why(swarm);
  constexpr std::uint64_t kSteps = 5;
  ASSERT_TRUE(swarm.TrainTo(kSteps)) << Why(swarm);
  const bool all = std::string(std::get<0>(GetParam())).find("epilogue=false") != std::string::npos;
  for (std::uint32_t p = 0; p < 2; ++p) {
    for (std::uint32_t s = 1; s < 4; ++s) {
      const Reference& link = watched.link(s, p);
      EXPECT_EQ(link.messages, kSteps * 5);
      EXPECT_EQ(link.low_rank, kSteps * (all ? 5 : 4 - s));
      for (const auto* end : {&swarm.at(s, p), &swarm.at(s - 1, p)}) {
        const auto boundaries = end->runner_->stats().boundaries;
        const auto seen = end == &swarm.at(s, p) ? boundaries.front() : boundaries.back();
        ASSERT_TRUE(seen.low_rank.has_value());
        EXPECT_EQ(seen.low_rank->low_rank.messages, link.low_rank);
        EXPECT_EQ(seen.low_rank->others.messages, link.messages - link.low_rank);
        EXPECT_EQ(seen.low_rank->lazy.has_value(), end == &swarm.at(s, p));
        if (end != &swarm.at(s, p)) continue;
        EXPECT_EQ(*seen.low_rank->correlation, link.newest.lazy.correlation);
        EXPECT_LE(std::abs(*seen.low_rank->correlation), 1.0);
        EXPECT_EQ(*seen.low_rank->lazy, !link.newest.error.empty() || link.newest.lazy.on);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, EveryMessage,
                         testing::Combine(testing::Values(kAuto, kLazy, kAll),
                                          testing::Values(SchedulePolicy::k1f1b,
                                                          SchedulePolicy::kZeroBubble)));

TEST(LowRankSimTest, WhatArrivesAndWhatIsKeptIsWhatWasComputedOverAllSteps) {
  for (const char* const codec : {kLazy, kAll}) {
    Watched watched(Options(codec, 4));
    ASSERT_TRUE(watched.swarm().Open(0));
    ASSERT_TRUE(watched.swarm().TrainTo(7)) << Why(watched.swarm());
    for (std::uint32_t s = 1; s < 4; ++s) {
      const Reference& link = watched.link(s);
      double largest = 0;
      for (const float x : link.newest.error) largest = std::max(largest, std::abs(double{x}));
      ASSERT_GT(largest, 0) << "something was left out";
      for (std::size_t i = 0; i < link.missing.size(); ++i) {
        EXPECT_NEAR(link.missing[i], link.newest.error[i], 1e-6 * 42 * largest);
      }
    }
  }
}

TEST(LowRankSimTest, APipelineThatDoesNotCountKeepsItsMemory) {
  Watched watched(Options(kLazy, 3, 2));
  SimSwarm& swarm = watched.swarm();
  ASSERT_TRUE(swarm.Open(0));
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
  watched.idle_[1] = true;
  watched.idle_steps_ = {3};
  swarm.counted_ = {0};
  ASSERT_TRUE(swarm.TrainTo(6)) << Why(swarm);  // the reference says what is sent in these
  EXPECT_EQ(watched.link(1, 1).messages, 6u * 3);
}

// ---- whole runs ----

std::vector<std::uint64_t> Trained(const SwarmOptions& options, std::uint64_t steps) {
  SimSwarm swarm(options);
  EXPECT_TRUE(swarm.Open(0)) << Why(swarm);
  EXPECT_TRUE(swarm.TrainTo(steps)) << Why(swarm);
  EXPECT_LT(swarm.losses_.back(), swarm.losses_.front());
  std::vector<std::uint64_t> checksums;
  for (const auto& peer : swarm.peers()) {
    checksums.push_back(peer->model_->WeightChecksum());
    EXPECT_EQ(checksums.back(), swarm.at(peer->stage_, 0).model_->WeightChecksum());
  }
  return checksums;
}

TEST(LowRankSimTest, ReplicasAreEqualAndRunsRepeatBitForBitWhateverTheDelays) {
  for (const char* const codec : {kAuto, kLazy, kAll}) {
    SwarmOptions options = Options(codec, 2, 2);
    const auto first = Trained(options, 12);
    options.seed = 77;
    EXPECT_EQ(Trained(options, 12), first);
    options.backward = "lowrank:rank=1,lazy=off,epilogue=false,factors=fp32,else=raw:dtype=fp32";
    EXPECT_NE(Trained(options, 12), first);
  }
}

TEST(LowRankSimTest, SchedulesAndBoundsGiveTheSameBits) {
  SwarmOptions options = Options(kLazy, 4);
  options.micro_batches = 12;
  options.policy = SchedulePolicy::k1f1b;
  const auto first = Trained(options, 6);
  for (const std::uint32_t bound : {1u, 3u, 12u, 0u}) {
    options.policy = SchedulePolicy::kZeroBubble;
    options.in_flight_max = bound;
    EXPECT_EQ(Trained(options, 6), first) << bound;
  }
}

// Trains to `from`, begins anew there, trains to `to`; the step after `from` is broken off once if
// `abort` names a gradient of it that gets lost.
std::vector<std::vector<float>> Interrupted(const std::string& codec, int abort) {
  SimSwarm swarm(Options(codec));
  EXPECT_TRUE(swarm.Open(0));
  EXPECT_TRUE(swarm.TrainTo(4)) << Why(swarm);
  const auto weights = swarm.SaveWeights();
  if (abort > 0) {
    int sent = 0;
    swarm.network_.tap = [&](const PeerId&, const PeerId&, Frame* frame) {
      return frame->kind == FrameKind::kGradient && ++sent == abort ? 0 : 1;
    };
    EXPECT_FALSE(swarm.TrainTo(5));
    EXPECT_GE(sent, abort);
    swarm.network_.tap = nullptr;
  }
  swarm.Close();
  swarm.Run(std::chrono::seconds(1));
  swarm.LoadWeights(weights);
  EXPECT_TRUE(swarm.Open(4)) << Why(swarm);
  EXPECT_TRUE(swarm.TrainTo(9)) << Why(swarm);
  return swarm.SaveWeights();
}

TEST(LowRankSimTest, AnAbortedStepLeavesNothingBehind) {
  for (const char* const codec : {kAuto, kLazy, kAll}) {
    const auto expected = Interrupted(codec, 0);
    for (const int abort : {1, 5, 12}) EXPECT_EQ(Interrupted(codec, abort), expected) << abort;
  }
}

TEST(LowRankSimTest, OtherFormsThanThePlanSaysAreTheSendersFault) {
  for (const std::uint32_t index : {0u, 5u}) {
    SimSwarm swarm(Options("lowrank:rank=1,else=raw:dtype=fp32", 2));
    swarm.network_.tap = [&](const PeerId&, const PeerId&, Frame* frame) {
      if (frame->kind != FrameKind::kGradient || frame->micro_batch.index != index) return 1;
      std::byte& form = frame->payload.bytes()[2];
      form = form == std::byte{0} ? std::byte{1} : std::byte{0};
      return 1;
    };
    ASSERT_TRUE(swarm.Open(0));
    EXPECT_FALSE(swarm.TrainTo(1));
    const auto& failure = swarm.at(0, 0).failure_;
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(failure->peer, swarm.at(1, 0).id_);
    EXPECT_NE(failure->status.message().find(index == 0 ? "is low rank where the plan"
                                                        : "is not low rank where the plan"),
              std::string::npos)
        << failure->status.ToString();
  }
}

TEST(LowRankSimTest, LinksMoveFewerBytesAndSegmentsStayWhole) {
  SwarmOptions options = Options(kAll, 2);
  options.segment_bytes_min = 1;
  SimSwarm swarm(options);
  ASSERT_TRUE(swarm.Open(0));
  ASSERT_TRUE(swarm.TrainTo(3)) << Why(swarm);
  const RunnerStats stats = swarm.at(1, 0).runner_->stats();
  // 10 x 8 values as two factors of rank 2.
  EXPECT_EQ(stats.backward.wire_sent, 3u * 6 * (16 + 2 * (10 + 8) * 4));
  EXPECT_EQ(stats.backward.raw_sent, 3u * 6 * 10 * 8 * 4);
  EXPECT_EQ(stats.boundaries.front().low_rank->share(), 1.0);
  EXPECT_DOUBLE_EQ(stats.boundaries.front().low_rank->low_rank.bits_per_value(), 160 * 8 / 80.0);
}

}  // namespace
}  // namespace shoal::pipeline
