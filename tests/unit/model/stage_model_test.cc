// What every StageModel does, on all kinds: GPT-2 on LibTorch, the stage without weights, and that
// of tests and simulations.

#include <algorithm>

#include "model/families/open_model.h"
#include "model/synthetic_stage.h"
#include "storage/models/model_directory.h"
#include "tests/support/tiny_stage.h"
#include "tests/unit/model/stage_model_contract.h"
#include "tests/unit/model/stage_pipeline.h"

namespace shoal::model {
namespace {

TEST_P(StageModelContract, EveryStageRunsAMicroBatch) {
  for (const StageRange range : {kFirst, kMiddle, kLast, kWhole}) {
    const auto stage = rig_->Make(range);
    const auto work = MakeWork(*stage, 0);
    RunAll(stage.get(), work.get());
    if (range.last_layer == kLayers) {
      EXPECT_EQ(work->loss.labels, 8u);  // of 10 places
    } else {
      EXPECT_FALSE(AllZero(work->output));
    }
    if (range.first_layer > 0) {
      EXPECT_FALSE(AllZero(work->input_gradient));
    }
  }
}

TEST_P(StageModelContract, OperationsOutOfOrderAreErrors) {
  const auto stage = rig_->Make(kMiddle);
  const auto work = MakeWork(*stage, 0);
  const MicroBatchId id = work->micro_batch.id;
  const StatusCode early = StatusCode::kFailedPrecondition;
  EXPECT_EQ(BackwardInput(stage.get(), work.get()).code(), early);
  EXPECT_EQ(stage->BackwardWeights(id).status().code(), early);
  ASSERT_TRUE(Forward(stage.get(), work.get()).ok());
  EXPECT_EQ(stage->BackwardWeights(id).status().code(), early);
  EXPECT_EQ(Forward(stage.get(), work.get()).code(), early);
  ASSERT_TRUE(BackwardInput(stage.get(), work.get()).ok());
  EXPECT_EQ(BackwardInput(stage.get(), work.get()).code(), early);
  BackwardWeights(stage.get(), *work);
  EXPECT_EQ(stage->BackwardWeights(id).status().code(), early);
  EXPECT_EQ(BackwardInput(stage.get(), work.get()).code(), early);
  EXPECT_TRUE(Forward(stage.get(), work.get()).ok());  // forgotten: it may come again
}

TEST_P(StageModelContract, AWrongShapeIsRefusedAndChangesNothing) {
  const auto stage = rig_->Make(kMiddle);
  const auto work = MakeWork(*stage, 0);
  const auto refused = [](const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
  };
  std::vector<float> shorter(work->output.size() - 1);
  refused(stage->Forward(work->micro_batch, shorter, &work->loss));
  MicroBatch cut = work->micro_batch;
  cut.input = cut.input.subspan(1);
  refused(stage->Forward(cut, work->output, &work->loss));
  ASSERT_TRUE(Forward(stage.get(), work.get()).ok());
  const MicroBatchId id = work->micro_batch.id;
  refused(stage->BackwardInput(id, shorter, work->input_gradient));
  refused(stage->BackwardInput(id, work->output_gradient, shorter));
  ASSERT_TRUE(BackwardInput(stage.get(), work.get()).ok());
  BackwardWeights(stage.get(), *work);
}

TEST_P(StageModelContract, MicroBatchesMayInterleave) {
  const auto one = rig_->Make(kMiddle), other = rig_->Make(kMiddle);
  std::vector<std::unique_ptr<Work>> in_turn, mixed;
  for (std::uint32_t i = 0; i < 3; ++i) {
    in_turn.push_back(MakeWork(*one, i));
    RunAll(one.get(), in_turn.back().get());
    mixed.push_back(MakeWork(*other, i));
    ASSERT_TRUE(Forward(other.get(), mixed.back().get()).ok());
  }
  for (const std::uint32_t i : {2, 0, 1}) {
    ASSERT_TRUE(BackwardInput(other.get(), mixed[i].get()).ok());
  }
  for (std::uint32_t i = 0; i < 3; ++i) BackwardWeights(other.get(), *mixed[i]);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(in_turn[i]->output, mixed[i]->output);
    EXPECT_EQ(in_turn[i]->input_gradient, mixed[i]->input_gradient);
  }
  EXPECT_EQ(ReadAll(one.get(), StateVector::kGradients),
            ReadAll(other.get(), StateVector::kGradients));
}

TEST_P(StageModelContract, InputsNeedNotOutliveTheirCall) {
  const auto one = rig_->Make(kWhole), other = rig_->Make(kWhole);
  const auto kept = MakeWork(*one, 0);
  RunAll(one.get(), kept.get());
  auto gone = MakeWork(*other, 0);
  ASSERT_TRUE(Forward(other.get(), gone.get()).ok());
  const MicroBatchId id = gone->micro_batch.id;
  gone.reset();
  ASSERT_TRUE(other->BackwardInput(id, {}, {}).ok());
  while (other->BackwardWeights(id).value()) {
  }
  EXPECT_EQ(ReadAll(one.get(), StateVector::kGradients),
            ReadAll(other.get(), StateVector::kGradients));
}

TEST_P(StageModelContract, ZeroGradientsForgetsAStep) {
  const auto stage = rig_->Make(kMiddle);
  const auto done = MakeWork(*stage, 0), begun = MakeWork(*stage, 1);
  RunAll(stage.get(), done.get());
  ASSERT_TRUE(Forward(stage.get(), begun.get()).ok());
  EXPECT_EQ(AllZero(ReadAll(stage.get(), StateVector::kGradients)), !rig_->has_weights());
  stage->ZeroGradients();
  EXPECT_TRUE(AllZero(ReadAll(stage.get(), StateVector::kGradients)));
  EXPECT_EQ(stage->SquaredGradientNorm(1), 0);
  EXPECT_EQ(BackwardInput(stage.get(), begun.get()).code(), StatusCode::kFailedPrecondition);
}

TEST_P(StageModelContract, ANormThatIsNotFiniteIsRefusedAndChangesNothing) {
  const auto stage = rig_->Make(kMiddle);
  const auto work = MakeWork(*stage, 0);
  RunAll(stage.get(), work.get());
  std::vector<std::vector<float>> before;
  for (const StateVector which : kVectors) before.push_back(ReadAll(stage.get(), which));
  for (const double norm :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(stage->Apply(0, 1.0, norm, 0.1).code(), StatusCode::kInvalidArgument);
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(ReadAll(stage.get(), kVectors[i]), before[i]);
  }
}

TEST_P(StageModelContract, ApplyMovesWeightsAndZeroesGradients) {
  const auto stage = rig_->Make(kMiddle), same = rig_->Make(kMiddle);
  EXPECT_EQ(stage->WeightChecksum(), same->WeightChecksum());
  const auto work = MakeWork(*stage, 0);
  RunAll(stage.get(), work.get());
  EXPECT_EQ(stage->WeightChecksum(), same->WeightChecksum());
  ASSERT_TRUE(stage->Apply(0, 0.1, 1.0, 0.01).ok());
  EXPECT_TRUE(AllZero(ReadAll(stage.get(), StateVector::kGradients)));
  EXPECT_EQ(stage->WeightChecksum() == same->WeightChecksum(), !rig_->has_weights());
  if (!rig_->has_weights()) return;
  ASSERT_TRUE(
      same->Write(StateVector::kWeights, 0, ReadAll(stage.get(), StateVector::kWeights)).ok());
  EXPECT_EQ(stage->WeightChecksum(), same->WeightChecksum());
}

TEST_P(StageModelContract, EvaluationKeepsNothing) {
  const auto stage = rig_->Make(kWhole);
  const auto work = MakeWork(*stage, 0);
  StepLoss loss;
  const Status status = stage->Evaluate(work->micro_batch, {}, &loss);
  EXPECT_EQ(BackwardInput(stage.get(), work.get()).code(), StatusCode::kFailedPrecondition);
  ASSERT_EQ(status.ok(), rig_->can_evaluate());
  if (!status.ok()) return;
  ASSERT_TRUE(Forward(stage.get(), work.get()).ok());
  EXPECT_EQ(loss.labels, work->loss.labels);
  EXPECT_DOUBLE_EQ(loss.sum, work->loss.sum);
}

TEST_P(StageModelContract, BothEndsShareTheSameTensors) {
  const std::vector<TensorLayout> first = rig_->Make(kFirst)->shared_tensors();
  const std::vector<TensorLayout> last = rig_->Make(kLast)->shared_tensors();
  ASSERT_EQ(first.size(), last.size());
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i].shape, last[i].shape);
  EXPECT_TRUE(rig_->Make(kMiddle)->shared_tensors().empty());
  EXPECT_TRUE(rig_->Make(kWhole)->shared_tensors().empty());
}

TEST_P(StageModelContract, MemoryIsBoundedByTheMicroBatch) {
  const auto stage = rig_->Make(kMiddle);
  EXPECT_GT(stage->MicroBatchBytes(1, kTokens), 0u);
  EXPECT_GT(stage->MicroBatchBytes(4, kTokens), stage->MicroBatchBytes(2, kTokens));
  EXPECT_GT(stage->PendingWeightsBytes(1, kTokens), 0u);
}

TEST_P(StageModelContract, MayGoWithMicroBatchesUnderWay) {
  const auto stage = rig_->Make(kMiddle);
  const auto one = MakeWork(*stage, 0), other = MakeWork(*stage, 1);
  ASSERT_TRUE(Forward(stage.get(), one.get()).ok());
  ASSERT_TRUE(Forward(stage.get(), other.get()).ok());
  ASSERT_TRUE(BackwardInput(stage.get(), one.get()).ok());
}

// ---- the kinds ----

class TorchRig : public StageRig {
 public:
  std::unique_ptr<StageModel> Make(StageRange range) override {
    StageOptions options;
    options.range = range;
    options.device = "cpu";
    options.threads = 1;
    options.recompute = recompute();
    auto stage = NewTorchStage(opened_.spec, options).value();
    EXPECT_TRUE(stage->LoadDirectory(*opened_.directory).ok());
    return stage;
  }
  std::uint32_t vocabulary() override { return opened_.spec.vocabulary; }

 protected:
  virtual bool recompute() { return false; }

 private:
  const OpenedModel opened_ = OpenModel(MiniModel()).value();
};

class RecomputingTorchRig final : public TorchRig {
 protected:
  bool recompute() override { return true; }
};

class SyntheticRig final : public StageRig {
 public:
  std::unique_ptr<StageModel> Make(StageRange range) override {
    ModelSpec spec;
    spec.layer_specs.resize(4);
    spec.hidden = 16;
    spec.vocabulary = vocabulary();
    StageOptions options;
    options.range = range;
    return NewSyntheticStage(spec, options, {.weight_parts = 3}, nullptr).value();
  }
  std::uint32_t vocabulary() override { return 50; }
  bool has_weights() override { return false; }
  bool can_evaluate() override { return false; }
};

class TinyRig : public StageRig {
 public:
  std::unique_ptr<StageModel> Make(StageRange range) override {
    return std::make_unique<test_support::TinyStage>(shape_, range, 5);
  }
  std::uint32_t vocabulary() override { return shape_.vocabulary; }

 protected:
  test_support::TinyShape shape_;
};

class TinyAdamWRig final : public TinyRig {
 public:
  TinyAdamWRig() { shape_.adamw = true; }
};

template <typename Rig>
std::unique_ptr<StageRig> New() {
  return std::make_unique<Rig>();
}

INSTANTIATE_TEST_SUITE_P(All, StageStateContract,
                         testing::Values(&New<TorchRig>, &New<RecomputingTorchRig>,
                                         &New<SyntheticRig>, &New<TinyRig>, &New<TinyAdamWRig>));
INSTANTIATE_TEST_SUITE_P(TorchGpt2, StageModelContract, testing::Values(&New<TorchRig>));
INSTANTIATE_TEST_SUITE_P(TorchGpt2Recomputing, StageModelContract,
                         testing::Values(&New<RecomputingTorchRig>));
INSTANTIATE_TEST_SUITE_P(Synthetic, StageModelContract, testing::Values(&New<SyntheticRig>));
INSTANTIATE_TEST_SUITE_P(Tiny, StageModelContract, testing::Values(&New<TinyRig>));
INSTANTIATE_TEST_SUITE_P(TinyAdamW, StageModelContract, testing::Values(&New<TinyAdamWRig>));

}  // namespace
}  // namespace shoal::model
