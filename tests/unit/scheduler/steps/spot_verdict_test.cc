#include "scheduler/steps/spot_verdict.h"

#include <gtest/gtest.h>

#include <cmath>

namespace shoal::scheduler {
namespace {

using control::v1::SpotChecked;

constexpr SpotClaim kClaim{11, 22, 100};

SpotChecked Found(double difference, double coding = 0) {
  SpotChecked report;
  report.set_input_digest(kClaim.input_digest);
  report.set_output_digest(kClaim.output_digest);
  report.set_difference(difference);
  report.set_coding_error(coding);
  report.set_loss_sum(kClaim.loss);
  report.set_labels(50);
  return report;
}

SpotOutcome Outcome(const std::vector<std::optional<SpotChecked>>& reports) {
  return JudgeSpotCheck(kClaim, reports, false, false).outcome;
}

TEST(SpotVerdictTest, WhoHasComparedNothingSaysNothing) {
  SpotChecked late;
  late.set_error("the step ended before");
  EXPECT_EQ(Outcome({std::nullopt, late}), SpotOutcome::kNotDone);
  EXPECT_EQ(Outcome({late, Found(0.01)}), SpotOutcome::kEqual);
  EXPECT_EQ(Outcome({}), SpotOutcome::kNotDone);
}

TEST(SpotVerdictTest, OneWordIsNoFault) {
  EXPECT_EQ(Outcome({Found(0.8), Found(0.9)}), SpotOutcome::kDiffers);
  EXPECT_EQ(Outcome({Found(0.8)}), SpotOutcome::kOneDiffers);
  EXPECT_EQ(Outcome({Found(0.8), std::nullopt}), SpotOutcome::kOneDiffers);
  const SpotVerdict one = JudgeSpotCheck(kClaim, {Found(0), Found(0.8)}, false, false);
  EXPECT_EQ(one.outcome, SpotOutcome::kOneDiffers);
  EXPECT_EQ(one.checker, 1u);
  EXPECT_DOUBLE_EQ(one.difference, 0.8);
}

TEST(SpotVerdictTest, ACoarseCodecAllowsMoreButNotAnything) {
  EXPECT_EQ(Outcome({Found(kSpotDifferenceMax, 0)}), SpotOutcome::kEqual);
  EXPECT_NE(Outcome({Found(kSpotDifferenceMax + 0.01, 0)}), SpotOutcome::kEqual);
  EXPECT_EQ(Outcome({Found(0.2, 0.4)}), SpotOutcome::kEqual);
  EXPECT_NE(Outcome({Found(0.3, 0.4)}), SpotOutcome::kEqual);
  EXPECT_NE(Outcome({Found(0.6, 1e9)}), SpotOutcome::kEqual) << "a checker that covers up";
}

TEST(SpotVerdictTest, WhatANeighbourShowsOtherwiseIsNoFaultEither) {
  SpotChecked input = Found(0.8), output = Found(0.8);
  input.set_input_digest(1);
  output.set_output_digest(1);
  EXPECT_EQ(Outcome({input, input}), SpotOutcome::kInputUnclear);
  EXPECT_EQ(Outcome({output, output}), SpotOutcome::kOutputUnclear);
  EXPECT_EQ(Outcome({output}), SpotOutcome::kOutputUnclear);
  EXPECT_EQ(Outcome({input, Found(0)}), SpotOutcome::kOneDiffers);
  EXPECT_EQ(Outcome({input, Found(0.8)}), SpotOutcome::kOneDiffers);
  EXPECT_EQ(JudgeSpotCheck(kClaim, {input, input}, true, false).outcome, SpotOutcome::kDiffers)
      << "the first stage has nobody before it";
}

TEST(SpotVerdictTest, TheLastStageIsComparedByItsLoss) {
  const auto outcome = [](double claimed, double found) {
    SpotChecked report = Found(0);
    report.set_loss_sum(found);
    return JudgeSpotCheck({11, 0, claimed}, {report, report}, false, true).outcome;
  };
  EXPECT_EQ(outcome(100, 103), SpotOutcome::kEqual);
  EXPECT_EQ(outcome(100, 120), SpotOutcome::kDiffers);
  EXPECT_EQ(outcome(100, std::nan("")), SpotOutcome::kDiffers);
  EXPECT_EQ(outcome(std::nan(""), 100), SpotOutcome::kDiffers);
  EXPECT_EQ(outcome(0, 0.4), SpotOutcome::kEqual) << "hardly anything a label";
}

}  // namespace
}  // namespace shoal::scheduler
