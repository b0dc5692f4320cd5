#include "model/torch_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

namespace shoal::model {
namespace {

using ::testing::StartsWith;

TEST(TorchGuard, SaysWhatNeedsLessMemory) {
  const Status none = Guard("loading", []() -> Status { throw std::bad_alloc(); });
  EXPECT_EQ(none.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(none.message(), StartsWith("loading failed: out of memory; take more stages"));
  const Status gpu = Guard("forward", []() -> Status {
    throw std::runtime_error("CUDA out of memory. Tried to allocate 2 GiB\nframe #0: c10");
  });
  EXPECT_EQ(gpu.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(gpu.message(),
              StartsWith("forward failed: CUDA out of memory. Tried to allocate 2 GiB; take more"));
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
