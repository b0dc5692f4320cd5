#include "client/chaos_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "client/chaos_report.h"

namespace shoal::client {
namespace {

using ::testing::HasSubstr;

TEST(ChaosFaults, NamesOfKindsComeBack) {
  const std::vector<std::string> names = {"kill",     "stop", "scheduler", "pause",
                                          "throttle", "cut",  "disk-full"};
  const auto kinds = ParseFaultKinds(names);
  ASSERT_TRUE(kinds.ok());
  ASSERT_EQ(kinds->size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(FaultKindName((*kinds)[i]), names[i]);
  EXPECT_EQ(ChaosOptions().kinds, names);
  EXPECT_THAT(ParseFaultKinds({"kill", "sing"}).status().message(), HasSubstr("'sing'"));
  EXPECT_FALSE(ParseFaultKinds({}).ok());
}

TEST(ChaosFaults, ASeedDrawsTheSameFaultsAndAllOfThem) {
  const std::vector<FaultKind> kinds = *ParseFaultKinds(ChaosOptions().kinds);
  FaultSource a(kinds, 9, 5), b(kinds, 9, 5), c(kinds, 9, 6);
  std::set<std::string> drawn;
  std::set<std::size_t> peers;
  int different = 0;
  for (int i = 0; i < 200; ++i) {
    const Fault one = a.Next(), same = b.Next(), other = c.Next();
    EXPECT_EQ(one.kind, same.kind);
    EXPECT_EQ(one.peer, same.peer);
    EXPECT_EQ(one.seconds, same.seconds);
    EXPECT_GE(one.seconds, 0.2);
    EXPECT_LE(one.seconds, 15.2);
    EXPECT_LE(one.wait_seconds, 2);
    if (one.peer != other.peer || one.kind != other.kind) ++different;
    drawn.insert(FaultKindName(one.kind));
    peers.insert(one.peer);
  }
  EXPECT_EQ(drawn.size(), 7u);
  EXPECT_EQ(peers.size(), 9u);
  EXPECT_GT(different, 100);
}

TEST(ChaosFaults, TheLongestPauseCountsUntilTheSecondFurtherStep) {
  FaultCost cost({}, "stage 0, pipeline 1", 10);
  cost.See(10, 0.1);
  cost.See(11, 0.2);  // was under way
  EXPECT_FALSE(cost.over());
  cost.See(11, 3.0);
  cost.See(12, 3.2);
  EXPECT_TRUE(cost.over());
  EXPECT_DOUBLE_EQ(cost.seconds_to_next_step, 3.0);
  EXPECT_EQ(cost.steps_lost, 0u);
  cost.See(3, 9);  // of the next fault
  EXPECT_EQ(cost.steps_lost, 0u);
}

TEST(ChaosFaults, StepsThatAreTrainedAgainAreLostAndNoProgress) {
  FaultCost cost({}, "spare", 10);
  cost.See(11, 0.5);
  cost.See(7, 2.0);
  for (std::uint64_t step = 8; step < 12; ++step) cost.See(step, static_cast<double>(step - 5));
  EXPECT_FALSE(cost.over());
  cost.See(12, 8);
  EXPECT_TRUE(cost.over());
  EXPECT_EQ(cost.steps_lost, 4u);
  EXPECT_DOUBLE_EQ(cost.seconds_to_next_step, 7.5);
}

TEST(ChaosFaults, SummariesAreByKind) {
  std::vector<FaultCost> costs;
  for (const double seconds : {3.0, 1.0, 2.0}) {
    costs.emplace_back(Fault{FaultKind::kKill, 0, 1, 0}, "spare", 4);
    costs.back().See(6, seconds);
  }
  costs.emplace_back(Fault{FaultKind::kStop, 0, 1, 0}, "spare", 4);
  costs.back().See(2, 1);
  const auto summaries = Summarise(costs);
  ASSERT_EQ(summaries.size(), 2u);
  EXPECT_EQ(summaries.at("kill").faults, 3u);
  EXPECT_DOUBLE_EQ(summaries.at("kill").median_seconds, 2);
  EXPECT_DOUBLE_EQ(summaries.at("kill").most_seconds, 3);
  EXPECT_EQ(summaries.at("stop").steps_lost, 2u);
}

TEST(ChaosReport, HoldsOnlyWhereNothingIsLostAndAllLossesAreEqual) {
  ChaosReport report;
  EXPECT_FALSE(report.Held()) << "nothing was trained";
  report.losses = {2, 1};
  report.equal_losses = 2;
  EXPECT_FALSE(report.Held()) << "nobody has looked at the ledger";
  report.ledger_right = true;
  EXPECT_TRUE(report.Held());
  report.equal_losses = 1;
  EXPECT_FALSE(report.Held());
  report.equal_losses = 2;
  report.faults.emplace_back(Fault{}, "spare", 4);
  report.faults.back().See(3, 1);
  EXPECT_FALSE(report.Held());
  report.faults.back().whole = false;
  EXPECT_TRUE(report.Held()) << "the only holder of a stage may have gone";
  report.faults.back().whole = true;
  report.may_lose = true;
  EXPECT_TRUE(report.Held());
  report.holdings.push_back({});
  EXPECT_TRUE(report.Held());
  report.holdings.back().grows = "files";
  EXPECT_FALSE(report.Held());
  report.holdings.clear();
  report.trouble = "no further step";
  EXPECT_FALSE(report.Held());
}

}  // namespace
}  // namespace shoal::client
