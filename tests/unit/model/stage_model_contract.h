// What every StageModel does: the fixture of a suite that runs on all kinds, and a suite of what
// they do with their flat vectors alone, which runs on those that compute nothing, too.

#ifndef SHOAL_TESTS_UNIT_MODEL_STAGE_MODEL_CONTRACT_H_
#define SHOAL_TESTS_UNIT_MODEL_STAGE_MODEL_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "model/stage_model.h"

namespace shoal::model {

// A kind of stages, whose model has four layers.
class StageRig {
 public:
  virtual ~StageRig() = default;
  // The same weights each time.
  virtual std::unique_ptr<StageModel> Make(StageRange range) = 0;
  virtual std::uint32_t vocabulary() = 0;
  virtual bool has_weights() { return true; }  // else its state is one value that nothing changes
  virtual bool can_evaluate() { return true; }
};

using NewStageRig = std::unique_ptr<StageRig> (*)();

class StageStateContract : public testing::TestWithParam<NewStageRig> {
 protected:
  static constexpr std::uint32_t kLayers = 4;
  static constexpr StageRange kFirst{0, 1}, kMiddle{1, 3}, kLast{3, 4}, kWhole{0, 4};
  static constexpr StateVector kVectors[] = {StateVector::kWeights, StateVector::kGradients,
                                             StateVector::kFirstMoment, StateVector::kSecondMoment};

  static std::vector<float> ReadAll(StageModel* stage, StateVector which) {
    std::vector<float> values(stage->state_size());
    EXPECT_TRUE(stage->Read(which, 0, values).ok());
    return values;
  }
  static bool AllZero(const std::vector<float>& values) {
    return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
  }

  const std::unique_ptr<StageRig> rig_ = GetParam()();
};

TEST_P(StageStateContract, TheLayoutCoversTheStateWithoutGaps) {
  for (const StageRange range : {kFirst, kMiddle, kLast, kWhole}) {
    const auto stage = rig_->Make(range);
    EXPECT_EQ(stage->options().range, range);
    std::size_t end = 0;
    for (const TensorLayout& tensor : stage->layout()) {
      EXPECT_EQ(tensor.offset, end) << tensor.name;
      std::size_t size = 1;
      for (const std::size_t extent : tensor.shape) size *= extent;
      EXPECT_EQ(tensor.size, size) << tensor.name;
      end += tensor.size;
    }
    EXPECT_EQ(end, stage->state_size());
    std::vector<int> named(stage->layout().size());
    for (const auto& part : stage->weight_parts()) {
      for (const std::size_t tensor : part) ++named.at(tensor);
    }
    EXPECT_EQ(named, std::vector<int>(named.size(), 1));
  }
}

TEST_P(StageStateContract, StateIsReadAndWrittenByRange) {
  const auto stage = rig_->Make(kMiddle);
  const std::size_t size = stage->state_size();
  for (const StateVector which : kVectors) {
    std::vector<float> values(size + 1);
    EXPECT_FALSE(stage->Read(which, 0, values).ok());
    EXPECT_FALSE(stage->Write(which, 0, values).ok());
    EXPECT_FALSE(stage->Read(which, size, std::span(values).first(1)).ok());
    EXPECT_FALSE(stage->Read(which, ~std::size_t{0}, std::span(values).first(2)).ok());
    EXPECT_TRUE(stage->Read(which, size, {}).ok());
    if (!rig_->has_weights()) continue;
    const std::vector<float> written = {1.5f, -2.25f, 3};
    std::vector<float> expected = ReadAll(stage.get(), which);
    ASSERT_TRUE(stage->Write(which, size / 2, written).ok());
    std::copy(written.begin(), written.end(), expected.begin() + std::ptrdiff_t(size / 2));
    EXPECT_EQ(ReadAll(stage.get(), which), expected);
  }
}

TEST_P(StageStateContract, GradientsThatWereWrittenAreZeroedAlone) {
  const auto stage = rig_->Make(kMiddle);
  std::vector<std::vector<float>> before;
  for (const StateVector which : kVectors) before.push_back(ReadAll(stage.get(), which));
  const std::vector<float> gradients(stage->state_size(), 3.5f);
  ASSERT_TRUE(stage->Write(StateVector::kGradients, 0, gradients).ok());
  EXPECT_EQ(ReadAll(stage.get(), StateVector::kGradients) == gradients, rig_->has_weights());
  stage->ZeroGradients();
  EXPECT_TRUE(AllZero(ReadAll(stage.get(), StateVector::kGradients)));
  for (const StateVector which : kVectors) {
    if (which == StateVector::kGradients) continue;
    EXPECT_EQ(ReadAll(stage.get(), which), before[static_cast<std::size_t>(which)]);
  }
}

class StageModelContract : public StageStateContract {
 protected:
  static constexpr std::uint32_t kRows = 2, kTokens = 5;

  // A micro-batch as a stage gets it, and what it makes of it.
  struct Work {
    std::vector<std::int32_t> tokens, labels;
    std::vector<float> input, output, output_gradient, input_gradient;
    MicroBatch micro_batch;
    StepLoss loss;
  };

  std::unique_ptr<Work> MakeWork(const StageModel& stage, std::uint32_t index) {
    auto work = std::make_unique<Work>();
    const bool first = stage.options().range.first_layer == 0;
    const bool last = stage.options().range.last_layer == kLayers;
    const std::size_t places = kRows * kTokens, values = places * stage.spec().hidden;
    for (std::size_t i = 0; i < places; ++i) {
      const auto token = static_cast<std::int32_t>((7 * i + 3 * index) % rig_->vocabulary());
      work->tokens.push_back(token);
      work->labels.push_back(i % 4 == 3 ? -100 : (token + 1) % std::int32_t(rig_->vocabulary()));
    }
    const auto fill = [index](std::vector<float>* to, std::size_t count, float scale) {
      for (std::size_t i = 0; i < count; ++i) {
        to->push_back(scale * (static_cast<float>((i * 37 + index * 11) % 101) / 50.0f - 1.0f));
      }
    };
    if (!first) fill(&work->input, values, 1.0f);
    if (!last) fill(&work->output_gradient, values, 0.1f);
    work->output.resize(last ? 0 : values);
    work->input_gradient.resize(first ? 0 : values);
    MicroBatch& micro_batch = work->micro_batch;
    micro_batch.id = {3, index};
    micro_batch.rows = kRows;
    micro_batch.tokens = kTokens;
    for (std::uint32_t row = 0; row < kRows; ++row) {
      micro_batch.samples.push_back(SampleId{10 * index + row});
    }
    if (first) micro_batch.token_ids = work->tokens;
    if (last) micro_batch.labels = work->labels;
    micro_batch.input = work->input;
    return work;
  }
  static Status Forward(StageModel* stage, Work* work) {
    return stage->Forward(work->micro_batch, work->output, &work->loss);
  }
  static Status BackwardInput(StageModel* stage, Work* work) {
    return stage->BackwardInput(work->micro_batch.id, work->output_gradient, work->input_gradient);
  }
  // All parts; returns how many there were.
  static std::size_t BackwardWeights(StageModel* stage, const Work& work) {
    std::size_t parts = 0;
    for (bool more = true; more; ++parts) {
      const Result<bool> done = stage->BackwardWeights(work.micro_batch.id);
      EXPECT_TRUE(done.ok()) << done.status().ToString();
      more = done.ok() && *done;
    }
    return parts;
  }
  void RunAll(StageModel* stage, Work* work) {
    ASSERT_TRUE(Forward(stage, work).ok());
    ASSERT_TRUE(BackwardInput(stage, work).ok());
    EXPECT_EQ(BackwardWeights(stage, *work), stage->weight_parts().size());
  }
};

}  // namespace shoal::model

#endif  // SHOAL_TESTS_UNIT_MODEL_STAGE_MODEL_CONTRACT_H_
