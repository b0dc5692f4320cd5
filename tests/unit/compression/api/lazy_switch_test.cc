#include "compression/api/lazy_switch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "tests/unit/compression/matrix_reference.h"

namespace shoal::compression {
namespace {

std::vector<float> Sampled(const std::vector<float>& values) {
  const std::span<const float> one = values;
  return SampleActivations({&one, 1});
}

// The next micro-batch of activations that have this correlation with the ones before.
std::vector<float> Following(const std::vector<float>& y, double rho, std::uint64_t seed) {
  auto next = reference::Normal(y.size(), seed);
  for (std::size_t i = 0; i < y.size(); ++i) {
    next[i] = static_cast<float>(rho * y[i] + std::sqrt(1 - rho * rho) * next[i]);
  }
  return next;
}

TEST(LazySwitch, EstimatesTheCorrelationOfNeighboursFromBlocks) {
  for (const double rho : {0.0, 0.3, 0.7, 0.9}) {
    LazySwitch lazy;
    auto y = reference::Normal(40000, 1);
    for (std::uint64_t i = 0; i < 12; ++i) {
      lazy = Observed(lazy, Sampled(y));
      y = Following(y, rho, 10 + i);
    }
    EXPECT_NEAR(lazy.correlation, rho, 0.02);
    EXPECT_EQ(lazy.seen, 11u);
    EXPECT_EQ(lazy.on, rho > 0.5);
  }
}

// A part that all micro-batches share counts: it cancels in Y_i - Y_(i+1).
TEST(LazySwitch, TheMeanCounts) {
  LazySwitch lazy;
  for (std::uint64_t i = 0; i < 10; ++i) {
    auto y = reference::Normal(50000, i);
    for (float& v : y) v += 2;
    lazy = Observed(lazy, Sampled(y));
  }
  EXPECT_NEAR(lazy.correlation, 0.8, 0.02);
  EXPECT_TRUE(lazy.on);
}

TEST(LazySwitch, SwitchesWithHysteresis) {
  LazySwitch lazy;
  lazy.previous = {1, 0};
  lazy.seen = 1000;
  const auto with = [&](double correlation) {
    // A sample of this cosine with (1, 0) leaves a correlation that is already there.
    lazy.correlation = correlation;
    const float c = static_cast<float>(correlation);
    lazy = Observed(lazy, std::vector<float>{c, std::sqrt(1 - c * c)});
    lazy.previous = {1, 0};
    return lazy.on;
  };
  EXPECT_FALSE(with(0.45));
  EXPECT_FALSE(with(0.499));
  EXPECT_TRUE(with(0.501));
  EXPECT_TRUE(with(0.45));
  EXPECT_FALSE(with(0.399));
  EXPECT_FALSE(with(0.45));
}

TEST(LazySwitch, LearnsNothingFromWhatCannotBeCompared) {
  LazySwitch lazy = Observed({}, std::vector<float>{1, 2});
  EXPECT_EQ(lazy.seen, 0u);
  EXPECT_EQ(lazy.previous, (std::vector<float>{1, 2}));
  EXPECT_EQ(Observed(lazy, {}), lazy);
  EXPECT_EQ(Observed(lazy, std::vector<float>{1, std::numeric_limits<float>::infinity()}), lazy);
  EXPECT_EQ(Observed(lazy, std::vector<float>{1, 2, 3}).seen, 0u);
  EXPECT_EQ(Observed(lazy, std::vector<float>{0, 0}).seen, 0u);
  EXPECT_EQ(Observed(lazy, std::vector<float>{2, 4}).seen, 1u);
}

TEST(LazySwitch, SamplesAreBlocksAtPlacesThatFollowFromTheSize) {
  std::vector<float> values(1024 * 768);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto sample = Sampled(values);
  ASSERT_EQ(sample.size(), 256u * 64);
  std::set<int> columns;
  for (std::size_t b = 0; b < 256; ++b) {
    for (std::size_t i = 1; i < 64; ++i) ASSERT_EQ(sample[b * 64 + i], sample[b * 64] + i);
    columns.insert(static_cast<int>(sample[b * 64]) % 768 / 64);
    if (b > 0) {
      ASSERT_GE(sample[b * 64], sample[b * 64 - 1] + 1);
    }
  }
  EXPECT_EQ(columns.size(), 12u);  // all parts of a token are looked at
  // The same of several samples, and all of few values.
  const std::span<const float> all = values;
  const std::vector<std::span<const float>> parts{all.first(1000), all.subspan(1000, 700000),
                                                  all.subspan(701000)};
  EXPECT_EQ(SampleActivations(parts), sample);
  EXPECT_EQ(Sampled({1, 2, 3}), (std::vector<float>{1, 2, 3}));
  EXPECT_TRUE(SampleActivations({}).empty());
}

}  // namespace
}  // namespace shoal::compression
