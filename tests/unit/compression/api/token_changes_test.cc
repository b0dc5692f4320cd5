#include "compression/api/token_changes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace shoal::compression {
namespace {

// The reference: all ratios, sorted.
double Sorted(std::vector<double> ratios, double q) {
  std::sort(ratios.begin(), ratios.end());
  return ratios[static_cast<std::size_t>(q * static_cast<double>(ratios.size() - 1))];
}

TEST(TokenChangesTest, QuantilesAreThoseOfTheSortedRatios) {
  for (const unsigned seed : {1u, 2u, 3u}) {
    SCOPED_TRACE(seed);
    std::mt19937 engine(seed);
    std::lognormal_distribution<double> ratio(std::log(0.07), 1.0), size(0.0, 4.0);
    TokenChanges changes;
    std::vector<double> ratios;
    for (int i = 0; i < 5000; ++i) {
      const double values = size(engine);
      ratios.push_back(ratio(engine));
      changes.Count(values * ratios.back() * ratios.back(), values);
    }
    EXPECT_EQ(changes.tokens(), 5000u);
    for (const double q : {0.05, 0.5, 0.9, 0.99}) {
      EXPECT_NEAR(changes.Quantile(q), Sorted(ratios, q), Sorted(ratios, q) / 20) << q;
    }
  }
}

TEST(TokenChangesTest, AValueOfItsOwnIsKnownWithinANinth) {
  for (double ratio = 0.0003; ratio < 15; ratio *= 1.07) {
    TokenChanges changes;
    for (int i = 0; i < 7; ++i) changes.Count(ratio * ratio, 1);
    EXPECT_NEAR(changes.median(), ratio, ratio / 9) << ratio;
    EXPECT_LE(changes.median(), changes.p90());
  }
}

TEST(TokenChangesTest, TheEndsTakeTheRest) {
  TokenChanges changes;
  EXPECT_EQ(changes.median(), 0.0);
  changes.Count(0, 0);
  EXPECT_EQ(changes.tokens(), 0u) << "padding";
  changes.Count(0, 1);
  changes.Count(1e-12, 1);
  EXPECT_EQ(changes.tokens(), 2u);
  EXPECT_EQ(changes.median(), 0.0);
  TokenChanges wild;
  wild.Count(1, 0);
  wild.Count(1e30, 1);
  EXPECT_EQ(wild.tokens(), 2u);
  EXPECT_GE(wild.median(), 16.0);
  EXPECT_TRUE(std::isfinite(wild.p90()));
}

TEST(TokenChangesTest, WhatIsNotFiniteCountsAsTheLargest) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const double nan = std::nan("");
  for (const auto& [change, values] :
       {std::pair{kInfinite, kInfinite}, {kInfinite, 1.0}, {nan, 1.0}, {1.0, nan}, {nan, nan}}) {
    TokenChanges changes;
    changes.Count(change, values);
    EXPECT_EQ(changes.tokens(), 1u);
    EXPECT_GE(changes.median(), 16.0);
  }
}

TEST(TokenChangesTest, SumsAndDifferences) {
  TokenChanges first, both, second;
  for (int i = 1; i <= 20; ++i) (i <= 12 ? first : second).Count(i * i * 1e-3, 1);
  both.Add(first);
  const TokenChanges before = both;
  both.Add(second);
  EXPECT_EQ(both.tokens(), 20u);
  EXPECT_EQ(both.Since(before), second);
}

}  // namespace
}  // namespace shoal::compression
