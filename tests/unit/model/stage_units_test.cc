// A stage that holds its parameters unit by unit, next to one that holds them all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "common/file.h"
#include "model/families/open_model.h"
#include "tests/unit/model/stage_pipeline.h"

namespace shoal::model {
namespace {

using ::testing::HasSubstr;

struct Shape {
  StageRange range;
  bool recompute = false;
  const char* compute = "fp32";
  const char* classifier = nullptr;  // its family
};

class StageUnits : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/stage_units." + std::to_string(getpid());
    std::filesystem::create_directories(folder_ + "/full");
    std::filesystem::create_directories(folder_ + "/units");
    const std::string model =
        GetParam().classifier != nullptr
            ? std::string(std::getenv("SHOAL_TEST_DATA")) + "/families/" + GetParam().classifier
            : MiniModel();
    const auto opened = OpenModel(model);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    spec_ = opened->spec;
    StageOptions options;
    options.range = GetParam().range;
    options.recompute = GetParam().recompute;
    options.compute = GetParam().compute;
    options.dropout = 0.1;
    auto full = NewTorchStage(spec_, options);
    ASSERT_TRUE(full.ok()) << full.status().ToString();
    full_ = std::move(*full);
    ASSERT_TRUE(full_->LoadDirectory(*opened->directory).ok());
    ASSERT_TRUE(full_->Save(folder_ + "/full").ok());
    options.held = ZeroMode::kZero3;
    options.state_folder = folder_ + "/state";
    auto units = NewTorchStage(spec_, options);
    ASSERT_TRUE(units.ok()) << units.status().ToString();
    units_ = std::move(*units);
    std::map<std::string, std::string> weights, moments;
    for (const std::string& part : full_->parts()) {
      weights[part] = folder_ + "/full/" + part + ".safetensors";
      moments[part] = folder_ + "/full/" + part + ".optimizer.safetensors";
    }
    ASSERT_TRUE(units_->Load(weights, moments).ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<float> FullValues(StateVector which, const UnitLayout& unit) {
    std::vector<float> values(unit.values);
    EXPECT_TRUE(full_->Read(which, unit.first, values).ok());
    return values;
  }
  // Holds what a part needs, and nothing else, around `run`.
  template <typename Run>
  void RunPart(const UnitUse& use, const Run& run) {
    const std::vector<UnitLayout> units = units_->units();
    std::uint64_t held = 0;
    for (const std::size_t unit : use.weights) {
      const std::vector<float> values = FullValues(StateVector::kWeights, units[unit]);
      ASSERT_TRUE(units_->HoldUnit(StateVector::kWeights, unit).ok());
      ASSERT_TRUE(units_->Write(StateVector::kWeights, units[unit].first, values).ok());
      held += units[unit].values * (GetParam().compute == std::string("bf16") ? 6 : 4);
    }
    for (const std::size_t unit : use.gradients) {
      ASSERT_TRUE(units_->HoldUnit(StateVector::kGradients, unit).ok());
      held += units[unit].values * 4;
    }
    EXPECT_EQ(units_->StateBytes(), held);
    run();
    gradients_.resize(units_->state_size());
    for (const std::size_t unit : use.gradients) {
      std::vector<float> values(units[unit].values);
      ASSERT_TRUE(units_->Read(StateVector::kGradients, units[unit].first, values).ok());
      for (std::size_t i = 0; i < values.size(); ++i)
        gradients_[units[unit].first + i] += values[i];
      units_->ReleaseUnit(StateVector::kGradients, unit);
    }
    for (const std::size_t unit : use.weights) units_->ReleaseUnit(StateVector::kWeights, unit);
    EXPECT_EQ(units_->StateBytes(), 0u);
  }
  // All parts of an operation.
  template <typename Part>
  void RunParts(Pass pass, const Part& part) {
    const std::vector<UnitUse> uses = units_->unit_uses(pass, 2, 16);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      RunPart(uses[i], [&] {
        const Result<bool> more = part();
        ASSERT_TRUE(more.ok()) << more.status().ToString();
        EXPECT_EQ(*more, i + 1 < uses.size());
      });
    }
  }
  bool first() const { return GetParam().range.first_layer == 0; }
  bool last() const { return GetParam().range.last_layer == spec_.layers(); }

  std::string folder_;
  ModelSpec spec_;
  std::unique_ptr<StageModel> full_, units_;
  std::vector<float> gradients_;
};

TEST_P(StageUnits, CoverTheVectorsInOrder) {
  EXPECT_TRUE(full_->units().empty());
  std::size_t reached = 0;
  for (const UnitLayout& unit : units_->units()) {
    EXPECT_EQ(unit.first, reached) << unit.name;
    reached += unit.values;
  }
  EXPECT_EQ(reached, units_->state_size());
}

TEST_P(StageUnits, PartByPartIsTheWholeBitForBit) {
  TestBatch batch = RandomBatch(2, 16, spec_.vocabulary, 0.2, 3);
  for (std::size_t i = 0; i < batch.labels.size() && GetParam().classifier != nullptr; ++i) {
    batch.labels[i] = i % 16 == 0 ? 1 : kIgnoredLabel;
  }
  std::vector<float> input(std::size_t{2} * 16 * spec_.hidden);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = 0.01F * static_cast<float>(i % 83);
  MicroBatch micro_batch{{0, 0}, batch.rows, batch.tokens, batch.samples, {}, {}, {}};
  if (first()) micro_batch.token_ids = batch.token_ids;
  if (last()) micro_batch.labels = batch.labels;
  if (!first()) micro_batch.input = input;
  const std::size_t out = last() ? 0 : input.size(), in = first() ? 0 : input.size();
  std::vector<float> want(out), have(out), want_gradient(in), have_gradient(in);
  StepLoss want_loss, have_loss;
  ASSERT_TRUE(full_->Forward(micro_batch, want, &want_loss).ok());
  RunParts(Pass::kForward, [&] { return units_->ForwardPart(micro_batch, have, &have_loss); });
  EXPECT_EQ(have, want);
  EXPECT_EQ(have_loss.sum, want_loss.sum);
  EXPECT_EQ(have_loss.labels, want_loss.labels);
  EXPECT_THAT(units_->ForwardPart(micro_batch, have, &have_loss).status().message(),
              HasSubstr("forward already"));

  const std::vector<float> gradient(out, 0.5F);
  ASSERT_TRUE(full_->BackwardInput({0, 0}, gradient, want_gradient).ok());
  RunParts(Pass::kBackwardInput, [&] {
    return units_->BackwardInputPart({0, 0}, gradient, have_gradient);
  });
  EXPECT_EQ(have_gradient, want_gradient);

  for (bool more = true; more;) more = *full_->BackwardWeights({0, 0});
  RunParts(Pass::kBackwardWeights, [&] { return units_->BackwardWeights({0, 0}); });
  std::vector<float> sums(full_->state_size());
  ASSERT_TRUE(full_->Read(StateVector::kGradients, 0, sums).ok());
  // The two places of a tied embedding add up here, in the whole stage one onto the other.
  for (std::size_t i = 0; i < sums.size(); ++i) {
    ASSERT_NEAR(gradients_[i], sums[i], 1e-5 * (1 + std::abs(sums[i]))) << i;
  }
}

TEST_P(StageUnits, WhatIsNotHeldIsReadFromFilesAndSavedThroughThem) {
  for (const UnitLayout& unit : units_->units()) {
    for (const auto which :
         {StateVector::kWeights, StateVector::kFirstMoment, StateVector::kSecondMoment}) {
      std::vector<float> values(unit.values);
      ASSERT_TRUE(units_->Read(which, unit.first, values).ok());
      EXPECT_EQ(values, FullValues(which, unit));
      ASSERT_TRUE(units_->Write(which, unit.first, values).ok());
    }
  }
  EXPECT_NE(units_->WeightChecksum(), 0u);
  ASSERT_TRUE(units_->Save(folder_ + "/units").ok());
  EXPECT_EQ(units_->WeightChecksum(), 0u) << "it is gone";
  for (const auto& file : std::filesystem::directory_iterator(folder_ + "/full")) {
    const std::string name = file.path().filename().string();
    const auto want = ReadFile(folder_ + "/full/" + name, 1 << 24);
    const auto have = ReadFile(folder_ + "/units/" + name, 1 << 24);
    ASSERT_TRUE(want.ok() && have.ok()) << name;
    EXPECT_TRUE(*want == *have) << name;
  }
  std::vector<float> one(1);
  EXPECT_THAT(units_->Read(StateVector::kGradients, 0, one).message(), HasSubstr("not hold"));
  EXPECT_THAT(units_->Save(folder_ + "/units").message(), HasSubstr("0 of"));
  EXPECT_FALSE(full_->HoldUnit(StateVector::kWeights, 0).ok());
}

INSTANTIATE_TEST_SUITE_P(Shapes, StageUnits,
                         testing::Values(Shape{{0, 4}}, Shape{{0, 2}}, Shape{{2, 4}},
                                         Shape{{1, 3}, true}, Shape{{0, 4}, true, "bf16"},
                                         Shape{{0, 3}, false, "fp32", "bert"},
                                         Shape{{2, 3}, true, "fp32", "bert"},
                                         Shape{{0, 3}, false, "fp32", "deberta"},
                                         Shape{{1, 2}, true, "bf16", "deberta"},
                                         Shape{{1, 2}, false, "fp32", "deberta_own"},
                                         Shape{{0, 1}, false, "fp32", "deberta_p2c"}));

}  // namespace
}  // namespace shoal::model
