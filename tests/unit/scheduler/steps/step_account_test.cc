#include "scheduler/steps/step_account.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "scheduler/steps/consistency.h"

namespace shoal::scheduler {
namespace {

control::v1::StepReady Ready(std::uint64_t labels, double loss, double forward_ms) {
  control::v1::StepReady ready;
  ready.set_labels(labels);
  ready.set_loss_sum(loss);
  ready.mutable_timing()->set_forward_ms(forward_ms);
  ready.mutable_timing()->set_backward_weights_ms(2 * forward_ms);
  ready.mutable_timing()->set_round_trip_ms(3 * forward_ms);
  ready.mutable_timing()->set_pending_weights_bytes(labels);
  return ready;
}

TEST(StepAccountTest, WithoutAPipelineTheOthersReportOnceMore) {
  StepAccount account(1, 3);
  const TimePoint start{std::chrono::seconds(1)};
  account.Begin(4, {}, start);
  for (std::uint32_t p = 0; p < 3; ++p) EXPECT_TRUE(account.AddReady(p, 0, Ready(5, 1, 1), start));
  EXPECT_TRUE(account.AddSynced(0, 0, 3, start));
  account.GoOnWithout({{0, 0}}, {});
  EXPECT_FALSE(account.all_ready());
  EXPECT_EQ(account.labels(), 0u);
  const TimePoint later = start + std::chrono::seconds(2);
  EXPECT_TRUE(account.AddReady(1, 0, Ready(7, 2, 1), later));
  EXPECT_TRUE(account.AddReady(2, 0, Ready(8, 2, 1), later));
  EXPECT_TRUE(account.all_ready());
  EXPECT_EQ(account.labels(), 15u);
  EXPECT_EQ(account.elapsed(later), std::chrono::seconds(2));
  EXPECT_TRUE(account.AddSynced(1, 0, 9, later));
  EXPECT_TRUE(account.AddSynced(2, 0, 4, later));
  EXPECT_TRUE(account.all_synced());
  EXPECT_EQ(account.squared_norm(), 9);
  EXPECT_EQ(account.disagreeing_stage(), 0u);
  EXPECT_EQ(account.disagreeing(0), (std::vector<std::uint32_t>{1, 2}));
}

// Two stages; pipelines 1 and 2 lack one each.
TEST(StepAccountTest, NobodyReportsForAGap) {
  StepAccount account(2);
  account.Reset(3, {{1, 0}, {2, 1}});
  const TimePoint start{std::chrono::seconds(1)};
  account.Begin(4, {}, start);
  for (const auto& [p, s] : {std::pair(0, 0), {0, 1}, {1, 1}}) {
    EXPECT_TRUE(account.AddReady(p, s, Ready(s == 1 && p == 0 ? 5 : 0, 1, 1), start));
    EXPECT_TRUE(account.AddSynced(p, s, 3, start));
    EXPECT_FALSE(account.all_ready());
    EXPECT_FALSE(account.all_synced());
  }
  EXPECT_TRUE(account.AddReady(2, 0, Ready(0, 0, 1), start));
  EXPECT_TRUE(account.AddSynced(2, 0, 7, start));
  EXPECT_TRUE(account.all_ready());
  EXPECT_TRUE(account.all_synced());
  EXPECT_EQ(account.labels(), 5u);
  EXPECT_EQ(account.Judged(0), (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(account.Judged(1), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(account.disagreeing_stage(), 0u) << "who follows has the same sum, too";
  EXPECT_EQ(account.disagreeing(0), (std::vector<std::uint32_t>{0, 2}));
  EXPECT_TRUE(account.disagreeing(1).empty());
  EXPECT_EQ(account.squared_norm(), 6);
  // Who is left of a pipeline with a gap leaves, too.
  account.GoOnWithout({{1, 1}}, {});
  for (const auto& [p, s] : {std::pair(0, 0), {0, 1}, {2, 0}}) {
    EXPECT_FALSE(account.all_ready());
    EXPECT_TRUE(account.AddReady(p, s, Ready(1, 1, 1), start));
  }
  EXPECT_TRUE(account.all_ready());
  EXPECT_EQ(account.Judged(1), (std::vector<std::uint32_t>{0}));
}

TEST(StepAccountTest, NobodyWaitsForAFollowerThatIsLost) {
  StepAccount account(2);
  account.Reset(3, {{1, 0}, {2, 0}});
  const TimePoint start{std::chrono::seconds(1)};
  account.Begin(4, {}, start);
  for (const auto& [p, s] : {std::pair(0, 0), {0, 1}, {1, 1}}) {
    EXPECT_TRUE(account.AddReady(p, s, Ready(s == 1 && p == 0 ? 5 : 0, 1, 1), start));
    EXPECT_TRUE(account.AddSynced(p, s, 3, start));
  }
  EXPECT_FALSE(account.all_ready());
  account.Lose({{1, 1}});  // which has reported
  EXPECT_FALSE(account.all_ready());
  EXPECT_FALSE(account.all_synced());
  account.Lose({{2, 1}});  // which has not
  EXPECT_TRUE(account.all_ready());
  EXPECT_TRUE(account.all_synced());
  EXPECT_EQ(account.labels(), 5u);
  EXPECT_EQ(account.squared_norm(), 6);
  EXPECT_EQ(account.Judged(1), (std::vector<std::uint32_t>{0}));
}

TEST(StepAccountTest, CountsEachMemberOnceAndOnlyLastStagesLoss) {
  StepAccount account(2, 2);
  const TimePoint start{std::chrono::seconds(1)};
  account.Begin(4, {}, start);
  EXPECT_TRUE(account.AddReady(0, 0, Ready(100, 100, 3), start));
  EXPECT_FALSE(account.AddReady(0, 0, Ready(100, 100, 3), start));
  EXPECT_TRUE(account.AddReady(0, 1, Ready(5, 2.5, 4), start));
  EXPECT_TRUE(account.AddReady(1, 0, Ready(0, 0, 9), start));
  EXPECT_FALSE(account.all_ready());
  EXPECT_TRUE(account.AddReady(1, 1, Ready(6, 1.5, 2), start + std::chrono::seconds(2)));
  EXPECT_TRUE(account.all_ready());
  EXPECT_EQ(account.ready_after(1, 0), Duration::zero());
  EXPECT_EQ(account.ready_after(1, 1), std::chrono::seconds(2));
  EXPECT_EQ(account.labels(), 11u);
  EXPECT_EQ(account.loss_sum(), 4.0);
  EXPECT_EQ(account.timings()[0].forward_ms(), 9);
  EXPECT_EQ(account.timings()[1].forward_ms(), 4);
  EXPECT_EQ(account.timings()[0].backward_weights_ms(), 18);
  EXPECT_EQ(account.timings()[0].round_trip_ms(), 27);
  EXPECT_EQ(account.timings()[1].pending_weights_bytes(), 6u);
  for (const std::uint32_t p : {0u, 1u}) {
    EXPECT_TRUE(account.AddSynced(p, 0, 3, start + std::chrono::seconds(3)));
    EXPECT_TRUE(account.AddSynced(p, 1, 5, start + std::chrono::seconds(5)));
  }
  EXPECT_TRUE(account.all_synced());
  EXPECT_EQ(account.squared_norm(), 8);  // pipeline 0 only
  EXPECT_FALSE(account.disagreeing_stage());
  EXPECT_EQ(account.between_ready_and_synced(), std::chrono::seconds(3));
}

TEST(StepAccountTest, HeldOutLossIsTheMeanOverThePipelinesLabels) {
  const auto ready = [](std::uint64_t labels, double sum) {
    control::v1::StepReady report;
    report.set_evaluation_labels(labels);
    report.set_evaluation_loss_sum(sum);
    return report;
  };
  StepAccount account(2, 2);
  account.Begin(0, {}, {});
  account.AddReady(0, 0, ready(9, 90), {});  // not the last stage
  EXPECT_FALSE(account.held_out_loss().has_value());
  account.AddReady(0, 1, ready(10, 20), {});
  account.AddReady(1, 1, ready(30, 120), {});
  ASSERT_TRUE(account.held_out_loss().has_value());
  EXPECT_DOUBLE_EQ(*account.held_out_loss(), 3.5);
  account.Begin(1, {}, {});
  EXPECT_FALSE(account.held_out_loss().has_value()) << "each step anew";
  account.AddReady(1, 1, ready(0, std::numeric_limits<double>::quiet_NaN()), {});
  ASSERT_TRUE(account.held_out_loss().has_value());
  EXPECT_FALSE(std::isfinite(*account.held_out_loss()));
}

TEST(StepAccountTest, FindsTheDisagreeingStage) {
  StepAccount account(2, 2);
  account.Begin(0, {}, {});
  account.AddSynced(0, 0, 1, {});
  account.AddSynced(1, 0, 1, {});
  account.AddSynced(0, 1, 1, {});
  account.AddSynced(1, 1, 1.001, {});
  EXPECT_EQ(account.disagreeing_stage(), 1u);
}

// A member that only follows may lack a part of what its norm is of.
TEST(StepAccountTest, NormsOfPipelinesThatAreNotJudgedSayNothing) {
  StepAccount account(1, 4);
  account.Begin(0, {1, 2, 3}, {});
  EXPECT_EQ(std::ranges::count(account.Judged(0), 0u), 0);
  EXPECT_EQ(std::ranges::count(account.Judged(0), 3u), 1);
  account.AddSynced(0, 0, 5, {});
  for (const std::uint32_t p : {1u, 2u, 3u}) account.AddSynced(p, 0, 9, {});
  EXPECT_TRUE(account.all_synced());
  EXPECT_EQ(account.squared_norm(), 9);
  EXPECT_FALSE(account.disagreeing_stage());
  account.GoOnWithout({{1, 0}}, {2, 3});
  account.AddSynced(0, 0, 5, {});
  account.AddSynced(2, 0, 9, {});
  EXPECT_FALSE(account.all_synced()) << "who follows has to report, too";
  account.AddSynced(3, 0, 8, {});
  EXPECT_TRUE(account.all_synced());
  EXPECT_EQ(account.squared_norm(), 9);
  EXPECT_EQ(account.disagreeing(0), (std::vector<std::uint32_t>{2, 3}));
}

TEST(ConsistencyChecksTest, ComparesBothEndsInAnyOrder) {
  ConsistencyChecks checks;
  control::v1::BoundaryChecksum sender, receiver;
  receiver.set_receiver(true);
  sender.set_checksum(8);
  receiver.set_checksum(8);
  EXPECT_TRUE(checks.AddChecksum(1, 0, receiver));
  EXPECT_EQ(checks.m_checks(), 0u);
  EXPECT_TRUE(checks.AddChecksum(1, 0, sender));
  EXPECT_TRUE(checks.AddChecksum(2, 0, sender));
  receiver.set_checksum(9);
  EXPECT_TRUE(checks.AddChecksum(2, 1, receiver));  // another pipeline: its own comparison
  EXPECT_FALSE(checks.AddChecksum(2, 0, receiver));
  receiver.set_checksum(8);
  receiver.set_records(1);
  EXPECT_TRUE(checks.AddChecksum(3, 0, sender));
  EXPECT_FALSE(checks.AddChecksum(3, 0, receiver));
  EXPECT_EQ(checks.m_checks(), 3u);
  EXPECT_EQ(checks.m_mismatches(), 2u);
}

TEST(ConsistencyChecksTest, ForgetsHalvesThatAreTooOld) {
  ConsistencyChecks checks;
  control::v1::BoundaryChecksum sender, receiver;
  receiver.set_receiver(true);
  receiver.set_checksum(1);
  checks.AddChecksum(1, 0, sender);
  checks.AddChecksum(50, 0, sender);
  EXPECT_TRUE(checks.AddChecksum(1, 0, receiver));
  EXPECT_EQ(checks.m_checks(), 0u);
}

TEST(ConsistencyChecksTest, JudgesWeightsWithTheLastMember) {
  ConsistencyChecks checks;
  EXPECT_FALSE(checks.AddWeights(3, 0, 2, 9, 3));
  EXPECT_FALSE(checks.AddWeights(3, 0, 1, 7, 3));
  checks.Lose(1, 0);
  EXPECT_FALSE(checks.AddWeights(3, 1, 0, 9, 2)) << "another stage";
  const auto left = checks.AddWeights(3, 0, 0, 9, 2);
  ASSERT_TRUE(left);
  EXPECT_TRUE(left->equal) << "whose weights differ has left";
  EXPECT_FALSE(checks.AddWeights(4, 0, 2, 9, 3));
  EXPECT_FALSE(checks.AddWeights(4, 0, 2, 8, 3)) << "it spoke already";
  EXPECT_FALSE(checks.AddWeights(4, 1, 0, 9, 3)) << "another stage";
  EXPECT_FALSE(checks.AddWeights(4, 0, 0, 7, 3));
  const auto verdict = checks.AddWeights(4, 0, 1, 9, 3);
  ASSERT_TRUE(verdict);
  EXPECT_FALSE(verdict->equal);
  EXPECT_TRUE(verdict->majority);
  EXPECT_EQ(verdict->differing, std::vector<std::uint32_t>{0});
  EXPECT_EQ(checks.weight_checks(), 3u);
  EXPECT_EQ(checks.weight_mismatches(), 1u);
}

TEST(ConsistencyChecksTest, HalfOfTheMembersAreNoMajority) {
  ConsistencyChecks checks;
  for (const std::uint32_t p : {0, 1, 2}) EXPECT_FALSE(checks.AddWeights(0, 0, p, p / 2, 4));
  const auto verdict = checks.AddWeights(0, 0, 3, 1, 4);
  ASSERT_TRUE(verdict);
  EXPECT_FALSE(verdict->equal || verdict->majority);
  EXPECT_EQ(verdict->differing, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(checks.weight_mismatches(), 2u);
}

TEST(ConsistencyChecksTest, EqualWeightsAreEqual) {
  ConsistencyChecks checks;
  EXPECT_FALSE(checks.AddWeights(0, 0, 1, 3, 2));
  const auto verdict = checks.AddWeights(0, 0, 0, 3, 2);
  ASSERT_TRUE(verdict);
  EXPECT_TRUE(verdict->equal);
  EXPECT_TRUE(verdict->differing.empty());
}

}  // namespace
}  // namespace shoal::scheduler
