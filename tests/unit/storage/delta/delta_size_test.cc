#include "storage/delta/delta_size.h"

#include <gtest/gtest.h>

namespace shoal::storage {
namespace {

TEST(DeltaSize, CountsSamplesOfAPipelineAndBothEnds) {
  // 4 stages: 3 boundaries; 2 pipelines, of 501 and 500 samples.
  const DeltaSize size = ComputeDeltaSize({.m = 1000}, 1001, 501, 4);
  EXPECT_EQ(size.sample.m, 1000u);
  EXPECT_EQ(size.boundary_bytes, 501'000u);
  EXPECT_EQ(size.middle_bytes, 1'002'000u);
  EXPECT_EQ(size.all_bytes, 3u * 2 * 1'001'000);
  EXPECT_EQ(ComputeDeltaSize({.m = 1000}, 1001, 500, 4).all_bytes, size.all_bytes);
  EXPECT_EQ(ComputeDeltaSize({.m = 1000}, 10, 10, 2).middle_bytes, 10'000u);
  EXPECT_EQ(ComputeDeltaSize({.m = 1000}, 10, 10, 1).all_bytes, 0u);
  EXPECT_EQ(ComputeDeltaSize({}, 10, 10, 4).all_bytes, 0u);
}

TEST(DeltaSize, ResidualsAreAtTheUpperEndOfEachBoundaryOnly) {
  const DeltaSize size = ComputeDeltaSize({.m = 1000, .residual = 10}, 1001, 501, 4);
  EXPECT_EQ(size.boundary_bytes, 501'000u);
  EXPECT_EQ(size.residual_bytes, 5'010u);
  EXPECT_EQ(size.middle_bytes, 2u * 501'000 + 5'010);
  EXPECT_EQ(size.all_bytes, 3u * (2 * 1'001'000 + 10'010));
  EXPECT_EQ(ComputeDeltaSize({.residual = 10}, 10, 10, 2).middle_bytes, 100u);
  EXPECT_EQ(ComputeDeltaSize({.residual = 10}, 10, 10, 1).middle_bytes, 0u);
}

TEST(DeltaSize, FilesTakeWhatTheSpaceSettingSays) {
  EXPECT_EQ(DeltaDiskBytesMax(StoreSpace::kDefault, 1000), 2200u);
  EXPECT_EQ(DeltaDiskBytesMax(StoreSpace::kTight, 1000), 1500u);
  EXPECT_EQ(DeltaBytesIn(StoreSpace::kDefault, 2200), 1000u);
  EXPECT_EQ(DeltaBytesIn(StoreSpace::kTight, 1500), 1000u);
}

}  // namespace
}  // namespace shoal::storage
