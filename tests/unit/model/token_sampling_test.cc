#include "model/token_sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace shoal::model {
namespace {

TEST(TokenSampling, ZeroTemperatureTakesTheFirstLargest) {
  const std::vector<float> logits = {0, 3, 1, 3};
  EXPECT_EQ(SampleToken(logits, 0, 0, 1, 1), 1);
  EXPECT_EQ(SampleToken(logits, 1e-6, 1, 1, 1), 1);
}

TEST(TokenSampling, FollowsTheSoftmax) {
  const std::vector<float> logits = {1, 0, -1, 2};
  const double temperature = 0.7;
  std::vector<double> want;
  double total = 0;
  for (float logit : logits) want.push_back(std::exp(logit / temperature)), total += want.back();
  std::vector<int> counts(4);
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    ++counts[static_cast<std::size_t>(
        SampleToken(logits, temperature, 0, 5, static_cast<std::uint64_t>(i)))];
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(static_cast<double>(counts[i]) / kDraws, want[i] / total, 0.02) << i;
  }
}

TEST(TokenSampling, TopKDrawsOfTheMostProbableOnly) {
  const std::vector<float> logits = {1, 0, 5, 1};
  for (std::uint64_t i = 0; i < 500; ++i) {
    const std::int32_t id = SampleToken(logits, 100, 2, 1, i);
    EXPECT_TRUE(id == 2 || id == 0) << id;
  }
}

}  // namespace
}  // namespace shoal::model
