#include "model/memory_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(MemoryUseTest, ReadsWhatWasAskedForFromLibTorchsWords) {
  EXPECT_EQ(AskedBytes("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity "
                       "of 79.10 GiB of which 1.20 GiB is free."),
            5 * kGiB / 2);
  EXPECT_EQ(AskedBytes("CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0)"), 20u << 20);
  EXPECT_EQ(AskedBytes("Tried to allocate 512 KiB"), 512u << 10);
  EXPECT_EQ(AskedBytes("DefaultCPUAllocator: can't allocate memory: you tried to allocate "
                       "8589934592 bytes. Error code 12"),
            8 * kGiB);
  for (const char* none : {"", "out of memory", "Tried to allocate ", "Tried to allocate -1 GiB",
                           "Tried to allocate inf GiB", "Tried to allocate 1e300 GiB",
                           "Tried to allocate nan bytes"}) {
    EXPECT_EQ(AskedBytes(none), 0u) << none;
  }
}

TEST(MemoryUseTest, NamesTheLargestItemAndWhatMakesItSmaller) {
  MemoryUse use;
  use.state_bytes = 5 * kGiB;
  use.base_bytes = kGiB;
  use.micro_batches = 3;
  use.micro_batch_bytes = kGiB;
  EXPECT_EQ(OutOfMemoryText(use, kGiB / 2),
            "out of memory, 512.0 MiB asked for; the largest item: weights, gradients and moments, "
            "5.00 GiB; take more stages, [adapter] kind = \"lora\"");
  use.limit_bytes = 8 * kGiB;
  use.micro_batches = 6;
  EXPECT_EQ(OutOfMemoryText(use, 0),
            "out of memory, limit 8.00 GiB; the largest item: 6 kept micro-batches of 1.00 GiB, "
            "6.00 GiB; take recompute = true, fewer micro_batch_rows, data with a shorter --row, "
            "fewer in flight (limits.activations of shoald.toml), more stages, or a larger "
            "limits.device_memory in shoald.toml");
  use.recompute = true;
  EXPECT_THAT(OutOfMemoryText(use, 0), Not(HasSubstr("recompute")));
  use.base_bytes = 7 * kGiB;
  use.adapted = true;
  EXPECT_THAT(OutOfMemoryText(use, 0), AllOf(HasSubstr("the base of the adapters, 7.00 GiB"),
                                             HasSubstr("[model] base = \"nf4\"")));
  EXPECT_THAT(OutOfMemoryText(use, 9 * kGiB), HasSubstr("what was asked for, 9.00 GiB"));
  use.state_bytes = 10 * kGiB;
  EXPECT_THAT(OutOfMemoryText(use, 0),
              AllOf(HasSubstr("a smaller [adapter] rank"), Not(HasSubstr("lora"))));
}

TEST(MemoryUseTest, WhatDoesNotTrainHasNoRunToChange) {
  MemoryUse use;
  use.trains = false;
  use.state_bytes = kGiB;
  EXPECT_THAT(OutOfMemoryText(use, 0), AllOf(HasSubstr("the weights, 1.00 GiB"),
                                             Not(HasSubstr("stages")), Not(HasSubstr("limits"))));
  EXPECT_THAT(OutOfMemoryText({.trains = false}, 0), HasSubstr("shorter texts"));
}

}  // namespace
}  // namespace shoal::model
