#include "model/torch_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace shoal::model {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(TorchGuard, SaysWhatNeedsLessMemory) {
  const Status none = Guard("loading", []() -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(none.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(none.message(), StartsWith("loading failed: out of memory; take recompute = true"));
  const Status gpu = Guard("forward", []() -> Status {
    throw std::runtime_error("CUDA out of memory. Tried to allocate 2 GiB\nframe #0: c10");
  });
  EXPECT_EQ(gpu.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(gpu.message(),
              StartsWith("forward failed: out of memory, 2.00 GiB asked for; the largest item: "
                         "what was asked for, 2.00 GiB; take recompute = true"));
  const Status library = Guard("forward", []() -> Status {
    throw std::runtime_error("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate");
  });
  EXPECT_EQ(library.code(), StatusCode::kResourceExhausted);
}

TEST(TorchGuard, AsksWhatHoldsTheMemoryOnlyWhereItIsShort) {
  int asked = 0;
  const auto use = [&asked] {
    ++asked;
    return MemoryUse{.state_bytes = 3ull << 30};
  };
  EXPECT_TRUE(Guard(
                  "forward", [] { return Status::Ok(); }, use)
                  .ok());
  EXPECT_EQ(asked, 0);
  const Status none = Guard(
      "forward", []() -> Status { throw std::bad_alloc(); }, use);
  EXPECT_EQ(asked, 1);
  EXPECT_THAT(none.message(), HasSubstr("weights, gradients and moments, 3.00 GiB"));
}

TEST(TorchGuard, OtherFailuresAreOurs) {
  const Status other =
      Guard("forward", []() -> Status { throw std::runtime_error("shapes\nframe #0"); });
  EXPECT_EQ(other.code(), StatusCode::kInternal);
  EXPECT_EQ(other.message(), "forward failed: shapes");
  EXPECT_TRUE(Guard("forward", [] { return Status::Ok(); }).ok());
}

}  // namespace
}  // namespace shoal::model
