#include "scheduler/history/run_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/scheduler/history/ledger_events.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

TEST(RunLedger, HasTheStepsOfEachPlanAndThoseThatWereThrownAway) {
  const auto ledger = ReplayLedger(
      Log({RunBegan{}, PlanMade{1, 0, Hosts({1, 2, 3, 4})}, Losses(0, 5), StepSkipped{5, "a"},
           Losses(5, 3), PlanMade{2, 6, Hosts({1, 2, 3, 5})}, Losses(6, 4), StepSkipped{10, "b"},
           Losses(10, 1), PlanMade{4, 3, Hosts({1, 2})}, Losses(3, 2)}),
      2);
  ASSERT_TRUE(ledger.ok()) << ledger.status().ToString();
  EXPECT_EQ(ledger->steps(), 5u);
  ASSERT_EQ(ledger->plans.size(), 3u);
  EXPECT_EQ(ledger->plans[1].pipelines, 2u);
  EXPECT_EQ(ledger->plans[2].pipelines, 1u);
  ASSERT_EQ(ledger->history.size(), 2u);
  EXPECT_EQ(ledger->history[0].end, 3u);
  EXPECT_EQ(ledger->history[0].pipelines(), (Pipelines{0, 1}));
  EXPECT_EQ(ledger->history[1].first, 3u);
  EXPECT_EQ(ledger->history[1].plan, 2u);
  // First 6 and 7 of generation 1, then 3 to 5 of it and 6 to 10 of generation 2.
  std::vector<std::vector<std::uint64_t>> gone;
  for (const VoidSteps& entry : ledger->thrown_away) {
    gone.push_back({entry.steps.first, entry.steps.end, ledger->plans[entry.steps.plan].generation,
                    entry.resumed_by});
  }
  EXPECT_EQ(gone,
            (std::vector<std::vector<std::uint64_t>>{{6, 8, 1, 2}, {3, 6, 1, 4}, {6, 11, 2, 4}}));
  EXPECT_TRUE(ledger->skipped.empty()) << "both were thrown away";
}

TEST(RunLedger, LossesThatComeLaterAreOfThePipelinesThatCountedThen) {
  const auto ledger = ReplayLedger(
      Log({PlanMade{1, 0, Hosts({1, 2, 3})}, PipelinesCount{0, {0, 2}}, Losses(0, 1),
           PipelinesCount{3, {2}}, PipelinesCount{3, {0, 1}}, PipelinesCount{5, {0, 1, 2}},
           Losses(1, 8), PlanMade{2, 7, Hosts({1, 2, 3})}, Losses(7, 1)}),
      1);
  ASSERT_TRUE(ledger.ok()) << ledger.status().ToString();
  std::vector<std::pair<std::uint64_t, Pipelines>> until;
  for (const LedgerSteps& steps : ledger->history) until.emplace_back(steps.end, steps.pipelines());
  EXPECT_EQ(until, (std::vector<std::pair<std::uint64_t, Pipelines>>{
                       {3, {0, 2}}, {5, {0, 1}}, {7, {0, 1, 2}}, {8, {0, 1, 2}}}));
  const std::vector<Dealt> dealt = Deal(ledger->history[0].dealing, 3);
  EXPECT_EQ(dealt[0].pipeline, 0u);
  EXPECT_EQ(dealt[1].pipeline, 2u);
  EXPECT_EQ(dealt[2].pipeline, 0u);
}

// Of steps 3 to 5, which were dealt out, pipeline 1's part goes to the others; then 2 leaves, too.
TEST(RunLedger, WhatPipelinesThatLeaveHadIsTheOthers) {
  const auto ledger = ReplayLedger(
      Log({PlanMade{1, 0, Hosts({1, 2, 3})}, Losses(0, 3), PipelinesCount{3, {0, 2}, 6},
           Losses(3, 1), PipelinesCount{4, {0}, 7}, Losses(4, 5)}),
      1);
  ASSERT_TRUE(ledger.ok()) << ledger.status().ToString();
  using Turns = std::vector<Pipelines>;
  std::vector<std::pair<std::uint64_t, Turns>> until;
  for (const LedgerSteps& steps : ledger->history) {
    until.emplace_back(steps.end, steps.dealing.turns);
  }
  EXPECT_EQ(until, (std::vector<std::pair<std::uint64_t, Turns>>{{3, {{0, 1, 2}}},
                                                                 {4, {{0, 1, 2}, {0, 2}}},
                                                                 {6, {{0, 1, 2}, {0, 2}, {0}}},
                                                                 {7, {{0, 2}, {0}}},
                                                                 {9, {{0}}}}));
  const std::vector<Dealt> dealt = Deal(ledger->history[1].dealing, 6);
  EXPECT_EQ(dealt[1].pipeline, 0u);
  EXPECT_EQ(dealt[4].pipeline, 2u);
  EXPECT_EQ(ledger->history[1].pipelines(), (Pipelines{0, 2}));
  EXPECT_EQ(ReplayLedger(Log({PlanMade{1, 0, Hosts({1, 2, 3})}, Losses(0, 3),
                              PipelinesCount{5, {0, 2}, 9}, PipelinesCount{4, {0}, 7}}),
                         1)
                .status()
                .code(),
            StatusCode::kDataLoss);
}

TEST(RunLedger, HostsThatAnOlderLogDoesNotHaveAreNotKnown) {
  const auto ledger = ReplayLedger(Log({PlanMade{1, 0}, Losses(0, 3)}), 2);
  ASSERT_TRUE(ledger.ok());
  EXPECT_EQ(ledger->steps(), 3u);
  EXPECT_EQ(ledger->plans[0].pipelines, 0u);
  EXPECT_TRUE(ledger->history[0].dealing.turns.empty());
}

TEST(RunLedger, APipelineWithAGapCountsForNothing) {
  PlanMade gap{1, 0, Hosts({1, 2, 3, 4})};
  gap.hosts[1] = PeerId{};
  const auto ledger = ReplayLedger(Log({gap, Losses(0, 3)}), 2);
  ASSERT_TRUE(ledger.ok()) << ledger.status().ToString();
  EXPECT_EQ(ledger->history.at(0).pipelines(), (Pipelines{1}));
}

TEST(RunLedger, NamesTheFirstStepThatIsWrong) {
  const PlanMade plan{1, 0, Hosts({1, 2})};
  PlanMade gap{1, 0, Hosts({1, 2, 3, 4})}, none = plan;
  gap.hosts[3] = none.hosts[0] = PeerId{};
  const std::vector<std::pair<std::vector<TimedEvent>, std::string>> cases = {
      {Log({none}), "generation 1, at step 0, has no pipeline with a host for each stage"},
      {Log({gap, PipelinesCount{4, {0, 1}}}),
       "from step 4 on pipeline 1 counts, which the plan of generation 1 gives no host"},
      {Log({Losses(0, 2)}), "step 0 has no plan"},
      {Log({plan, Losses(0, 2), Losses(4, 1)}), "step 2 is missing: the losses of step 4"},
      {Log({plan, Losses(0, 3), Losses(2, 2)}), "step 2 is counted twice"},
      {Log({plan, Losses(0, 3), PlanMade{2, 4, Hosts({1, 2})}}),
       "generation 2 resumes at step 4, but step 3 is missing"},
      {Log({plan, Losses(0, 3), PlanMade{1, 3, Hosts({1, 2})}}), "at step 3, comes after"},
      {Log({PlanMade{1, 0, Hosts({1, 2, 3})}}), "generation 1, at step 0, has 3 hosts"},
      {Log({PlanMade{1, 0, Hosts({1, 2}), {4, {0, 1}}}}),
       "generation 1, at step 0, has homes for 2 pipelines, but 1 of them"},
      {Log({PipelinesCount{4, {0}}}), "step 4 has no plan"},
      {Log({plan, PipelinesCount{4, {0, 1}}}),
       "from step 4 on pipeline 1 counts, but the plan of generation 1 has 1"},
      {Log({plan, Losses(0, 3), PipelinesCount{2, {0}}}), "count at step 2 changed after"},
      {Log({plan, PipelinesCount{5, {0}}, PipelinesCount{4, {0}}}), "count at step 4 changed"},
      {Log({plan, PipelinesCount{5, {}}}), "from step 5 on nobody counts"},
      {Log({PlanMade{1, 0, Hosts({1, 2, 3, 4})}, PipelinesCount{0, {0}},
            PipelinesCount{0, {1}, 3}}),
       "from step 0 on nobody is left"},
      {Log({plan, Losses(0, 3), StepSkipped{2, ""}}), "step 2 was skipped out of its turn"},
      {Log({plan, Losses(0, 3), RunFinished{4}}), "after 4 steps, but step 3 is missing"},
  };
  for (const auto& [events, what] : cases) {
    const auto ledger = ReplayLedger(events, 2);
    EXPECT_EQ(ledger.status().code(), StatusCode::kDataLoss) << what;
    EXPECT_THAT(ledger.status().message(), HasSubstr(what));
  }
  EXPECT_EQ(ReplayLedger(Log({plan}), 0).status().code(), StatusCode::kDataLoss);
}

TEST(RunLedger, FindsHowSamplesAreDealtOut) {
  EXPECT_FALSE(FindSampleOrder(Log({RunBegan{}, PlanMade{1, 0}})));
  const SampleOrder order{1, 100, 8, 2, 3};
  EXPECT_EQ(FindSampleOrder(Log({RunBegan{}, PlanMade{1, 0}, order})), order);
}

}  // namespace
}  // namespace shoal::scheduler
