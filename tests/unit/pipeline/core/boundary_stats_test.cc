#include "pipeline/core/boundary_stats.h"

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

TEST(BoundaryStatsTest, GradientsAreCountedByForm) {
  const auto codec = compression::MakeCodec("lowrank:rank=2,lazy=auto", 8).value();
  BoundaryStats stats;
  EXPECT_FALSE(stats.low_rank.has_value());
  stats.low_rank.emplace();
  EXPECT_EQ(stats.low_rank->share(), 0.0);
  EXPECT_EQ(stats.low_rank->low_rank.bits_per_value(), 0.0);
  const auto add = [&](int form, std::size_t bytes, std::size_t samples) {
    net::Frame frame;
    frame.payload = Buffer(bytes);
    frame.payload.bytes()[2] = std::byte(form);
    frame.samples.resize(samples);
    stats.AddGradients(frame, 40, *codec->stateful());
  };
  add(0, 20, 2);
  add(0, 40, 1);
  add(1, 30, 2);
  EXPECT_EQ(stats.low_rank->others.bits_per_value(), 8 * 60 / 120.0);
  EXPECT_EQ(stats.low_rank->low_rank.bits_per_value(), 8 * 30 / 80.0);
  EXPECT_NEAR(stats.low_rank->share(), 1.0 / 3, 1e-12);

  compression::LazySwitch memory;
  stats.low_rank->AddMemory(memory, *codec->stateful());
  EXPECT_FALSE(stats.low_rank->correlation.has_value()) << "one micro-batch has no neighbour";
  EXPECT_EQ(stats.low_rank->lazy, false);
  memory.seen = 1;
  memory.correlation = 0.75;
  memory.on = true;
  stats.low_rank->AddMemory(memory, *codec->stateful());
  EXPECT_EQ(stats.low_rank->correlation, 0.75);
  EXPECT_EQ(stats.low_rank->lazy, true);
}

}  // namespace
}  // namespace shoal::pipeline
