#include "daemon/status_snapshot.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "common/file.h"
#include "daemon_test_util.h"
#include "net/http/status_fields.h"
#include "scheduler/peers/peer_status.h"
#include "tests/support/status_paths.h"

namespace shoal::daemon {
namespace {

using Json = nlohmann::ordered_json;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

TermsReport FullTerms() {
  TermsReport terms;
  terms.reason = "program";
  terms.rules = {"paused: steam runs"};
  terms.budget_bytes = 300;
  terms.budget_used_bytes = 212;
  terms.budget_resets_ms = 1'796'000'000'000;
  return terms;
}

net::LinkStats FullLink() {
  net::LinkStats link;
  link.peer.key[0] = 0xbe;
  link.channel = "boundary/0/0";
  link.connected = true;
  link.sent_wire_bytes = 100;
  link.received_wire_bytes = 50;
  link.rtt_ms = 20;
  link.connections = 2;
  link.path = "direct";
  link.stall_rate_limit_ms = 1500;
  return link;
}

// Of a stage that receives activations and sends gradients.
pipeline::BoundaryStats FullBoundary() {
  pipeline::BoundaryStats end;
  end.side = storage::BoundarySide::kReceiver;
  end.mode = compression::DeltaMode::kWideDelta;
  end.AddVisits(4, 3, compression::DeltaMode::kWideDelta);
  end.backward_error.Add(0.5);
  end.backward_error.Add(0.25);
  end.resends = 2;
  end.gradients.emplace().AddVisits(4, 2, compression::DeltaMode::kDelta);
  end.gradients->relative_delta.Add(0.125);
  end.low_rank = {{1, 25, 100}, {3, 300, 300}, 0.75, true};
  return end;
}

StatusSnapshot Full() {
  StatusSnapshot s;
  s.version = "1.2.3";
  s.peer_id = std::string(64, 'a');
  s.name = "attic";
  s.state = PeerState::kTraining;
  s.state_reasons = {"because"};
  s.since_unix_ms = 1000;
  s.time_unix_ms = 4000;
  s.run_id = "00000000000000ff";
  s.run_name = "demo";
  s.run_state = "training";
  s.step = 7;
  s.target_step = 100;
  s.loss = 2.5;
  s.losses = {{5, 3.0}, {6, 2.5}};
  s.held_out = {{0, 3.5}};
  s.has_stage = true;
  s.stage = 1;
  s.stages = 2;
  s.pipelines = 2;
  s.first_layer = 2;
  s.last_layer = 4;
  s.generation = 9;
  s.lan = {0, 3};
  s.forward_codec = "aqsgd:bits=4";
  s.runner.time[pipeline::Activity::kForward] = 250;
  s.runner.bounds = {pipeline::ScheduleKind::kZeroBubble, 12, 9, 6312.5, 6249.5, 3072};
  s.samples_per_second = 12.5;
  const net::LinkStats link = FullLink();
  s.links = {link};
  s.mapping = {"203.0.113.7:40000", "UPnP", ""};
  s.relays = {
      {"relay.example.org:8783", true, "203.0.113.7:40000", "10.0.0.2:40000", true, "", 12.5}};
  s.names[link.peer] = "cellar";
  s.runner.boundaries = {FullBoundary()};
  s.epochs = 1.25;
  s.target_epochs = 4;
  s.totals.forward = {4000, 500, 2000, 250};
  s.totals.link_sent_wire_bytes = 100;
  s.totals.link_received_wire_bytes = 50;
  s.totals.micro_batches = 14;
  s.control.sent_wire_bytes = 10;
  s.control.received_wire_bytes = 20;
  s.terms = FullTerms();
  s.terms.usage.energy_joules = 7200;
  GpuReading& gpu = s.gpu.emplace();
  gpu.name = "GeForce RTX 3090";
  gpu.power_mw = 287'500;
  gpu.power_limit_mw = 350'000;
  gpu.busy_percent = 70;
  gpu.memory_bytes = 24;
  gpu.memory_used_bytes = 10;
  s.upload_cap = BitsPerSecond{20'000'000};
  s.pacing = "auto";
  s.upload_line = BitsPerSecond{18'000'000};
  s.upload_pace = BitsPerSecond{19'000'000};
  s.delta_store.hits = 3;
  s.delta_store.bytes = 77;
  s.boundaries = {{0, storage::BoundarySide::kReceiver, 0x1234, 8}};
  return s;
}

// A field that the scheduler's table lacks would be dropped from what the organiser sees.
TEST(StatusSnapshotTest, TheSchedulerKnowsEveryField) {
  const std::string json = StatusJson(Full());
  const auto fitted = scheduler::FitPeerStatus(json);
  ASSERT_TRUE(fitted.ok()) << fitted.status().ToString();
  EXPECT_EQ(Json::parse(*fitted), Json::parse(json));
  const std::string none = StatusJson(StatusSnapshot{});
  EXPECT_EQ(Json::parse(*scheduler::FitPeerStatus(none)), Json::parse(none));
}

TEST(StatusJson, SchemaVersionComesFirst) {
  EXPECT_TRUE(StatusJson(StatusSnapshot{}).starts_with("{\"schemaVersion\":2,"));
  EXPECT_TRUE(StatusJson(Full()).starts_with("{\"schemaVersion\":2,"));
}

TEST(StatusJson, OthersDoNotLearnRulesAndProgramsOfTheOwner) {
  StatusSnapshot s = Full();
  s.state_reasons = {"paused: steam runs"};
  const std::string text = StatusJson(ForOthers(s));
  EXPECT_THAT(text, Not(HasSubstr("steam")));
  EXPECT_THAT(text, HasSubstr("\"terms\":{\"reason\":\"program\""));
  EXPECT_THAT(text, HasSubstr("\"budget\":null"));
  EXPECT_THAT(text, HasSubstr("\"gpu\":null"));
  EXPECT_THAT(text, HasSubstr("\"energyJoules\":null"));
  s.terms.reason = "gpu";
  s.state_reasons = {"paused: the GPU is used by steam, or was a moment ago"};
  EXPECT_THAT(StatusJson(ForOthers(s)), Not(HasSubstr("steam")));
  s.terms.reason = "schedule";
  s.state_reasons = {"paused until 18:00: schedule"};
  EXPECT_THAT(StatusJson(ForOthers(s)), HasSubstr("paused until 18:00: schedule"));
}

TEST(StatusJson, HoldsWhatTheSnapshotHolds) {
  const Json json = Json::parse(StatusJson(Full()));
  EXPECT_EQ(json["program"], "shoald");
  EXPECT_EQ(json["state"], "training");
  EXPECT_EQ(json["stateReasons"], Json({"because"}));
  EXPECT_EQ(json["time"].get<int>() - json["since"].get<int>(), 3000);
  EXPECT_EQ(json["swarm"]["step"], 7);
  EXPECT_EQ(json["swarm"]["targetStep"], 100);
  EXPECT_EQ(json["swarm"]["losses"], Json::parse("[[5,3.0],[6,2.5]]"));
  EXPECT_EQ(json["swarm"]["heldOut"], Json::parse("[[0,3.5]]"));
  EXPECT_EQ(json["swarm"]["heldOutLoss"], 3.5);
  EXPECT_EQ(json["swarm"]["heldOutStep"], 0);
  EXPECT_EQ(json["role"]["stage"], 1);
  EXPECT_EQ(json["role"]["layers"], Json({2, 4}));
  EXPECT_EQ(json["role"]["generation"], 9);
  EXPECT_EQ(json["role"]["lan"], Json({0, 3}));
  EXPECT_EQ(json["links"][0]["name"], "cellar");
  EXPECT_EQ(json["links"][0]["rttMs"], 20.0);
  EXPECT_EQ(json["links"][0]["connections"], 2);
  EXPECT_EQ(json["links"][0]["stallRateLimitMs"], 1500.0);
  EXPECT_EQ(json["traffic"]["forward"]["wireSentBytes"], 500);
  EXPECT_EQ(json["traffic"]["forward"]["ratio"], 8.0);
  EXPECT_EQ(json["traffic"]["backward"]["ratio"], 0.0);
  EXPECT_EQ(json["traffic"]["sentWireBytes"], 110);
  EXPECT_EQ(json["traffic"]["receivedWireBytes"], 70);
  EXPECT_EQ(json["limits"]["upBps"], 20'000'000);
  EXPECT_EQ(json["limits"]["downBps"], 0);
  EXPECT_EQ(json["terms"]["reason"], "program");
  EXPECT_EQ(json["terms"]["rules"][0], "paused: steam runs");
  EXPECT_EQ(json["gpu"]["powerWatts"], 287.5);
  EXPECT_EQ(json["gpu"]["powerLimitWatts"], 350.0);
  EXPECT_EQ(json["gpu"]["busyRatio"], 0.7);
  EXPECT_EQ(json["gpu"]["memoryUsedBytes"], 10);
  EXPECT_EQ(json["usage"]["energyJoules"], 7200);
  EXPECT_EQ(json["budget"]["usedBytes"], 212);
  EXPECT_EQ(json["budget"]["limitBytes"], 300);
  EXPECT_EQ(json["pacing"]["mode"], "auto");
  EXPECT_EQ(json["pacing"]["lineBps"], 18'000'000);
  EXPECT_EQ(json["pacing"]["upBps"], 19'000'000);
  EXPECT_EQ(json["deltaStore"]["hits"], 3);
  EXPECT_EQ(json["deltaStore"]["boundaries"][0]["side"], "receiver");
  EXPECT_EQ(json["deltaStore"]["boundaries"][0]["checksum"], "0000000000001234");
  EXPECT_EQ(json["contribution"]["microBatches"], 14);
  EXPECT_EQ(json["swarm"]["epochs"], 1.25);
  EXPECT_EQ(json["swarm"]["targetEpochs"], 4.0);
}

TEST(StatusJson, ShowsScheduleAndBoundsInUse) {
  const Json work = Json::parse(StatusJson(Full()))["work"];
  EXPECT_EQ(work["schedule"], "zero-bubble");
  EXPECT_EQ(work["inFlightMax"], 12);
  EXPECT_EQ(work["pendingWeightsMax"], 9);
  EXPECT_EQ(work["memoryMaxBytes"], 3072);
  EXPECT_EQ(work["simulatedMs"], 6312.5);
  EXPECT_EQ(work["unlimitedMs"], 6249.5);
}

TEST(StatusJson, ShowsWhatEachEndOfABoundaryMeasured) {
  const Json end = Json::parse(StatusJson(Full()))["boundaries"][0];
  EXPECT_EQ(end, Json::parse(R"({"boundary":0,"side":"receiver","mode":"wide delta",
      "relativeDelta":null,"lastRelativeDelta":null,
      "relativeDeltaP90":null,"forwardError":null,"lastForwardError":null,
      "backwardError":0.484375,"lastBackwardError":0.25,
      "firstVisitRatio":0.25,"lastFirstVisitRatio":0.25,
      "deltaHits":3,"firstVisits":1,"resends":2,
      "gradients":{"mode":"delta","relativeDelta":0.125,"relativeDeltaP90":null,
      "firstVisitRatio":0.5,"deltaHits":2,"firstVisits":2,"resends":0},
      "lowRank":{"messages":4,"ratio":0.25,"bitsPerValue":2,"otherBitsPerValue":8,
      "correlation":0.75,"lazy":true}})"));
  StatusSnapshot s = Full();
  s.runner.boundaries[0] = {};
  EXPECT_TRUE(Json::parse(StatusJson(s))["boundaries"][0]["mode"].is_null());
  EXPECT_TRUE(Json::parse(StatusJson(s))["boundaries"][0]["lowRank"].is_null());
  EXPECT_TRUE(Json::parse(StatusJson(s))["boundaries"][0]["gradients"].is_null());
  s.runner.boundaries[0].low_rank.emplace();
  const Json low_rank = Json::parse(StatusJson(s))["boundaries"][0]["lowRank"];
  EXPECT_EQ(low_rank["ratio"], 0.0);
  EXPECT_TRUE(low_rank["lazy"].is_null());
}

// A row without a value is a field that nobody measures.
TEST(StatusJson, HasEachFieldOfTheTable) {
  StatusSnapshot s = Full();
  s.scheduler.addresses = {"h:1"};
  s.synthetic_cpu_ms = 3;
  s.delta_store.lost = 1;
  s.quarantine = {5, "18:40", "weights", 3};
  const auto fields = net::PeerStatusFields();
  EXPECT_EQ(test_support::StatusPaths(StatusJson(s), fields), test_support::TablePaths(fields));
}

// The values that the table lists for a text are those that it may have.
TEST(StatusJson, TheTableListsStatesModesAndActivities) {
  std::string states, modes, activities;
  for (const net::StatusField& field : net::PeerStatusFields()) {
    std::string* const to = field.path == "state"                  ? &states
                            : field.path == "boundaries[].mode"    ? &modes
                            : field.path == "work.time[].activity" ? &activities
                                                                   : nullptr;
    if (to == nullptr) continue;
    for (const auto& [value, label] : net::ValuesOf(field)) *to += std::string(value) + ";";
  }
  std::string expected;
  for (int i = 0; i <= static_cast<int>(PeerState::kStopped); ++i) {
    expected += std::string(PeerStateName(static_cast<PeerState>(i))) + ";";
  }
  EXPECT_EQ(states, expected);
  expected.clear();
  for (std::size_t i = 0; i < pipeline::kActivities; ++i) {
    expected += std::string(pipeline::ActivityName(static_cast<pipeline::Activity>(i))) + ";";
  }
  EXPECT_EQ(activities, expected);
  using Mode = compression::DeltaMode;
  expected.clear();
  for (const Mode mode : {Mode::kDelta, Mode::kWideDelta, Mode::kFull}) {
    expected += std::string(compression::DeltaModeName(mode)) + ";";
  }
  EXPECT_EQ(modes, expected);
}

TEST(StatusJson, WithoutAStageTheRoleIsNull) {
  StatusSnapshot s = Full();
  s.has_stage = false;
  EXPECT_TRUE(Json::parse(StatusJson(s))["role"].is_null());
}

TEST(StatusJson, ADiskThatRefusesAndAFreshStoreAreHealthFindings) {
  StatusSnapshot s = Full();
  s.delta_store.trouble = "the disk is full";
  s.delta_store.lost = 5;
  s.delta_store.notice = "the folder was deleted";
  const Json json = Json::parse(StatusJson(s));
  ASSERT_EQ(json["health"].size(), 2u);
  EXPECT_EQ(json["health"][0]["code"], "delta_store_trouble");
  EXPECT_EQ(json["health"][0]["severity"], "error");
  EXPECT_EQ(json["health"][1]["code"], "delta_store_notice");
  EXPECT_EQ(json["deltaStore"]["lost"], 5);
  EXPECT_NE(MetricsText(s).find("shoal_delta_store_trouble 1"), std::string::npos);
  EXPECT_NE(MetricsText(s).find("shoal_delta_store_dropped_total{reason=\"disk\"} 5"),
            std::string::npos);
  s.delta_store.trouble.clear();
  s.delta_store.notice.clear();
  EXPECT_EQ(Json::parse(StatusJson(s))["health"][0]["code"], "delta_store_lost");
}

TEST(StatusJson, WhatCannotBeReachedIsAHealthFinding) {
  StatusSnapshot s = Full();
  s.runner.boundaries.clear();
  s.scheduler = {false, {"h:1"}, "the scheduler cannot be reached (h:1: no answer)"};
  s.link_trouble = "the link to peer be000000 broke: not reached in time";
  const Json json = Json::parse(StatusJson(s));
  EXPECT_EQ(json["scheduler"]["connected"], false);
  EXPECT_EQ(json["scheduler"]["addresses"][0], "h:1");
  ASSERT_EQ(json["health"].size(), 2u);
  EXPECT_EQ(json["health"][0]["code"], "scheduler_unreachable");
  EXPECT_EQ(json["health"][0]["severity"], "error");
  EXPECT_EQ(json["health"][1]["code"], "neighbour_unreachable");
}

TEST(StatusJson, QuarantineIsAHealthFindingThatSaysWhatToDo) {
  StatusSnapshot s = Full();
  s.runner.boundaries.clear();
  EXPECT_TRUE(Json::parse(StatusJson(s))["quarantine"].is_null());
  s.quarantine = {1700000000123, "18:40", "weights", 3};
  const Json json = Json::parse(StatusJson(s));
  EXPECT_EQ(json["quarantine"]["until"], 1700000000123);
  EXPECT_EQ(json["quarantine"]["kind"], "weights");
  EXPECT_EQ(json["quarantine"]["faults"], 3);
  ASSERT_EQ(json["health"].size(), 1u);
  EXPECT_EQ(json["health"][0]["code"], "quarantine");
  EXPECT_EQ(
      json["health"][0]["text"],
      "in quarantine until 18:40, without a stage: its weights differ from those of its group "
      "(3 times)");
  EXPECT_NE(json["health"][0]["fix"].get<std::string>().find("memory"), std::string::npos);
}

TEST(StatusJson, FreeDiskIsAMetricOnceItIsKnown) {
  StatusSnapshot s = Full();
  s.disk_free_bytes.reset();
  EXPECT_TRUE(Json::parse(StatusJson(s))["diskFreeBytes"].is_null());
  EXPECT_EQ(MetricsText(s).find("shoal_disk_free_bytes"), std::string::npos);
  s.disk_free_bytes = 5000;
  EXPECT_EQ(Json::parse(StatusJson(s))["diskFreeBytes"], 5000);
  EXPECT_NE(MetricsText(s).find("shoal_disk_free_bytes 5000\n"), std::string::npos);
}

TEST(StatusJson, ALinkThatIsDownHasNoRate) {
  StatusSnapshot s = Full();
  s.links[0].send_bps = 8.3e6;
  s.links[0].connected = false;
  EXPECT_EQ(Json::parse(StatusJson(s))["links"][0]["upBps"], 0.0);
}

TEST(StatusJson, UnknownPeersShowTheirShortId) {
  StatusSnapshot s = Full();
  s.names.clear();
  EXPECT_EQ(Json::parse(StatusJson(s))["links"][0]["name"], "be000000");
}

TEST(StatusJson, StaysJsonWithForeignBytesAndNonFiniteNumbers) {
  StatusSnapshot s = Full();
  s.name = "\xff\xfe\"\n";
  s.state_reasons = {"\x80"};
  s.loss = std::numeric_limits<double>::quiet_NaN();
  s.losses = {{1, std::numeric_limits<double>::infinity()}};
  const Json json = Json::parse(StatusJson(s), nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_TRUE(json["swarm"]["loss"].is_null());
}

TEST(StatusJson, WarnsOfASmallQuotaAndADamagedStore) {
  StatusSnapshot s = Full();
  s.runner.boundaries.clear();
  s.budget.delta_store_bytes = 2000;
  s.delta_store.bytes_limit = 1000;
  s.delta_store.corrupt = 2;
  const Json health = Json::parse(StatusJson(s))["health"];
  ASSERT_EQ(health.size(), 2u);
  EXPECT_EQ(health[0]["code"], "delta_store_quota");
  EXPECT_EQ(health[1]["code"], "delta_store_corrupt");
  s.delta_store.bytes_limit = 0;  // no quota
  s.delta_store.corrupt = 0;
  EXPECT_TRUE(Json::parse(StatusJson(s))["health"].empty());
}

TEST(StatusJson, HealthHoldsWhatTheBoundariesSay) {
  StatusSnapshot s = Full();
  s.epochs = 1.75;
  const Json health = Json::parse(StatusJson(s))["health"];
  ASSERT_EQ(health.size(), 2u);  // of activations, and of gradients
  for (const Json& entry : health) {
    EXPECT_EQ(entry["code"], "delta_store_misses");
    EXPECT_EQ(entry["severity"], "warning");
    EXPECT_FALSE(entry["fix"].get<std::string>().empty());
  }
}

TEST(TrafficTotals, AddUpOverGenerations) {
  pipeline::RunnerStats stats;
  stats.forward = {8, 1, 80, 10};
  stats.replica.wire_sent = 5;
  stats.micro_batches_done = 3;
  stats.resends = 1;
  net::LinkStats link;
  link.sent_wire_bytes = 100;
  link.received_wire_bytes = 7;
  TrafficTotals totals;
  AddRunner(stats, {link, link}, &totals);
  AddRunner(stats, {link}, &totals);
  EXPECT_EQ(totals.forward.raw_sent, 16u);
  EXPECT_EQ(totals.forward.wire_sent, 2u);
  EXPECT_EQ(totals.forward.raw_received, 160u);
  EXPECT_EQ(totals.forward.wire_received, 20u);
  EXPECT_EQ(totals.replica.wire_sent, 10u);
  EXPECT_EQ(totals.micro_batches, 6u);
  EXPECT_EQ(totals.resends, 2u);
  EXPECT_EQ(totals.link_sent_wire_bytes, 300u);
  EXPECT_EQ(totals.link_received_wire_bytes, 21u);
}

TEST(MetricsText, IsWellFormed) {
  StatusSnapshot s = Full();
  s.links[0].channel = "od\"d\\na\nme";
  std::istringstream lines(MetricsText(s));
  const std::string label = R"re([a-z_]+="([^"\\\n]|\\["\\n])*")re";
  const std::regex sample("([a-z_][a-z0-9_]*)(\\{" + label + "(," + label +
                          ")*\\})? ([-+0-9.e]+|NaN|[+-]Inf)");
  std::set<std::string> helped;
  std::set<std::string> typed;
  std::set<std::string> series;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first, kind, name, type;
    words >> first >> kind >> name >> type;
    if (first == "#") {
      EXPECT_TRUE((kind == "HELP" ? helped : typed).insert(name).second) << line;
      if (kind == "TYPE" && type == "counter") {
        EXPECT_TRUE(name.ends_with("_total")) << line;
      }
      continue;
    }
    std::smatch match;
    ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
    EXPECT_EQ(helped.count(match[1]), 1u) << line;
    EXPECT_EQ(typed.count(match[1]), 1u) << line;
    EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << "twice: " << line;
  }
  EXPECT_GT(series.size(), 30u);
}

TEST(MetricsText, HoldsMeasuredValuesInBaseUnits) {
  const std::string text = MetricsText(Full());
  EXPECT_THAT(text, HasSubstr("shoal_build_info{version=\"1.2.3\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("shoal_peer_state{state=\"training\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("shoal_peer_state{state=\"idle\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("shoal_sent_payload_bytes_total{kind=\"activation\"} 500\n"));
  EXPECT_THAT(text, HasSubstr("shoal_sent_uncompressed_bytes_total{kind=\"activation\"} 4000\n"));
  EXPECT_THAT(text, HasSubstr("shoal_stage_seconds_total{activity=\"forward\"} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("shoal_link_rtt_seconds{peer=\"be000000\",channel=\"boundary/0/0\"} "
                              "0.02\n"));
  EXPECT_THAT(text, HasSubstr("reason=\"rate_limit\"} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("shoal_boundary_backward_error{boundary=\"0\",side=\"receiver\"} "
                              "0.484375\n"));
  EXPECT_THAT(text, HasSubstr("shoal_boundary_mode{boundary=\"0\",side=\"receiver\","
                              "mode=\"wide delta\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("mode=\"full\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("shoal_boundary_first_visits_total{boundary=\"0\","
                              "side=\"receiver\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("shoal_boundary_low_rank_ratio{boundary=\"0\",side=\"receiver\"} "
                              "0.25\n"));
  EXPECT_THAT(text, HasSubstr("shoal_boundary_activation_correlation{boundary=\"0\","
                              "side=\"receiver\"} 0.75\n"));
  EXPECT_THAT(text, Not(HasSubstr("shoal_boundary_relative_delta"))) << "nothing was measured";
  EXPECT_THAT(MetricsText(StatusSnapshot{}), Not(HasSubstr("shoal_link_")));
  EXPECT_THAT(MetricsText(StatusSnapshot{}), Not(HasSubstr("shoal_boundary_")));
}

TEST(MetricsText, PromtoolAccepts) {
  if (std::system("promtool --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no promtool";
  const TemporaryFolder folder;
  for (const StatusSnapshot& snapshot : {StatusSnapshot{}, Full()}) {
    ASSERT_TRUE(WriteFileAtomic(folder.path() + "/metrics", MetricsText(snapshot)).ok());
    const std::string command =
        "promtool check metrics < " + folder.path() + "/metrics > " + folder.path() + "/said 2>&1";
    const int code = std::system(command.c_str());
    EXPECT_EQ(code, 0) << ReadFile(folder.path() + "/said", 1 << 20).value();
  }
}

}  // namespace
}  // namespace shoal::daemon
