#include "pipeline/runner/step_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pipeline/runner/runner_checks.h"
#include "replica/methods/group_limits.h"

namespace shoal::pipeline {
namespace {

using ::testing::HasSubstr;

RunnerConfig Config() {
  RunnerConfig config;
  config.stages = 2;
  config.pipelines = 3;
  config.micro_batch_rows = 2;
  config.resume_step = 4;
  return config;
}

StepPlan Plan(std::uint64_t step, std::uint32_t micro_batches, std::uint32_t amendment = 0) {
  StepPlan plan;
  plan.step = step;
  plan.amendment = amendment;
  for (std::uint32_t i = 0; i < micro_batches; ++i) {
    plan.micro_batches.push_back({3 * i, {SampleId{2 * i}, SampleId{2 * i + 1}}});
  }
  return plan;
}

TEST(StepPlans, ComeAndGoInOrder) {
  const RunnerConfig config = Config();
  StepPlans plans(config);
  EXPECT_TRUE(plans.empty());
  EXPECT_EQ(plans.Add(Plan(5, 1)).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(plans.Add(Plan(4, 1)).ok());
  ASSERT_TRUE(plans.Add(Plan(5, 2)).ok());
  EXPECT_FALSE(plans.Has(3));
  EXPECT_TRUE(plans.Has(4));
  EXPECT_EQ(plans.Take().step, 4u);
  EXPECT_FALSE(plans.Has(4));
  EXPECT_TRUE(plans.Has(5));
  EXPECT_FALSE(plans.Has(6));
}

TEST(StepPlans, NobodyIsFarAhead) {
  const RunnerConfig config = Config();
  StepPlans plans(config);
  Status status;
  for (std::uint64_t step = 4; status.ok() && step < 1000; ++step)
    status = plans.Add(Plan(step, 1));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
}

TEST(StepPlans, OneThatWaitsGetsMoreMicroBatches) {
  const RunnerConfig config = Config();
  StepPlans plans(config);
  ASSERT_TRUE(plans.Add(Plan(4, 1)).ok());
  ASSERT_TRUE(plans.Add(Plan(5, 1)).ok());
  StepPlan more = Plan(5, 3, 1);
  more.counting = {0, 2};
  ASSERT_TRUE(plans.Amend(more).ok());
  EXPECT_EQ(plans.Take().micro_batches.size(), 1u);
  const StepPlan taken = plans.Take();
  EXPECT_EQ(taken.micro_batches.size(), 3u);
  EXPECT_EQ(taken.amendment, 1u);
  EXPECT_EQ(taken.counting, (std::vector<std::uint32_t>{0, 2}));
}

// Its peer follows: nothing of what it had counts.
TEST(StepPlans, APipelineWithAGapHasNothingAnyMore) {
  RunnerConfig config = Config();
  StepPlans plans(config);
  ASSERT_TRUE(plans.Add(Plan(4, 2)).ok());
  EXPECT_FALSE(plans.Amend(Plan(4, 0, 1)).ok()) << "it has no gap";
  config.with_gaps = {config.pipeline};
  StepPlan plan = Plan(4, 0, 1);
  plan.counting = {1, 2};
  ASSERT_TRUE(plans.Amend(plan).ok());
  const StepPlan taken = plans.Take();
  EXPECT_TRUE(taken.micro_batches.empty());
  EXPECT_EQ(taken.counting, plan.counting);
}

TEST(StepPlans, WhoIsLostIsInThePlanAndNotThisPeer) {
  const RunnerConfig config = Config();
  StepPlan plan = Plan(4, 0, 1);
  plan.lost = {{1, 0}, {2, 1}, {0, 1}};
  EXPECT_TRUE(CheckLost(config, plan).ok());
  for (const Position& at : {Position{3, 0}, Position{1, 2}, Position{0, 0}}) {
    plan.lost = {{1, 0}, at};
    EXPECT_EQ(CheckLost(config, plan).code(), StatusCode::kInvalidArgument);
  }
}

TEST(StepPlans, WithoutAnAmendmentOnlyFollowersAreLost) {
  RunnerConfig config = Config();
  StepPlan plan = Plan(4, 0);
  plan.lost = {{1, 0}};
  EXPECT_EQ(CheckLost(config, plan).code(), StatusCode::kInvalidArgument);
  config.with_gaps = {1};
  EXPECT_TRUE(CheckLost(config, plan).ok());
}

// It was believed, and weights of a group were written behind their end.
TEST(StepPlans, MicroBatchesAreForPipelinesThatThereAre) {
  const RunnerConfig config = Config();
  StepPlan plan = Plan(4, 1);
  plan.counting = {0, 2};
  EXPECT_TRUE(CheckPlan(config, plan, 4).ok());
  plan.counting = {0, 3};
  EXPECT_EQ(CheckPlan(config, plan, 4).code(), StatusCode::kInvalidArgument);
}

TEST(StepPlans, AnAmendmentGoesOnWithWhatWasPlanned) {
  const RunnerConfig config = Config();
  const StepPlan before = Plan(5, 2, 1);
  EXPECT_TRUE(CheckAmendment(config, before, Plan(5, 2, 2)).ok());
  StepPlan other = Plan(5, 3, 2);
  other.micro_batches[1].samples[0] = SampleId{99};
  StepPlan evaluates = Plan(5, 3, 2);
  evaluates.evaluation = {{0, {SampleId{1}}}};
  StepPlan large = Plan(5, 3, 2);
  large.micro_batches[2].samples.resize(3);
  for (const StepPlan& wrong : {other, evaluates, large, Plan(5, 1, 2), Plan(6, 3, 2),
                                Plan(5, 3, 1), Plan(5, 3, replica::kAmendmentsMax + 1)}) {
    EXPECT_EQ(CheckAmendment(config, before, wrong).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(CheckAmendment(config, before, Plan(5, 1, 2)).message(),
              HasSubstr("does not go on with what this pipeline had before"));
}

}  // namespace
}  // namespace shoal::pipeline
