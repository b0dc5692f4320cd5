// Rows of several segments and padding: what they compute is what their samples compute alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/families/adapter_config.h"
#include "model/families/open_model.h"
#include "model/host_memory.h"
#include "tests/unit/model/stage_pipeline.h"

namespace shoal::model {
namespace {

using ::testing::HasSubstr;
using Gradients = std::map<std::string, std::vector<float>>;

constexpr std::uint32_t kVocabulary = 53, kTokens = 21;

std::string Model(const std::string& family) {
  return std::string(std::getenv("SHOAL_TEST_DATA")) + "/families/" + family;
}

TestBatch Sample(std::uint32_t tokens, std::uint64_t seed) {
  return RandomBatch(1, tokens, kVocabulary, 0.2, seed);
}

void AddPadding(std::uint32_t tokens, TestBatch* row) {
  row->token_ids.insert(row->token_ids.end(), tokens, 1);
  row->labels.insert(row->labels.end(), tokens, kIgnoredLabel);
  row->segments.insert(row->segments.end(), tokens, -1);
}

void AddSample(const TestBatch& sample, std::int32_t number, TestBatch* row) {
  row->token_ids.insert(row->token_ids.end(), sample.token_ids.begin(), sample.token_ids.end());
  row->labels.insert(row->labels.end(), sample.labels.begin(), sample.labels.end());
  row->segments.insert(row->segments.end(), sample.tokens, number);
}

// Places of samples in rows.
struct Packed {
  TestBatch batch{2, kTokens, {{0}, {1}}, {}, {}};
  std::vector<TestBatch> samples;
  std::vector<std::size_t> first;  // of each, among all tokens
};

Packed Pack() {
  Packed packed;
  const auto add = [&](std::uint32_t tokens, std::int32_t number) {
    packed.samples.push_back(Sample(tokens, 10 + packed.samples.size()));
    packed.first.push_back(packed.batch.token_ids.size());
    AddSample(packed.samples.back(), number, &packed.batch);
  };
  add(5, 0);
  add(11, 1);
  AddPadding(5, &packed.batch);
  AddPadding(1, &packed.batch);
  add(3, 4);
  add(17, 2);
  return packed;
}

std::vector<float> Logits(StagePipeline* pipeline, const TestBatch& batch) {
  const std::uint32_t classes = pipeline->spec().classes();
  std::vector<float> logits(classes > 0 ? batch.rows * classes
                                        : batch.token_ids.size() * kVocabulary);
  MicroBatch asked = AsMicroBatch({}, batch);
  asked.labels = {};
  const Status status = pipeline->stage(0).Logits(asked, false, logits);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return logits;
}

void ExpectNear(const Gradients& got, const Gradients& wanted, double most) {
  ASSERT_EQ(got.size(), wanted.size());
  double largest = 0;
  for (const auto& [name, values] : wanted) {
    for (const float value : values) largest = std::max(largest, std::abs(double{value}));
  }
  for (const auto& [name, values] : wanted) {
    // A key bias without rotary positions has rounding noise for a gradient.
    if (name.ends_with("key.bias") || name.ends_with("pos_key_proj.bias")) {
      for (const float value : got.at(name)) EXPECT_LT(std::abs(value), most * largest) << name;
      continue;
    }
    EXPECT_LT(RelativeDifference(got.at(name), values), most) << name;
  }
}

class Segments : public testing::TestWithParam<std::string> {};

TEST_P(Segments, PackedRowsAreTheirSamples) {
  const Packed packed = Pack();
  StagePipeline together(Model(GetParam()), 1, {}), alone(Model(GetParam()), 1, {});
  const std::vector<float> logits = Logits(&together, packed.batch);
  const StepLoss loss = together.RunMicroBatch({0, 0}, packed.batch);
  StepLoss sum;
  for (std::uint32_t i = 0; i < packed.samples.size(); ++i) {
    const TestBatch& sample = packed.samples[i];
    const std::vector<float> wanted = Logits(&alone, sample);
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(packed.first[i] * kVocabulary);
    const std::vector<float> got(first, first + static_cast<std::ptrdiff_t>(wanted.size()));
    EXPECT_LT(RelativeDifference(got, wanted), 1e-5) << "sample " << i;
    const StepLoss part = alone.RunMicroBatch({0, i}, sample);
    sum.sum += part.sum;
    sum.labels += part.labels;
  }
  EXPECT_NEAR(loss.sum, sum.sum, 1e-5 * sum.sum);
  EXPECT_EQ(loss.labels, sum.labels);
  ExpectNear(together.Gradients(), alone.Gradients(), 1e-4);
}

TEST_P(Segments, AnyCutGivesTheSameBits) {
  const TestBatch batch = Pack().batch;
  StagePipeline whole(Model(GetParam()), 1, {});
  const StepLoss loss = whole.RunMicroBatch({0, 0}, batch);
  const Gradients gradients = whole.Gradients();
  for (std::uint32_t stages = 2; stages <= whole.spec().layers(); ++stages) {
    StagePipeline cut(Model(GetParam()), stages, {});
    EXPECT_EQ(cut.RunMicroBatch({0, 0}, batch).sum, loss.sum);
    for (const auto& [name, values] : cut.Gradients()) {
      // What stages share is summed in another order.
      const bool shared = whole.spec().SharedTensors().contains(name);
      EXPECT_LE(RelativeDifference(values, gradients.at(name)), shared ? 1e-6 : 0) << name;
    }
  }
}

TEST_P(Segments, RecomputeTheSameBits) {
  const TestBatch batch = Pack().batch;
  StageOptions options;
  options.dropout = 0.2;
  StagePipeline kept(Model(GetParam()), 1, options);
  kept.RunMicroBatch({0, 0}, batch);
  options.recompute = true;
  StagePipeline again(Model(GetParam()), 1, options);
  again.RunMicroBatch({0, 0}, batch);
  EXPECT_EQ(again.Gradients(), kept.Gradients());
}

TEST_P(Segments, WhatStandsInPaddingChangesNothing) {
  TestBatch batch = Pack().batch;
  StagePipeline one(Model(GetParam()), 1, {}), other(Model(GetParam()), 1, {});
  const double loss = one.RunMicroBatch({0, 0}, batch).sum;
  for (std::size_t i = 0; i < batch.segments.size(); ++i) {
    if (batch.segments[i] < 0) batch.token_ids[i] = static_cast<std::int32_t>(7 + i % 40);
  }
  EXPECT_EQ(other.RunMicroBatch({0, 0}, batch).sum, loss);
  EXPECT_EQ(other.Gradients(), one.Gradients());
}

TEST_P(Segments, OfWholeRowsAreNone) {
  TestBatch batch = RandomBatch(2, kTokens, kVocabulary, 0.2, 3);
  StageOptions options;
  options.dropout = 0.1;
  StagePipeline without(Model(GetParam()), 1, options), with(Model(GetParam()), 1, options);
  const double loss = without.RunMicroBatch({0, 0}, batch).sum;
  batch.segments.assign(batch.token_ids.size(), 6);
  EXPECT_EQ(with.RunMicroBatch({0, 0}, batch).sum, loss);
  EXPECT_EQ(with.Gradients(), without.Gradients());
}

INSTANTIATE_TEST_SUITE_P(Families, Segments,
                         testing::Values("gpt2", "llama", "gemma2", "mistral", "qwen3", "phi3"),
                         [](const auto& family) { return family.param; });

// Rows of these lengths with a class each, padded to kTokens.
TestBatch Classes(const std::vector<std::uint32_t>& lengths, std::uint32_t classes) {
  TestBatch batch{static_cast<std::uint32_t>(lengths.size()), kTokens, {}, {}, {}};
  for (std::uint32_t row = 0; row < lengths.size(); ++row) {
    TestBatch sample = Sample(lengths[row], 20 + row);
    std::ranges::fill(sample.labels, kIgnoredLabel);
    // RoBERTa's padding token does not occur in texts.
    std::ranges::replace(sample.token_ids, 1, 2);
    sample.labels[0] = static_cast<std::int32_t>(row % classes);
    batch.samples.push_back({row});
    AddSample(sample, 0, &batch);
    AddPadding(kTokens - lengths[row], &batch);
  }
  return batch;
}

TestBatch RowAlone(const TestBatch& batch, std::size_t row, std::uint32_t tokens) {
  const auto first = static_cast<std::ptrdiff_t>(row * kTokens);
  const auto of = [&](const std::vector<std::int32_t>& all) {
    return std::vector<std::int32_t>(all.begin() + first, all.begin() + first + tokens);
  };
  return {1, tokens, {batch.samples[row]}, of(batch.token_ids), of(batch.labels)};
}

class Classifier : public testing::TestWithParam<std::string> {};

TEST_P(Classifier, PaddedRowsAreTheirTexts) {
  const std::vector<std::uint32_t> lengths = {9, kTokens, 1, 14};
  StagePipeline padded(Model(GetParam()), 2, {}), alone(Model(GetParam()), 1, {});
  const std::uint32_t classes = padded.spec().classes();
  const TestBatch batch = Classes(lengths, classes);
  StagePipeline whole(Model(GetParam()), 1, {});
  const std::vector<float> logits = Logits(&whole, batch);
  const StepLoss loss = padded.RunMicroBatch({0, 0}, batch);
  EXPECT_EQ(loss.labels, lengths.size());
  double sum = 0;
  for (std::uint32_t row = 0; row < batch.rows; ++row) {
    const TestBatch text = RowAlone(batch, row, lengths[row]);
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(row * classes);
    EXPECT_LT(RelativeDifference({first, first + classes}, Logits(&alone, text)), 1e-5);
    sum += alone.RunMicroBatch({0, row}, text).sum;
  }
  EXPECT_NEAR(loss.sum, sum, 1e-5 * sum);
  ExpectNear(padded.Gradients(), alone.Gradients(), 1e-4);
}

TEST_P(Classifier, RowsWithoutALabelDoNotCount) {
  TestBatch batch = Classes({9, 5}, 3);
  StagePipeline both(Model(GetParam()), 1, {}), one(Model(GetParam()), 1, {});
  batch.labels[kTokens] = kIgnoredLabel;
  const StepLoss loss = both.RunMicroBatch({0, 0}, batch);
  EXPECT_EQ(loss.labels, 1U);
  const double wanted = one.RunMicroBatch({0, 0}, RowAlone(batch, 0, 9)).sum;
  EXPECT_NEAR(loss.sum, wanted, 1e-5 * wanted);
  ExpectNear(both.Gradients(), one.Gradients(), 1e-4);
}

TEST_P(Classifier, TrainsToItsClasses) {
  StageOptions options;
  options.dropout = 0.1;
  StagePipeline pipeline(Model(GetParam()), 2, options);
  const TestBatch batch = Classes({9, kTokens, 4, 14}, 2);
  const double before = pipeline.Evaluate(batch).sum;
  for (std::uint64_t step = 0; step < 30; ++step) {
    const StepLoss loss = pipeline.RunMicroBatch({step, 0}, batch);
    pipeline.Apply(step, loss.labels, 1e-2);
  }
  EXPECT_LT(pipeline.Evaluate(batch).sum, 0.2 * before);
}

TEST_P(Classifier, RefusesOtherLabelsAndSegments) {
  StagePipeline pipeline(Model(GetParam()), 1, {});
  StepLoss loss;
  const auto cause = [&](const TestBatch& batch) {
    return pipeline.stage(0).Evaluate(AsMicroBatch({}, batch), {}, &loss).message();
  };
  const TestBatch batch = Classes({9, 5}, 2);
  EXPECT_EQ(cause(batch), "");
  TestBatch wrong = batch;
  wrong.labels[0] = static_cast<std::int32_t>(pipeline.spec().classes());
  EXPECT_THAT(cause(wrong), HasSubstr("none of the model's"));
  wrong.labels[0] = -1;
  EXPECT_THAT(cause(wrong), HasSubstr("none of the model's"));
  wrong = batch;
  wrong.labels[3] = 0;
  EXPECT_THAT(cause(wrong), HasSubstr("not at the first token of a row"));
  wrong = batch;
  wrong.segments[kTokens] = -1;
  EXPECT_THAT(cause(wrong), HasSubstr("row 1 begins with padding"));
  std::vector<float> places(batch.token_ids.size() * kVocabulary);
  EXPECT_FALSE(pipeline.stage(0).Logits(AsMicroBatch({}, batch), true, places).ok());
}

TEST(TokenTypes, CountOnTheFirstStageAlone) {
  StagePipeline pipeline(Model("bert_pairs"), 1, {});
  TestBatch batch = Classes({9, kTokens, 5}, 3);
  const double untyped = pipeline.Evaluate(batch).sum;
  batch.type_borders = {kTokens, kTokens, kTokens};
  EXPECT_EQ(pipeline.Evaluate(batch).sum, untyped) << "no token has the type 1";
  batch.type_borders = {9, kTokens, 5};
  EXPECT_NEAR(pipeline.Evaluate(batch).sum / untyped, 1, 1e-6) << "nobody sees padding";
  batch.type_borders = {4, kTokens, 5};
  EXPECT_GT(std::abs(pipeline.Evaluate(batch).sum / untyped - 1), 1e-3);
}

TEST(TokenTypes, OthersThanTheModelsAreRefused) {
  StepLoss loss;
  TestBatch batch = Classes({9, 5}, 2);
  const auto cause = [&](const std::string& model) {
    StagePipeline pipeline(Model(model), 1, {});
    return pipeline.stage(0).Evaluate(AsMicroBatch({4, 2}, batch), {}, &loss).message();
  };
  batch.type_borders = {4, kTokens};
  EXPECT_EQ(cause("bert_pairs"), "");
  EXPECT_THAT(cause("roberta"), HasSubstr("token types, which the model does not have"));
  EXPECT_EQ(cause("deberta"), "") << "without a table they do not matter";
  batch.type_borders = {kTokens, kTokens};
  EXPECT_EQ(cause("roberta"), "");
  batch.type_borders = {4, kTokens + 1};
  EXPECT_THAT(cause("bert_pairs"), HasSubstr("micro-batch 4/2: token types begin at 22 of a row"));
  batch.type_borders = {4};
  EXPECT_THAT(cause("bert_pairs"), HasSubstr("type borders has 1 values, wanted 2"));
}

INSTANTIATE_TEST_SUITE_P(Families, Classifier,
                         testing::Values("bert", "roberta", "deberta", "deberta_own",
                                         "deberta_p2c"),
                         [](const auto& family) { return family.param; });

class Dropout : public testing::TestWithParam<std::string> {};

// The masks of a sample stay, so the loss is a function of the weights.
TEST_P(Dropout, GradientIsTheSlopeOfTheLoss) {
  StageOptions options;
  options.dropout = 0.3;
  StagePipeline pipeline(Model(GetParam()), 1, options);
  StageModel& stage = pipeline.stage(0);
  const bool classes = pipeline.spec().classes() > 0;
  const TestBatch batch = classes ? Classes({9, kTokens, 4}, 3) : Pack().batch;
  pipeline.RunMicroBatch({0, 0}, batch);
  const std::vector<float> gradient = ExportGradients(stage);
  double squares = 0;
  for (const float value : gradient) squares += double{value} * value;
  const double norm = std::sqrt(squares);
  std::vector<float> weights(stage.state_size());
  ASSERT_TRUE(stage.Read(StateVector::kWeights, 0, weights).ok());
  const auto loss_at = [&](double distance) {
    std::vector<float> moved = weights;
    for (std::size_t i = 0; i < moved.size(); ++i) {
      moved[i] += static_cast<float>(distance / norm * gradient[i]);
    }
    EXPECT_TRUE(stage.Write(StateVector::kWeights, 0, moved).ok());
    stage.ZeroGradients();
    return pipeline.Forward({0, 0}, batch).sum;
  };
  constexpr double kDistance = 2e-3;
  const double slope = (loss_at(kDistance) - loss_at(-kDistance)) / (2 * kDistance);
  EXPECT_NEAR(slope / norm, 1, 0.01);
  EXPECT_GT(std::abs(loss_at(0) - pipeline.Evaluate(batch).sum), 1e-3) << "dropout had no effect";
}

INSTANTIATE_TEST_SUITE_P(Families, Dropout,
                         testing::Values("gpt2", "gemma2", "bert", "roberta", "deberta"),
                         [](const auto& family) { return family.param; });

TEST(SegmentChecks, SegmentsOfAnotherShapeOrInPieces) {
  StagePipeline pipeline(Model("llama"), 2, {});
  TestBatch batch = Pack().batch;
  std::vector<float> output(batch.token_ids.size() * pipeline.spec().hidden);
  const auto cause = [&](std::size_t stage) {
    MicroBatch micro_batch = AsMicroBatch({4, 2}, batch);
    micro_batch.input = output;
    StepLoss loss;
    const std::size_t values = stage == 0 ? output.size() : 0;
    return pipeline.stage(stage)
        .Forward(micro_batch, std::span<float>(output).first(values), &loss)
        .message();
  };
  batch.segments.back() = 4;
  for (const std::size_t stage : {0u, 1u}) {
    EXPECT_THAT(cause(stage), HasSubstr("micro-batch 4/2: segment 4 of row 1 lies in two places"));
  }
  batch.segments.pop_back();
  EXPECT_THAT(cause(0), HasSubstr("segments has 41 values, wanted 42"));
}

#if defined(SHOAL_SANITIZED)
constexpr bool kCountsMemory = false;
#else
constexpr bool kCountsMemory = true;
#endif

// Without what waits for the next tensor.
std::size_t AllocatedBytes() {
  TrimHostMemory();
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TestBatch ManyRows(std::uint32_t classes, std::uint32_t segment) {
  constexpr std::uint32_t kRows = 48;
  TestBatch batch = RandomBatch(kRows, kTokens, kVocabulary, 0.2, 5);
  for (std::size_t i = 0; i < batch.token_ids.size(); ++i) {
    const bool first = i % kTokens == 0;
    if (classes > 0) batch.labels[i] = first ? 0 : kIgnoredLabel;
    if (segment > 0) batch.segments.push_back(static_cast<std::int32_t>(i % kTokens / segment));
  }
  return batch;
}

void ExpectBounded(StageModel* stage, const TestBatch& batch, const std::string& what) {
  constexpr std::size_t kObjects = 32 << 10;  // of tensors, beside their values
  const auto run = [&](MicroBatchId id, auto looked_at) {
    StepLoss loss;
    ASSERT_TRUE(stage->Forward(AsMicroBatch(id, batch), {}, &loss).ok());
    looked_at("kept", stage->MicroBatchBytes(batch.rows, kTokens));
    ASSERT_TRUE(stage->BackwardInput(id, {}, {}).ok());
    looked_at("pending", stage->PendingWeightsBytes(batch.rows, kTokens));
    while (*stage->BackwardWeights(id)) continue;
  };
  run({0, 0}, [](const char*, std::uint64_t) {});  // tables and such
  const std::size_t before = AllocatedBytes();
  run({0, 1}, [&](const char* when, std::uint64_t bound) {
    EXPECT_LE(AllocatedBytes() - before, bound + kObjects) << what << " " << when;
  });
}

// What the pipeline's bound on micro-batches in flight relies on.
TEST(StageMemory, BoundsWhatAMicroBatchKeeps) {
  if (!kCountsMemory) GTEST_SKIP() << "a sanitizer's allocator does not count for mallinfo2";
  ASSERT_GT(AllocatedBytes(), 0U);
  for (const char* family :
       {"gpt2", "gemma2", "qwen3", "bert_pairs", "deberta_own", "deberta_p2c"}) {
    for (const std::uint32_t segment : {0U, 7U}) {
      for (const bool recompute : {false, true}) {
        StageOptions options;
        options.recompute = recompute;
        options.dropout = 0.1;
        StagePipeline pipeline(Model(family), 1, options);
        TestBatch batch = ManyRows(pipeline.spec().classes(), segment);
        if (pipeline.spec().token_types() > 0) batch.type_borders.assign(batch.rows, 9);
        ExpectBounded(&pipeline.stage(0), batch,
                      family + std::string(" ") + std::to_string(segment));
      }
    }
  }
}

TEST(StageMemory, BoundsWhatAdaptersKeep) {
  if (!kCountsMemory) GTEST_SKIP() << "a sanitizer's allocator does not count for mallinfo2";
  ASSERT_GT(AllocatedBytes(), 0U);
  for (const double dropout : {0.0, 0.1}) {
    OpenedModel opened = OpenModel(Model("gpt2")).value();
    AdapterConfig config;
    config.rank = 64;  // so that these are most of all
    config.dropout = dropout;
    ASSERT_TRUE(Adapt(config, &opened.spec).ok());
    StageOptions options;
    options.range = {0, opened.spec.layers()};
    options.device = "cpu";
    auto stage = NewTorchStage(opened.spec, options).value();
    ASSERT_TRUE(stage->LoadDirectory(*opened.directory).ok());
    ExpectBounded(stage.get(), ManyRows(0, 0), "adapters");
  }
}

}  // namespace
}  // namespace shoal::model
