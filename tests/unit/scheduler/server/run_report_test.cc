#include "scheduler/server/run_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "storage/checkpoints/event_log.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/scheduler/history/ledger_events.h"

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr SampleOrder kOrder{3, 61, 6, 2, 2};

std::vector<std::string> Keys(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

std::vector<TimedEvent> SmallRun() {
  auto log =
      Log({RunBegan{RunId{0x12}, 7}, kOrder, MemberCame{Host(1), "anna"},
           MemberCame{Host(2), "berta"}, PlanMade{1, 0, Hosts({1, 2})}, Losses(0, 4),
           GenerationEnded{4, "lost berta", 500}, MemberGone{Host(2), "berta", "why", 3},
           PlanMade{2, 2, Hosts({1, 3}), {3, {2}}}, Losses(2, 1), StepSkipped{3, "not finite"},
           Losses(3, 3), RunHeld{"paused"}, RunReleased{}, RunFinished{6}});
  for (std::size_t i = 0; i < log.size(); ++i) log[i].at_ms = 1'700'000'000'000 + 1000 * i;
  return log;
}

TEST(RunReport, TheFormOfAnAuditIsPinned) {
  const auto report = ReportAudit(SmallRun(), 17);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_TRUE(report->right);
  const Json audit = Json::parse(report->json);
  EXPECT_THAT(Keys(audit),
              ElementsAre("epochs", "generations", "history", "members", "microBatchesPerStep",
                          "program", "right", "run", "sample", "samples", "samplesPerStep",
                          "schemaVersion", "skipped", "steps", "stepsOfEpoch", "stepsPerEpoch",
                          "stepsThrownAway", "thrownAway", "trainRows", "version", "wrong"));
  EXPECT_EQ(audit["schemaVersion"], 1);
  EXPECT_EQ(audit["run"], "0000000000000012");
  EXPECT_EQ(audit["right"], true);
  EXPECT_EQ(audit["wrong"], "");
  EXPECT_EQ(audit["steps"], 6);
  EXPECT_EQ(audit["epochs"], 1);
  EXPECT_EQ(audit["stepsOfEpoch"], 1);
  EXPECT_EQ(audit["samples"], 72);
  EXPECT_EQ(audit["stepsThrownAway"], 2);
  EXPECT_EQ(audit["thrownAway"],
            Json::parse(R"([{"firstStep":2,"lastStep":3,"generation":1,"resumedBy":2}])"));
  EXPECT_EQ(audit["skipped"], Json::parse(R"([{"step":3,"cause":"not finite"}])"));
  EXPECT_EQ(
      audit["history"],
      Json::parse(
          R"([{"firstStep":0,"lastStep":1,"generation":1,"pipelines":[0],"homes":[],"homeCount":0,
           "members":[[0,1]]},
          {"firstStep":2,"lastStep":5,"generation":2,"pipelines":[0],"homes":[2],"homeCount":3,
           "members":[[0,2]]}])"));
  const Json& members = audit["members"];
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[1], Json({{"peer", Host(2).ToHex()},
                              {"name", "berta"},
                              {"microBatches", 12},
                              {"microBatchesThrownAway", 12}}));
  EXPECT_EQ(members[2]["name"], "") << "the log has no name for it";
  EXPECT_EQ(audit["sample"]["row"], 17);
  ASSERT_GE(audit["sample"]["visits"].size(), 1u);
  EXPECT_THAT(Keys(audit["sample"]["visits"][0]),
              ElementsAre("epoch", "generation", "members", "microBatch", "pipeline", "step"));
  EXPECT_FALSE(Json::parse(ReportAudit(SmallRun(), {})->json).contains("sample"));
}

TEST(RunReport, AWrongLedgerSaysWhatIsWrong) {
  auto log = SmallRun();
  log.erase(log.begin() + 9);  // the losses of step 2
  const auto report = ReportAudit(log, {});
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->right);
  const Json audit = Json::parse(report->json);
  EXPECT_EQ(audit["right"], false);
  EXPECT_EQ(audit["wrong"], "step 3 was skipped out of its turn, when step 2 was next");
}

TEST(RunReport, WhatCannotBeAuditedIsAnError) {
  auto log = SmallRun();
  EXPECT_EQ(ReportAudit(log, 61).status().code(), StatusCode::kOutOfRange);
  log.erase(log.begin() + 1);
  const auto report = ReportAudit(log, {});
  EXPECT_EQ(report.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(report.status().message(), HasSubstr("start the run's shoal-scheduler once"));
  log.push_back({SampleOrder{}});
  EXPECT_EQ(ReportAudit(log, {}).status().code(), StatusCode::kDataLoss);
}

TEST(RunReport, ARunWithoutAStepIsRight) {
  const auto report = ReportAudit(Log({RunBegan{}, kOrder}), {});
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->right);
}

TEST(RunReport, TheFormOfEventsIsPinned) {
  const Json report = Json::parse(ReportEvents(SmallRun(), 0));
  EXPECT_THAT(Keys(report),
              ElementsAre("entries", "events", "generations", "program", "run", "schemaVersion",
                          "secondsWithoutStep", "stepsLost", "version"));
  EXPECT_EQ(report["schemaVersion"], 1);
  EXPECT_EQ(report["generations"], 2);
  EXPECT_EQ(report["stepsLost"], 2);
  EXPECT_DOUBLE_EQ(report["secondsWithoutStep"], 3.5);
  const Json& events = report["events"];
  EXPECT_EQ(report["entries"], events.size());
  const std::string anna = Host(1).ToHex(), berta = Host(2).ToHex(), other = Host(3).ToHex();
  const Json expected = {
      {{"kind", "began"}, {"time", 1'700'000'000'000}},
      {{"kind", "joined"},
       {"time", 1'700'000'002'000},
       {"peer", anna},
       {"name", "anna"},
       {"unstored", 0}},
      {{"kind", "joined"},
       {"time", 1'700'000'003'000},
       {"peer", berta},
       {"name", "berta"},
       {"unstored", 0}},
      {{"kind", "generation"},
       {"time", 1'700'000'004'000},
       {"step", 0},
       {"generation", 1},
       {"pipelines", 1},
       {"stepsBefore", "none"},
       {"stepsLost", 0},
       {"secondsWithoutStep", nullptr},
       {"atMost", false},
       {"replaced", Json::array()}},
      {{"kind", "ended"},
       {"time", 1'700'000'006'000},
       {"generation", 1},
       {"step", 4},
       {"reason", "lost berta"}},
      {{"kind", "left"},
       {"time", 1'700'000'007'000},
       {"peer", berta},
       {"name", "berta"},
       {"reason", "why"},
       {"unstored", 3}},
      {{"kind", "generation"},
       {"time", 1'700'000'008'000},
       {"step", 2},
       {"generation", 2},
       {"pipelines", 1},
       {"stepsBefore", "trained_again"},
       {"stepsLost", 2},
       {"secondsWithoutStep", 3.5},
       {"atMost", false},
       {"replaced",
        {{{"pipeline", 0},
          {"stage", 1},
          {"from", {{"peer", berta}, {"name", "berta"}}},
          {"to", {{"peer", other}, {"name", ""}}}}}}},
      {{"kind", "skipped"}, {"time", 1'700'000'010'000}, {"step", 3}, {"reason", "not finite"}},
      {{"kind", "paused"}, {"time", 1'700'000'012'000}, {"reason", "paused"}},
      {{"kind", "resumed"}, {"time", 1'700'000'013'000}},
      {{"kind", "finished"}, {"time", 1'700'000'014'000}, {"step", 6}}};
  EXPECT_EQ(events, expected);
}

TEST(RunReport, GivesTheNewestEventsOnly) {
  const Json all = Json::parse(ReportEvents(SmallRun(), 0));
  const Json few = Json::parse(ReportEvents(SmallRun(), 2));
  EXPECT_EQ(few["entries"], all["entries"]);
  EXPECT_EQ(few["stepsLost"], 2) << "of the whole run";
  ASSERT_EQ(few["events"].size(), 2u);
  EXPECT_EQ(few["events"][0]["kind"], "resumed");
  EXPECT_EQ(Json::parse(ReportEvents(SmallRun(), 1000))["events"], all["events"]);
}

TEST(RunReport, ReadsTheLogOfARunAlsoWhileItIsWritten) {
  const test_support::TemporaryFolder folder;
  EXPECT_EQ(ReadEvents(folder.path()).status().code(), StatusCode::kNotFound);
  auto log = storage::OpenRocksEventLog(folder.path() + "/events");
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(ReadEvents(folder.path()).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE((*log)->Append(StampEvent(EncodeEvent(RunBegan{}), 5)).ok());
  ASSERT_TRUE((*log)->Append(EncodeEvent(PlanMade{1, 0})).ok());
  const auto events = ReadEvents(folder.path());
  ASSERT_TRUE(events.ok()) << events.status().ToString();
  ASSERT_EQ(events->size(), 2u);
  EXPECT_EQ(events->at(0).at_ms, 5u);
  EXPECT_FALSE(events->at(1).at_ms);
  ASSERT_TRUE((*log)->Append("nonsense").ok());
  const auto damaged = ReadEvents(folder.path());
  EXPECT_EQ(damaged.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(damaged.status().message(), HasSubstr("event 3"));
}

}  // namespace
}  // namespace shoal::scheduler
