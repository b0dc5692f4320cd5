// A stage whose device has too little memory: what it says, and that it goes on when there is more.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/families/open_model.h"
#include "model/host_memory.h"
#include "model/torch_device.h"
#include "tests/unit/model/stage_pipeline.h"

namespace shoal::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct NoLimitAfter {
  ~NoLimitAfter() { LimitHostTensors(0); }
};

StageOptions OnCpu() {
  StageOptions options;
  options.device = "cpu";
  options.compute = "auto";
  return options;
}

TEST(MemoryLimit, AStageThatDoesNotFitSaysHowMuchItsStateIs) {
  const NoLimitAfter no_limit;
  const auto opened = OpenModel(MiniModel());
  ASSERT_TRUE(opened.ok());
  StageOptions options = OnCpu();
  options.range = {0, opened->spec.layers()};
  UsePooledHostMemory();
  const std::uint64_t before = HostTensorBytes();
  LimitHostTensors(before + 4096);
  const auto made = NewTorchStage(opened->spec, options);
  ASSERT_EQ(made.status().code(), StatusCode::kResourceExhausted) << made.status().ToString();
  EXPECT_THAT(made.status().message(),
              AllOf(StartsWith("starting the stage failed: out of memory, "),
                    HasSubstr("the largest item: weights, gradients and moments, "),
                    HasSubstr("take more stages"), HasSubstr("limits.device_memory")));
  EXPECT_EQ(HostTensorBytes(), before) << "what was taken is given back";
  LimitHostTensors(0);
  const auto again = NewTorchStage(opened->spec, options);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*again)->options().compute, "fp32") << "of the CPU";
}

// Micro-batches are kept until nothing more fits; then there is memory again, and each of those
// that were kept ends as if nothing had been.
TEST(MemoryLimit, TheLastMicroBatchThatDoesNotFitLeavesTheOthersAsTheyAre) {
  const NoLimitAfter no_limit;
  StagePipeline pipeline(MiniModel(), 1, OnCpu()), unbound(MiniModel(), 1, OnCpu());
  StageModel& stage = pipeline.stage(0);
  const TestBatch batch = RandomBatch(4, 16, pipeline.spec().vocabulary, 0, 3);
  LimitHostTensors(HostTensorBytes() + stage.StateBytes() +
                   4 * stage.MicroBatchBytes(batch.rows, batch.tokens));
  StepLoss loss;
  Status status = Status::Ok();
  std::uint32_t kept = 0;
  for (; kept < 1000; ++kept) {
    status = stage.Forward(AsMicroBatch({0, kept}, batch), {}, &loss);
    if (!status.ok()) break;
  }
  ASSERT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
  EXPECT_GE(kept, 4u);
  EXPECT_THAT(status.message(),
              AllOf(StartsWith("forward failed: out of memory, "),
                    HasSubstr("the largest item: " + std::to_string(kept) + " kept micro-batches"),
                    HasSubstr("recompute = true, fewer micro_batch_rows")));
  LimitHostTensors(0);
  for (std::uint32_t index = 0; index < kept; ++index) {
    ASSERT_TRUE(stage.BackwardInput({0, index}, {}, {}).ok());
    pipeline.BackwardWeights({0, index});
    (void)unbound.RunMicroBatch({0, index}, batch);
  }
  EXPECT_EQ(ExportGradients(stage), ExportGradients(unbound.stage(0)));
}

TEST(MemoryLimit, ThePeakIsTheMostSinceItWasForgotten) {
  const NoLimitAfter no_limit;
  const TorchDevice cpu = {"cpu", "cpu"};
  ASSERT_TRUE(LimitDeviceMemory(cpu, 0).ok());
  ForgetDevicePeak(cpu);
  const std::uint64_t before = HostTensorBytes();
  EXPECT_EQ(DevicePeakBytes(cpu), before);
  std::uint64_t state = 0;
  {
    StagePipeline pipeline(MiniModel(), 1, OnCpu());
    state = pipeline.stage(0).StateBytes();
  }
  EXPECT_EQ(HostTensorBytes(), before);
  EXPECT_GT(DevicePeakBytes(cpu), before + state / 2);
  ForgetDevicePeak(cpu);
  EXPECT_EQ(DevicePeakBytes(cpu), before);
}

TEST(MemoryLimit, ABackwardThatDoesNotFitIsAnError) {
  const NoLimitAfter no_limit;
  StagePipeline pipeline(MiniModel(), 1, OnCpu());
  StageModel& stage = pipeline.stage(0);
  const TestBatch batch = RandomBatch(4, 16, pipeline.spec().vocabulary, 0, 3);
  StepLoss loss;
  ASSERT_TRUE(stage.Forward(AsMicroBatch({0, 0}, batch), {}, &loss).ok());
  LimitHostTensors(HostTensorBytes());
  const Status status = stage.BackwardInput({0, 0}, {}, {});
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
  EXPECT_THAT(status.message(), StartsWith("backward failed: out of memory, "));
}

}  // namespace
}  // namespace shoal::model
