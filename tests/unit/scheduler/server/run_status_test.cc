#include "scheduler/server/run_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/peers/peer_message_check.h"
#include "scheduler/steps/step_times.h"
#include "tests/support/status_paths.h"
#include "tests/support/temporary_folder.h"

namespace shoal::scheduler {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string OperationsPage() {
  const std::string path = test_support::Environment("SHOAL_SOURCE_DIR") + "/docs/OPERATIONS.md";
  const Result<std::string> page = ReadFile(path, 1 << 20);
  return page.ok() ? *page : page.status().ToString();
}

RunConfig Config() {
  RunConfig config;
  config.run = RunId{0x77};
  config.stage_first_layers = {0, 2, 4};
  config.row_tokens = 16;
  return config;
}

RunView View() {
  RunView view;
  view.state = RunState::kTraining;
  view.generation = 3;
  view.step = 2;
  view.steps = 100;
  view.losses = {3.5, 3.25};
  view.held_out = {{0, 4.5}, {2, 4.25}};
  view.loss = 3.25;
  view.samples_per_second = 7.5;
  view.m_checks = 4;
  view.skipped_steps = 1;
  view.last_skipped = "anna's gradient";
  view.timings.resize(2);
  view.timings[1].set_forward_ms(12);
  view.lans = {{0, 1, 2, 1, 2}};
  MemberView member;
  member.peer.key[0] = 0xab;
  member.name = "an\"na\xff|";
  member.connected = true;
  member.stage = 1;
  member.pipeline = 0;
  member.status_json = R"({"links":[{"rttMs":7}],"work":{"step":2}})";
  view.members.push_back(member);
  member.peer.key[0] = 0xcd;
  member.status_json = "{ not json";
  member.stage = member.pipeline = -1;
  view.members.push_back(member);
  return view;
}

TEST(RunStatusTest, JsonHasTheDocumentedFields) {
  const std::string text = StatusJson(Config(), View(), {});
  EXPECT_TRUE(text.starts_with(R"({"schemaVersion":2,)")) << text;
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["run"]["state"], "training");
  EXPECT_EQ(json["run"]["losses"], (std::vector<double>{3.5, 3.25}));
  EXPECT_EQ(json["run"]["heldOut"], nlohmann::json::parse("[[0,4.5],[2,4.25]]"));
  EXPECT_EQ(json["run"]["heldOutLoss"], 4.25);
  EXPECT_EQ(json["run"]["heldOutStep"], 2);
  EXPECT_EQ(json["run"]["samplesPerSecond"], 7.5);
  EXPECT_EQ(json["run"]["id"], "0000000000000077");
  EXPECT_EQ(json["members"][0]["links"][0]["rttMs"], 7);
  EXPECT_EQ(json["members"][0]["status"]["work"]["step"], 2);
  EXPECT_EQ(json["members"][1]["status"], nlohmann::json::object());
  EXPECT_EQ(json["members"][1]["stage"], -1);
  EXPECT_EQ(json["stages"][1]["layers"], (std::vector<int>{2, 4}));
  EXPECT_EQ(json["stages"][1]["peers"][0], View().members[0].peer.ToHex());
  EXPECT_EQ(json["stages"][1]["timing"]["forwardMs"], 12);
  EXPECT_EQ(json["stages"][0]["lans"], nlohmann::json({{1, 3}, {2, 4}}));
  EXPECT_EQ(json["stages"][1]["lans"], nlohmann::json::array());
  EXPECT_EQ(json["consistency"]["mChecks"], 4);
  EXPECT_EQ(json["run"]["skippedSteps"], 1);
  EXPECT_EQ(json["run"]["lastSkipped"], "anna's gradient");
  EXPECT_EQ(json["codecs"]["forward"], RunConfig().forward);
  EXPECT_EQ(json["pipelines"], 1);
}

TEST(RunStatusTest, SaysWhereCopiesAre) {
  ServerView server;
  const auto none = nlohmann::json::parse(StatusJson(Config(), View(), server))["checkpointStore"];
  EXPECT_EQ(none["address"], "");
  EXPECT_TRUE(none["step"].is_null());
  server.mirror.address = "s3://bucket/a";
  server.mirror.state = MirrorState::kWaiting;
  server.mirror.stored_step = 10;
  server.mirror.pending_step = 20;
  server.mirror.sent_bytes = 300;
  server.mirror.failures = 2;
  server.mirror.last_failure = "why";
  const auto json = nlohmann::json::parse(StatusJson(Config(), View(), server))["checkpointStore"];
  EXPECT_EQ(json, nlohmann::json::parse(R"({"address":"s3://bucket/a","state":"waiting","step":10,
      "pendingStep":20,"sentBytes":300,"failures":2,"lastFailure":"why"})"));
  const std::string text = MetricsText(Config(), View(), server);
  EXPECT_THAT(text, HasSubstr("shoal_checkpoint_store_state{state=\"waiting\"} 1"));
  EXPECT_THAT(text, HasSubstr("shoal_checkpoint_store_step 10"));
  EXPECT_THAT(text, HasSubstr("shoal_checkpoint_store_sent_bytes_total 300"));
  EXPECT_THAT(text, HasSubstr("shoal_checkpoint_store_failures_total 2"));
}

TEST(RunStatusTest, SaysWhichLogsFail) {
  ServerView server;
  server.logs = {{"tensorboard:/tb", "jsonl:/a"}, 3, "jsonl:/a: write /a: no space"};
  const auto json = nlohmann::json::parse(StatusJson(Config(), View(), server))["logs"];
  EXPECT_EQ(json, nlohmann::json::parse(R"({"targets":["tensorboard:/tb","jsonl:/a"],"failures":3,
      "lastFailure":"jsonl:/a: write /a: no space"})"));
  EXPECT_THAT(MetricsText(Config(), View(), server), HasSubstr("shoal_log_failures_total 3"));
}

TEST(RunStatusTest, TheTableListsTheStatesOfTheCopying) {
  std::string states;
  for (const net::StatusField& field : net::RunStatusFields()) {
    if (field.path != "checkpointStore.state") continue;
    for (const auto& [value, label] : net::ValuesOf(field)) states += std::string(value) + ";";
  }
  std::string expected;
  for (int i = 0; i <= static_cast<int>(MirrorState::kWaiting); ++i) {
    expected += std::string(MirrorStateName(static_cast<MirrorState>(i))) + ";";
  }
  EXPECT_EQ(states, expected);
}

// A row without a value is a field that nobody measures.
TEST(RunStatusTest, HasEachFieldOfTheTable) {
  RunView view = View();
  view.last_step_seconds = {1.5};
  ServerView server;
  server.logs.targets = {"jsonl:a"};
  const auto fields = net::RunStatusFields();
  std::set<std::string> paths =
      test_support::StatusPaths(StatusJson(Config(), view, server), fields);
  paths.merge(test_support::StatusPaths(StandbyJson({}), fields));
  EXPECT_EQ(paths, test_support::TablePaths(fields));
}

TEST(RunStatusTest, AStandbySaysWhoLeadsAndWhatItLacks) {
  StandbyView view{"pirate", "left, port 8781", 1.5, 70, 2, 60};
  const auto json = nlohmann::json::parse(StandbyJson(view));
  EXPECT_EQ(json["role"], "standby");
  EXPECT_EQ(json["program"], "shoal-scheduler");
  EXPECT_EQ(json["standby"], nlohmann::json::parse(R"({"run":"pirate","leader":"left, port 8781",
      "leaderSeenSeconds":1.5,"events":70,"missingFiles":2})"));
  const std::string metrics = StandbyMetrics(view);
  EXPECT_THAT(metrics, HasSubstr("shoal_scheduler_role{role=\"standby\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("shoal_scheduler_role{role=\"leader\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("shoal_standby_leader_seen_seconds 1.5\n"));
  EXPECT_THAT(metrics, HasSubstr("shoal_standby_missing_files 2\n"));
  EXPECT_THAT(metrics, Not(HasSubstr("shoal_run_state")));
  view.leader_seen_s.reset();
  EXPECT_TRUE(nlohmann::json::parse(StandbyJson(view))["standby"]["leaderSeenSeconds"].is_null());
  EXPECT_THAT(StandbyMetrics(view), Not(HasSubstr("shoal_standby_leader_seen_seconds")));
  EXPECT_THAT(MetricsText(Config(), View(), {}),
              HasSubstr("shoal_scheduler_role{role=\"leader\"} 1\n"));
}

TEST(RunStatusTest, FreeDiskIsAMetricOnceItIsKnown) {
  EXPECT_THAT(MetricsText(Config(), View(), {}), Not(HasSubstr("shoal_disk_free_bytes")));
  ServerView server;
  server.disk_free_bytes = 5000;
  EXPECT_THAT(MetricsText(Config(), View(), server), HasSubstr("shoal_disk_free_bytes 5000\n"));
}

TEST(RunStatusTest, TheTableListsTheStates) {
  std::string states;
  for (const net::StatusField& field : net::RunStatusFields()) {
    if (field.path != "run.state") continue;
    for (const auto& [value, label] : net::ValuesOf(field)) states += std::string(value) + ";";
  }
  std::string expected;
  for (int i = 0; i <= static_cast<int>(RunState::kFailed); ++i) {
    expected += std::string(RunStateName(static_cast<RunState>(i))) + ";";
  }
  EXPECT_EQ(states, expected);
}

TEST(RunStatusTest, MetricsNameTheStateOnce) {
  const std::string text = MetricsText(Config(), View(), {});
  EXPECT_THAT(text, HasSubstr("shoal_run_state{state=\"training\"} 1"));
  EXPECT_THAT(text, HasSubstr("shoal_run_state{state=\"paused\"} 0"));
  EXPECT_THAT(text, HasSubstr("shoal_peers{role=\"spare\"} 1"));
  EXPECT_THAT(text, HasSubstr("shoal_stage_peers{stage=\"1\"} 1"));
  EXPECT_THAT(text, HasSubstr("shoal_training_loss 3.25"));
  EXPECT_THAT(text, HasSubstr("shoal_skipped_steps 1"));
}

TEST(RunStatusTest, OperationsPageListsEveryMetric) {
  const std::string page = OperationsPage();
  std::istringstream lines(MetricsText(Config(), View(), {}));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# TYPE ")) continue;
    const std::string name = line.substr(7, line.rfind(' ') - 7);
    EXPECT_THAT(page, AnyOf(HasSubstr("`" + name + "`"), HasSubstr("`" + name + "{"))) << name;
  }
}

TEST(RunStatusTest, OperationsPageStatesTheLimits) {
  const std::string page = OperationsPage();
  const std::pair<std::uint64_t, const char*> limits[] = {
      {kNameCharactersMax, " characters, "},           {kAddressesMax, " addresses, "},
      {kStatusBytesMax >> 10, " KiB of status"},       {kStepPlansAhead, " step plans, "},
      {kPendingCheckpointsMax, " checkpoints under "}, {StepTimes::kKept, " steps; "}};
  for (const auto& [value, what] : limits) {
    EXPECT_THAT(page, HasSubstr(" " + std::to_string(value) + what));
  }
}

TEST(RunStatusTest, PromtoolAcceptsTheMetrics) {
  if (std::system("command -v promtool > /dev/null 2>&1") != 0) GTEST_SKIP() << "no promtool";
  std::string path = (std::filesystem::temp_directory_path() / "shoal-metrics-XXXXXX").string();
  const int file = mkstemp(path.data());
  ASSERT_GE(file, 0);
  std::ofstream(path) << MetricsText(Config(), View(), {});
  const int result = std::system(("promtool check metrics < " + path + " 1>&2").c_str());
  std::filesystem::remove(path);
  EXPECT_EQ(result, 0);
}

TEST(RunStatusTest, ModelCardHasNoForeignMarkup) {
  dataset::DataInfo data;
  data.text_sha256 = "feed";
  const std::string card = ModelCard(Config(), View(), data);
  EXPECT_THAT(card, HasSubstr("feed"));
  EXPECT_THAT(card, HasSubstr("an?na??"));
  EXPECT_THAT(card, HasSubstr(RunConfig().forward));
}

}  // namespace
}  // namespace shoal::scheduler
