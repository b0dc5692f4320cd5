#include "tests/quality/boundary_shape.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace shoal::quality {
namespace {

constexpr std::size_t kHidden = 64, kTokens = 400;

std::vector<float> Gaussian() {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(kTokens * kHidden);
  for (float& value : x) value = normal(random);
  return x;
}

TEST(BoundaryShape, GaussianValuesStandOutNowhere) {
  const std::vector<float> x = Gaussian();
  const BoundaryShape shape = ShapeOf(x, {}, kHidden);
  EXPECT_NEAR(shape.kurtosis, 3, 0.15);
  EXPECT_LT(shape.channel_ratio, 1.2);
  EXPECT_LT(shape.token_ratio, 1.4);
  EXPECT_EQ(shape.change_median, 0);
}

TEST(BoundaryShape, ALargeChannelAndALargeTokenAreToldApart) {
  std::vector<float> x = Gaussian();
  for (std::size_t t = 0; t < kTokens; ++t) x[t * kHidden + 5] *= 50;
  const BoundaryShape channel = ShapeOf(x, {}, kHidden);
  EXPECT_NEAR(channel.channel_ratio, 50, 5);
  EXPECT_GT(channel.kurtosis, 50);
  x = Gaussian();
  x[7] = 2000;
  const BoundaryShape token = ShapeOf(x, {}, kHidden);
  EXPECT_NEAR(token.token_ratio, 2000 / 8, 25);
}

TEST(BoundaryShape, ChangesAreOfEachTokenAgainstItself) {
  std::vector<float> x = Gaussian();
  std::vector<float> before = x;
  // One token in five changes by its whole size, the others by a hundredth; one large token that
  // does not change hides neither.
  for (float& value : before) value *= 0.99F;
  for (std::size_t t = 0; t < kTokens; t += 5) {
    for (std::size_t i = 0; i < kHidden; ++i) before[t * kHidden + i] = 0;
  }
  for (std::size_t i = 0; i < kHidden; ++i) x[kHidden + i] = before[kHidden + i] = 1e4F;
  const BoundaryShape shape = ShapeOf(x, before, kHidden);
  EXPECT_NEAR(shape.change_median, 0.01, 1e-4);
  EXPECT_NEAR(shape.change_p90, 1, 1e-6);
}

}  // namespace
}  // namespace shoal::quality
