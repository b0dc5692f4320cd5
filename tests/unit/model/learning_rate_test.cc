#include "model/learning_rate.h"

#include <gtest/gtest.h>

namespace shoal::model {
namespace {

TEST(LearningRate, WarmsUpThenDecaysLinearly) {
  const LearningRateSchedule schedule{1.0, 4, 12, LearningRateDecay::kLinear, 0};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 0), 0.25);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 3), 1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 4), 1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 6), 0.75);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 12), 0);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 1000), 0);
}

TEST(LearningRate, DecaysByCosineToTheFinalFraction) {
  const LearningRateSchedule schedule{2.0, 0, 10, LearningRateDecay::kCosine, 0.1};
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 0), 2);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 5), 1.1);
  EXPECT_NEAR(LearningRateAt(schedule, 10), 0.2, 1e-15);
}

TEST(LearningRate, StaysConstantWhereNothingEnds) {
  EXPECT_EQ(LearningRateAt({3, 2, 0, LearningRateDecay::kLinear, 0}, 99), 3);
  EXPECT_EQ(LearningRateAt({3, 2, 10, LearningRateDecay::kConstant, 0}, 99), 3);
  EXPECT_EQ(LearningRateAt({3, 2, 10, LearningRateDecay::kConstant, 0}, 0), 1.5);
  // Warm-up as long as the run.
  EXPECT_EQ(LearningRateAt({3, 2, 2, LearningRateDecay::kLinear, 0}, 2), 0);
}

TEST(LearningRate, ReadsNames) {
  EXPECT_EQ(*ParseLearningRateDecay("cosine"), LearningRateDecay::kCosine);
  EXPECT_FALSE(ParseLearningRateDecay("step").ok());
}

}  // namespace
}  // namespace shoal::model
