#include "scheduler/swarm/reported_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "unit/scheduler/swarm/swarm_parts.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

control::v1::StepReady Ready(std::uint64_t labels, double loss_sum) {
  control::v1::StepReady ready;
  ready.set_labels(labels);
  ready.set_loss_sum(loss_sum);
  return ready;
}

struct Values : SwarmParts {
  Values(std::uint32_t stages, std::uint32_t pipelines)
      : SwarmParts(stages, pipelines), account(stages, pipelines), values(config, plan) {
    JoinAll(stages * pipelines);
    Train();
  }
  // All reports of a step: losses a label, and the norms that members of stage 0 name.
  void Report(const std::vector<double>& losses, const std::vector<double>& norms) {
    account.Begin(history.step(), plan.Counting(), reaction.now());
    for (std::uint32_t p = 0; p < config.pipelines; ++p) {
      account.AddReady(p, config.stages - 1, Ready(10, 10 * losses[p]), reaction.now());
      account.AddSynced(p, 0, norms[p], reaction.now());
    }
  }
  void LearnUsualSteps() {
    for (std::size_t i = 0; i < kHistoryKept; ++i) {
      Report({2, 2.1, 1.9}, {1, 1, 1});
      values.AddStep(account, true, 2);
    }
  }

  StepAccount account;
  ReportedValues values;
};

TEST(ReportedValues, ALossIsBetweenZeroAndWhatALabelCanHave) {
  Values parts(2, 1);
  const Member& last = parts.At(0, 1);
  EXPECT_FALSE(parts.values.Loss(last, Ready(10, 20)));
  EXPECT_FALSE(parts.values.Loss(last, Ready(0, 0)));
  EXPECT_FALSE(parts.values.Loss(last, Ready(10, -0.001))) << "by rounding";
  const auto misfit = parts.values.Loss(last, Ready(10, -1));
  ASSERT_TRUE(misfit);
  EXPECT_EQ(misfit->member, &last);
  EXPECT_THAT(misfit->cause, HasSubstr("a loss of -1 over 10 labels"));
  EXPECT_TRUE(parts.values.Loss(last, Ready(10, 10 * kLossMax + 1)));
  EXPECT_TRUE(parts.values.Loss(last, Ready(0, 1)));
  EXPECT_FALSE(parts.values.Loss(parts.At(0, 0), Ready(10, -1))) << "the last stage's counts only";
}

TEST(ReportedValues, ALossFarAboveTheRunsIsOneMembersFault) {
  Values parts(1, 3);
  parts.Report({2, 90, 2}, {1, 1, 1});
  EXPECT_FALSE(parts.values.Losses(parts.account)) << "nothing is usual yet";
  parts.LearnUsualSteps();
  parts.Report({2, 2.2, 1.8}, {1, 1, 1});
  EXPECT_FALSE(parts.values.Losses(parts.account));
  parts.Report({2, 90, 2}, {1, 1, 1});
  const auto misfit = parts.values.Losses(parts.account);
  ASSERT_TRUE(misfit);
  EXPECT_EQ(misfit->member, &parts.At(1, 0));
  parts.Report({80, 90, 85}, {1, 1, 1});
  EXPECT_FALSE(parts.values.Losses(parts.account)) << "what all share is no fault of one";
}

TEST(ReportedValues, ALossThatIsNotFiniteWhereOthersAreIsOneMembersFault) {
  Values parts(1, 3);
  for (const double lost : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    EXPECT_FALSE(parts.values.Loss(parts.At(2, 0), Ready(10, lost))) << "not known yet";
    parts.Report({2, 2, lost}, {1, 1, 1});
    const auto misfit = parts.values.Losses(parts.account);
    ASSERT_TRUE(misfit);
    EXPECT_EQ(misfit->member, &parts.At(2, 0));
    EXPECT_THAT(misfit->cause, HasSubstr("a loss that is not finite"));
  }
}

// All have the sum: the first that reports it is no more to blame than the others.
TEST(ReportedValues, ANormFarAboveTheUsualOneIsOfAGroup) {
  Values parts(1, 3);
  parts.LearnUsualSteps();
  parts.Report({2, 2, 2}, {4, 4, 4});
  EXPECT_FALSE(parts.values.Norms(parts.account, true));
  parts.Report({2, 2, 2}, {1e12, 1e12, 1e12});
  EXPECT_FALSE(parts.values.Norms(parts.account, false)) << "no such step was seen";
  const auto misfit = parts.values.Norms(parts.account, true);
  ASSERT_TRUE(misfit);
  EXPECT_EQ(misfit->member, nullptr);
  EXPECT_THAT(misfit->cause, HasSubstr("a gradient norm of 1e+06 times the usual one of stage 0"));
  for (std::uint32_t p = 0; p < 3; ++p) {
    EXPECT_THAT(misfit->cause, HasSubstr(parts.At(p, 0).Label()));
  }
  parts.Report({2, 2, 2}, {1, 1, 1e12});
  EXPECT_EQ(parts.values.Norms(parts.account, true)->member, &parts.At(2, 0)) << "it alone says so";
}

TEST(ReportedValues, WhoIsAloneIsToBlameForItsNorm) {
  Values parts(1, 1);
  for (std::size_t i = 0; i < kHistoryKept; ++i) {
    parts.Report({2}, {1});
    parts.values.AddStep(parts.account, true, 2);
  }
  parts.Report({2}, {1e12});
  EXPECT_EQ(parts.values.Norms(parts.account, true)->member, &parts.At(0, 0));
}

TEST(ReportedValues, AGroupHasOneNorm) {
  Values parts(1, 3);
  parts.Report({2, 2, 2}, {1, 1, 1});
  EXPECT_FALSE(parts.values.Norms(parts.account, true));
  parts.Report({2, 2, 2}, {1, 1, 2});
  auto misfit = parts.values.Norms(parts.account, true);
  ASSERT_TRUE(misfit);
  EXPECT_EQ(misfit->member, &parts.At(2, 0));
  EXPECT_THAT(misfit->cause, HasSubstr("differs from the others"));
  parts.Report({2, 2, 2}, {1, 3, 2});
  misfit = parts.values.Norms(parts.account, true);
  ASSERT_TRUE(misfit);
  EXPECT_EQ(misfit->member, nullptr) << "any of them";
}

}  // namespace
}  // namespace shoal::scheduler
