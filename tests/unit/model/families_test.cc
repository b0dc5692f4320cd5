// Every family against what transformers and PyTorch compute (tests/models/make_families.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model/families/open_model.h"
#include "storage/models/safetensors.h"
#include "tests/unit/model/golden.h"
#include "tests/unit/model/stage_pipeline.h"

namespace shoal::model {
namespace {

constexpr double kRate = 1e-2, kEpsilon = 1e-4;  // of the script
constexpr std::uint64_t kSteps = 3;

std::string Families() { return std::string(std::getenv("SHOAL_TEST_DATA")) + "/families"; }

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Families())) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

class Family : public testing::TestWithParam<std::string> {};

TEST_P(Family, ComputesWhatTransformersDoes) {
  const Golden golden(Families() + "/" + GetParam());
  const TestBatch batch = golden.Batch();
  StagePipeline pipeline(Families() + "/" + GetParam(), 1, {});
  const std::vector<float> wanted = golden.Values<float>("logits");
  EXPECT_LT(RelativeDifference(LogitsOf(&pipeline.stage(0), batch, wanted.size()), wanted), 1e-5);
  const StepLoss loss = pipeline.RunMicroBatch({0, 0}, batch);
  EXPECT_NEAR(loss.sum / golden.Values<double>("loss")[0], 1, 1e-5);
  ExpectNear(pipeline.Gradients(), golden.All("gradient."), 1e-4);
}

// Sums of 8 bits each, in another order than those of fp32.
TEST_P(Family, ComputesInBf16) {
  const Golden golden(Families() + "/" + GetParam());
  const TestBatch batch = golden.Batch();
  StageOptions options;
  options.compute = "bf16";
  StagePipeline pipeline(Families() + "/" + GetParam(), 1, options);
  const StepLoss loss = pipeline.RunMicroBatch({0, 0}, batch);
  EXPECT_NEAR(loss.sum / golden.Values<double>("loss")[0], 1, 0.01);
  ExpectNear(pipeline.Gradients(), golden.All("gradient."), 0.15);
}

// |a - b| / |b|, as norms of vectors.
double Apart(const std::vector<float>& a, const std::vector<float>& b) {
  SHOAL_CHECK(a.size() == b.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    size += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / size);
}

// No farther from PyTorch's bf16 than two orders of summation are in PyTorch (make_bf16.py), with
// what chance adds in models so small.
TEST_P(Family, ComputesInBf16WhatTransformersDoes) {
  const Golden golden(Families() + "/" + GetParam());
  const Golden bf16(Families() + "/" + GetParam(), "bf16.safetensors");
  const TestBatch batch = golden.Batch();
  StageOptions options;
  options.compute = "bf16";
  StagePipeline pipeline(Families() + "/" + GetParam(), 1, options);
  constexpr double kChance = 1.5;
  const std::vector<float> wanted = bf16.Floats("logits");
  EXPECT_LT(Apart(LogitsOf(&pipeline.stage(0), batch, wanted.size()), wanted),
            kChance * bf16.Floats("apart.logits")[0]);
  pipeline.RunMicroBatch({0, 0}, batch);
  const auto gradients = pipeline.Gradients();
  const auto gradients_wanted = bf16.All("gradient.");
  ASSERT_EQ(gradients.size(), gradients_wanted.size());
  double squares = 0, counted = 0;
  for (const auto& [name, values] : gradients_wanted) {
    // Without rotary positions such a gradient is nothing but noise.
    if (name.ends_with("key.bias") || name.ends_with("key_proj.bias")) continue;
    const double apart = Apart(gradients.at(name), values);
    EXPECT_LT(apart, 2 * bf16.Floats("apart.largest")[0]) << name;
    squares += apart * apart;
    ++counted;
  }
  EXPECT_LT(std::sqrt(squares / counted), kChance * bf16.Floats("apart.gradients")[0]);
}

TEST_P(Family, MakesTheStepsOfPyTorch) {
  const Golden golden(Families() + "/" + GetParam());
  const TestBatch batch = golden.Batch();
  StageOptions options;
  options.optimizer = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = kEpsilon, .weight_decay = 0.01};
  StagePipeline pipeline(Families() + "/" + GetParam(), 1, options);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const StepLoss loss = pipeline.RunMicroBatch({step, 0}, batch);
    pipeline.Apply(step, loss.labels, kRate);
  }
  ExpectNear(WeightsOf(&pipeline), golden.All("after."), 1e-4);
}

TEST_P(Family, AnyCutGivesTheSameBits) {
  const Golden golden(Families() + "/" + GetParam());
  const TestBatch batch = golden.Batch();
  StagePipeline whole(Families() + "/" + GetParam(), 1, {});
  const StepLoss loss = whole.RunMicroBatch({0, 0}, batch);
  const auto gradients = whole.Gradients();
  for (std::uint32_t stages = 2; stages <= whole.spec().layers(); ++stages) {
    StagePipeline cut(Families() + "/" + GetParam(), stages, {});
    EXPECT_EQ(cut.RunMicroBatch({0, 0}, batch).sum, loss.sum);
    for (const auto& [name, values] : cut.Gradients()) {
      // What stages share is summed in another order.
      const bool shared = whole.spec().SharedTensors().contains(name);
      const double most = shared ? 1e-6 : 0;
      EXPECT_LE(RelativeDifference(values, gradients.at(name)), most) << name;
    }
  }
}

TEST_P(Family, RecomputesTheSameBits) {
  const Golden golden(Families() + "/" + GetParam());
  const TestBatch batch = golden.Batch();
  StageOptions options;
  options.dropout = 0.2;
  StagePipeline kept(Families() + "/" + GetParam(), 1, options);
  kept.RunMicroBatch({0, 0}, batch);
  options.recompute = true;
  StagePipeline again(Families() + "/" + GetParam(), 1, options);
  again.RunMicroBatch({0, 0}, batch);
  EXPECT_EQ(again.Gradients(), kept.Gradients());
}

INSTANTIATE_TEST_SUITE_P(All, Family, testing::ValuesIn(Names()),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace shoal::model
