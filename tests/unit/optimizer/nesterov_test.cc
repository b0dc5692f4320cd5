#include "optimizer/nesterov.h"

#include <gtest/gtest.h>

#include <vector>

namespace shoal::optimizer {
namespace {

TEST(NesterovTest, FollowsTheRecurrence) {
  std::vector<float> value{1.0F, -2.0F, 0.5F}, momentum(3, 0.0F);
  std::vector<double> expected{1.0, -2.0, 0.5}, u(3, 0.0);
  for (int step = 0; step < 20; ++step) {
    std::vector<float> gradient;
    for (std::size_t i = 0; i < 3; ++i) {
      gradient.push_back(0.1F * static_cast<float>(i + 1) - 0.02F * static_cast<float>(step));
      const double before = u[i];
      u[i] = 0.9 * before + gradient[i];
      // The look ahead: a step with the old momentum, then what the gradient adds to it.
      expected[i] -= 0.7 * (0.9 * 0.9 * before + (1 + 0.9) * gradient[i]);
    }
    NesterovUpdate(0.7F, 0.9F, gradient, value, momentum);
    for (std::size_t i = 0; i < 3; ++i) {
      ASSERT_NEAR(value[i], expected[i], 1e-5) << step;
      ASSERT_NEAR(momentum[i], u[i], 1e-5) << step;
    }
  }
}

TEST(NesterovTest, WithoutMomentumItIsASubtraction) {
  std::vector<float> value{3.0F, 4.0F}, momentum(2, 0.0F);
  NesterovUpdate(1, 0, std::vector<float>{1.0F, 0.25F}, value, momentum);
  EXPECT_EQ(value, (std::vector<float>{2.0F, 3.75F}));
}

}  // namespace
}  // namespace shoal::optimizer
