#include "model/torch_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::model {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TorchDevice Cpu() { return {"cpu", "cpu"}; }
TorchDevice Card(bool bf16) { return {"cuda:0", "cuda:0 NVIDIA X", 24 * kGiB, bf16}; }

TEST(TorchDeviceTest, ComputesInBf16WhereTheDeviceMultipliesIt) {
  EXPECT_EQ(ChooseCompute("auto", Cpu()).value(), "fp32");
  EXPECT_EQ(ChooseCompute("auto", Card(true)).value(), "bf16");
  EXPECT_EQ(ChooseCompute("auto", Card(false)).value(), "fp32");
  EXPECT_EQ(ChooseCompute("bf16", Cpu()).value(), "bf16");
  EXPECT_EQ(ChooseCompute("fp32", Card(true)).value(), "fp32");
  EXPECT_EQ(ChooseCompute("", Cpu()).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(CudaDeviceFacts({"NVIDIA X", 7, 5, kGiB, 0}).device(1).multiplies_bf16, false);
  EXPECT_EQ(CudaDeviceFacts({"NVIDIA X", 8, 0, kGiB, 0}).device(1).multiplies_bf16, true);
  EXPECT_EQ(CudaDeviceFacts({"NVIDIA X", 8, 0, kGiB, 0}).device(1).id, "cuda:1");
}

TEST(TorchDeviceTest, AStageMayTakeWhatIsFreeLessATenth) {
  EXPECT_EQ(DeviceMemoryLimit(Card(true), 20 * kGiB, 0, 0).value(), 18 * kGiB);
  EXPECT_EQ(DeviceMemoryLimit(Card(true), 0, 0, 0).value(), 0u);
  EXPECT_EQ(DeviceMemoryLimit(Cpu(), 0, 8 * kGiB, 0).value(), 0u) << "no bound";
}

TEST(TorchDeviceTest, OrWhatItsOwnerSaysUpToWhatThereIs) {
  // More than is free now may be free later.
  EXPECT_EQ(DeviceMemoryLimit(Card(true), kGiB, 0, 24 * kGiB).value(), 24 * kGiB);
  EXPECT_EQ(DeviceMemoryLimit(Cpu(), 0, 8 * kGiB, 8 * kGiB).value(), 8 * kGiB);
  EXPECT_EQ(DeviceMemoryLimit(Cpu(), 0, 0, 8 * kGiB).value(), 8 * kGiB) << "unknown machine";
  const Status card = DeviceMemoryLimit(Card(true), kGiB, 0, 25 * kGiB).status();
  EXPECT_EQ(card.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(card.message(),
            "limits.device_memory is 25.0 GiB, but cuda:0 NVIDIA X has 24.0 GiB; write less, or "
            "leave it empty");
  EXPECT_THAT(DeviceMemoryLimit(Cpu(), 0, 8 * kGiB, 9 * kGiB).status().message(),
              HasSubstr("the machine has 8.00 GiB"));
}

TEST(TorchDeviceTest, TheLimitOfAPoolIsWhatWasSet) {
  EXPECT_EQ(DeviceMemoryLimitOf(Cpu()), 0u);
  EXPECT_EQ(LimitDeviceMemory(Cpu(), 1 << 20).value(), 1u << 20);
  EXPECT_EQ(DeviceMemoryLimitOf(Cpu()), 1u << 20);
  EXPECT_EQ(LimitDeviceMemory(Cpu(), std::uint64_t{1} << 60).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(DeviceMemoryLimitOf(Cpu()), 1u << 20);
  EXPECT_EQ(LimitDeviceMemory(Cpu(), 0).value(), 0u);
  EXPECT_EQ(DeviceMemoryLimitOf(Cpu()), 0u);
}

}  // namespace
}  // namespace shoal::model
