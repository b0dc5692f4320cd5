#include "replica/learned_codecs.h"

#include <gtest/gtest.h>

#include <vector>

#include "replica/methods/qsdp_method.h"

namespace shoal::replica {
namespace {

QsdpOptions LearnAt(std::vector<std::uint64_t> steps) {
  QsdpOptions options;
  options.weight_bits = options.gradient_bits = 4;
  options.learned = true;
  options.learn = std::move(steps);
  return options;
}

TEST(LearnSteps, AGenerationLearnsAtItsFirstStepWhatIsBehindIt) {
  LearnSteps steps(LearnAt({3, 6}), 100);
  EXPECT_TRUE(steps.At(5));
  steps.Applied();
  EXPECT_FALSE(steps.At(5));
  EXPECT_TRUE(steps.At(6));
}

TEST(LearnSteps, WhatASkippedStepWasToLearnTheNextOneLearns) {
  LearnSteps steps(LearnAt({3}), 100);
  for (std::uint64_t step = 0; step < 3; ++step) {
    EXPECT_FALSE(steps.At(step));
    step == 1 ? steps.Skipped(step) : steps.Applied();
  }
  EXPECT_TRUE(steps.At(3));
  steps.Skipped(3);
  EXPECT_TRUE(steps.At(4));
  steps.Skipped(4);
  EXPECT_TRUE(steps.At(5)) << "and the one after that";
  steps.Applied();
  EXPECT_FALSE(steps.At(6));
}

}  // namespace
}  // namespace shoal::replica
