#include "pipeline/boundary_stats.h"

#include <gtest/gtest.h>

namespace shoal::pipeline {
namespace {

TEST(RecentRatioTest, TheFirstMessageIsTheAverageAndOldOnesFade) {
  RecentRatio ratio;
  EXPECT_EQ(ratio.messages, 0u);
  ratio.Add(0.5);
  EXPECT_EQ(ratio.average, 0.5);
  ratio.Add(0);  // a ratio of 0 is measured, too
  EXPECT_NEAR(ratio.average, 0.5 * 15 / 16, 1e-12);
  EXPECT_EQ(ratio.last, 0.0);
  EXPECT_EQ(ratio.messages, 2u);
  for (int i = 0; i < 200; ++i) ratio.Add(0.25);
  EXPECT_NEAR(ratio.average, 0.25, 1e-5);
  EXPECT_EQ(ratio.last, 0.25);
}

TEST(BoundaryStatsTest, VisitsAddUp) {
  BoundaryStats stats;
  EXPECT_FALSE(stats.mode.has_value());
  stats.AddVisits(4, 0, compression::DeltaMode::kDelta);
  stats.AddVisits(4, 3, compression::DeltaMode::kWideDelta);
  EXPECT_EQ(stats.delta_hits, 3u);
  EXPECT_EQ(stats.first_visits, 5u);
  EXPECT_EQ(stats.mode, compression::DeltaMode::kWideDelta);
  EXPECT_EQ(stats.without_m.last, 0.25);
  EXPECT_NEAR(stats.without_m.average, 1 + (0.25 - 1) / 16, 1e-12);
}

}  // namespace
}  // namespace shoal::pipeline
