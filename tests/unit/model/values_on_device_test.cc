// A stage whose activations and gradients stay on its device, next to one that takes and gives them
// in the memory of the host: the same bits. On the CPU, where both are the host's, all the same
// calls; on a GPU with SHOAL_TEST_DEVICE.

#include <gtest/gtest.h>

#include <utility>

#include "compression/device/device_values.h"
#include "tests/unit/model/stage_pipeline.h"
#include "tests/unit/model/test_device.h"

namespace shoal::model {
namespace {

using compression::ValueHome;

struct Shape {
  const char* compute;
  bool recompute;
};

class ValuesOnDevice : public testing::TestWithParam<Shape> {
 protected:
  static StagePipeline NewPipeline(bool on_device) {
    StageOptions options;
    options.compute = GetParam().compute;
    options.recompute = GetParam().recompute;
    options.values_on_device = on_device;
    options.dropout = 0.1;
    return StagePipeline(MiniModel(), 2, options);
  }

  void SetUp() override {
    const std::shared_ptr<DeviceMemory> memory = there_.stage(0).values_memory();
    ASSERT_EQ(memory != nullptr, TestDevice() != "cpu");
    ASSERT_EQ(host_.stage(0).values_memory(), nullptr);
    home_ = memory == nullptr ? compression::HostValues() : compression::CudaValues(memory).value();
  }

  // These values, where the stages there have them.
  Buffer There(const std::vector<float>& values) {
    Buffer block = home_->Allocate(values.size()).value();
    EXPECT_TRUE(home_->CopyFromHost(std::as_bytes(std::span(values)), block.floats()).ok());
    return block;
  }
  std::vector<float> Here(const Buffer& block) {
    std::vector<float> values(block.floats().size());
    EXPECT_TRUE(home_->CopyToHost(block.floats(), std::as_writable_bytes(std::span(values))).ok());
    return values;
  }
  static void RunWeights(StageModel* stage, MicroBatchId id) {
    for (bool more = true; more;) {
      const Result<bool> part = stage->BackwardWeights(id);
      ASSERT_TRUE(part.ok()) << part.status().ToString();
      more = *part;
    }
  }

  StagePipeline host_ = NewPipeline(false), there_ = NewPipeline(true);
  std::shared_ptr<const ValueHome> home_;
};

TEST_P(ValuesOnDevice, GiveTheBitsOfTheHost) {
  const MicroBatchId id{3, 1};
  const TestBatch batch = RandomBatch(2, 11, host_.spec().vocabulary, 0.2, 4);
  const std::size_t values = batch.token_ids.size() * host_.spec().hidden;
  MicroBatch given = AsMicroBatch(id, batch);
  StepLoss want_loss, got_loss;
  std::vector<float> want(values), want_gradient(values);
  Buffer got = home_->Allocate(values).value(), got_gradient = home_->Allocate(values).value();

  ASSERT_TRUE(host_.stage(0).Forward(given, want, &want_loss).ok());
  ASSERT_TRUE(there_.stage(0).Forward(given, got.floats(), &got_loss).ok());
  EXPECT_EQ(Here(got), want);

  given.input = want;
  ASSERT_TRUE(host_.stage(1).Forward(given, {}, &want_loss).ok());
  const Buffer input = There(want);
  given.input = input.floats();
  ASSERT_TRUE(there_.stage(1).Forward(given, {}, &got_loss).ok());
  EXPECT_EQ(got_loss.sum, want_loss.sum);

  ASSERT_TRUE(host_.stage(1).BackwardInput(id, {}, want_gradient).ok());
  ASSERT_TRUE(there_.stage(1).BackwardInput(id, {}, got_gradient.floats()).ok());
  EXPECT_EQ(Here(got_gradient), want_gradient);

  ASSERT_TRUE(host_.stage(0).BackwardInput(id, want_gradient, {}).ok());
  const Buffer gradient = There(want_gradient);
  ASSERT_TRUE(there_.stage(0).BackwardInput(id, gradient.floats(), {}).ok());
  for (std::size_t s = 0; s < 2; ++s) {
    RunWeights(&host_.stage(s), id);
    RunWeights(&there_.stage(s), id);
    EXPECT_EQ(ExportGradients(there_.stage(s)), ExportGradients(host_.stage(s)));
  }
}

TEST_P(ValuesOnDevice, EvaluateAlike) {
  const TestBatch batch = RandomBatch(1, 9, host_.spec().vocabulary, 0, 5);
  const std::size_t values = batch.token_ids.size() * host_.spec().hidden;
  MicroBatch given = AsMicroBatch({}, batch);
  StepLoss loss;
  std::vector<float> want(values);
  Buffer got = home_->Allocate(values).value();
  ASSERT_TRUE(host_.stage(0).Evaluate(given, want, &loss).ok());
  ASSERT_TRUE(there_.stage(0).Evaluate(given, got.floats(), &loss).ok());
  EXPECT_EQ(Here(got), want);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ValuesOnDevice,
                         testing::Values(Shape{"fp32", false}, Shape{"fp32", true},
                                         Shape{"bf16", false}));

}  // namespace
}  // namespace shoal::model
