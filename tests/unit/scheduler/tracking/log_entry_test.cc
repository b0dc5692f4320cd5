#include "scheduler/tracking/log_entry.h"

#include <gtest/gtest.h>

#include <limits>

#include <nlohmann/json.hpp>

#include "common/version.h"

namespace shoal::scheduler {
namespace {

using Json = nlohmann::json;

Json Parsed(const LogEntry& entry) {
  EXPECT_EQ(entry.json.find('\n'), std::string::npos);
  return Json::parse(entry.json);
}

std::map<std::string, double> ByTag(const LogEntry& entry) {
  std::map<std::string, double> values;
  for (const LoggedScalar& scalar : entry.scalars) values[std::string(scalar.tag)] = scalar.value;
  return values;
}

Json EventOf(const StoredEvent& event, std::uint64_t step = 9) {
  const auto entry = MakeEventEntry(event, step, 2, 5000);
  return entry ? Parsed(*entry) : Json();
}

TEST(LogEntryTest, AStepHasItsFigures) {
  LoggedStep step{12, 3.5, LoggedStep::Figures{2, 0.25, 16, 1e-3, 0.75, 2, false}};
  const LogEntry entry = MakeStepEntry(step, 1234);
  EXPECT_EQ(Parsed(entry), Json::parse(R"({"kind":"step","time":1234,"step":12,"loss":3.5,
      "stepSeconds":2.0,"controlSeconds":0.25,"samplesPerSecond":8.0,"learningRate":0.001,
      "gradientNorm":0.75,"pipelines":2})"));
  EXPECT_EQ(ByTag(entry), (std::map<std::string, double>{{"loss/train", 3.5},
                                                         {"time/step_s", 2},
                                                         {"time/control_s", 0.25},
                                                         {"rate/samples_per_s", 8},
                                                         {"optimizer/learning_rate", 1e-3},
                                                         {"optimizer/gradient_norm", 0.75},
                                                         {"swarm/pipelines", 2}}));
  EXPECT_EQ(entry.step, 12u);
  EXPECT_EQ(entry.at_ms, 1234u);
}

TEST(LogEntryTest, WhatIsNotKnownOrNotFiniteIsLeftOut) {
  EXPECT_EQ(Parsed(MakeStepEntry({3, 1.5, {}}, 7)),
            Json::parse(R"({"kind":"step","time":7,"step":3,"loss":1.5})"));
  LoggedStep lost{3, std::numeric_limits<double>::infinity(), LoggedStep::Figures{}};
  lost.figures->skipped = true;
  const auto values = ByTag(MakeStepEntry(lost, 7));
  EXPECT_FALSE(values.contains("loss/train"));
  EXPECT_FALSE(values.contains("rate/samples_per_s")) << "a step of no time has no rate";
  EXPECT_FALSE(values.contains("optimizer/gradient_norm"));
}

TEST(LogEntryTest, EventsHaveTheWordsOfTheTimeline) {
  PeerId peer;
  peer.key[0] = 0xab;
  EXPECT_EQ(EventOf(MemberCame{peer, "an\"na\xff", 1}), (Json{{"kind", "joined"},
                                                              {"time", 5000},
                                                              {"step", 9},
                                                              {"peer", peer.ToHex()},
                                                              {"name", "an\"na\xef\xbf\xbd"},
                                                              {"unstored", 1}}));
  EXPECT_EQ(EventOf(MemberGone{peer, "anna", "left", 0}), (Json{{"kind", "left"},
                                                                {"time", 5000},
                                                                {"step", 9},
                                                                {"peer", peer.ToHex()},
                                                                {"name", "anna"},
                                                                {"reason", "left"},
                                                                {"unstored", 0}}));
  EXPECT_EQ(EventOf(GenerationEnded{9, "anna is gone", {}}), (Json{{"kind", "ended"},
                                                                   {"time", 5000},
                                                                   {"step", 9},
                                                                   {"generation", 2},
                                                                   {"reason", "anna is gone"}}));
  EXPECT_EQ(EventOf(PipelinesCount{9, {0, 2}, 0, "it only followed", {{1, 0}}}), Json());
  EXPECT_EQ(EventOf(PipelinesCount{9, {0, 2}, 0, "anna is gone"}),
            (Json{{"kind", "counting"},
                  {"time", 5000},
                  {"step", 9},
                  {"pipelines", {0, 2}},
                  {"reason", "anna is gone"}}));
  CheckpointMade made{8, {}};
  made.files.emplace_back().set_size(5);
  made.files.emplace_back().set_size(6);
  EXPECT_EQ(EventOf(made), (Json{{"kind", "checkpoint"},
                                 {"time", 5000},
                                 {"step", 9},
                                 {"checkpointStep", 8},
                                 {"bytes", 11}}));
  EXPECT_EQ(EventOf(RunHeld{"told to"}),
            (Json{{"kind", "paused"}, {"time", 5000}, {"step", 9}, {"reason", "told to"}}));
  EXPECT_EQ(EventOf(RunFinished{9})["kind"], "finished");
  EXPECT_EQ(EventOf(InviteMade{}), Json()) << "nothing for people";
}

TEST(LogEntryTest, AHeldOutLossIsAScalar) {
  const auto entry = MakeEventEntry(HeldOutMeasured{4, 2.5}, 9, 1, 5000);
  ASSERT_TRUE(entry);
  EXPECT_EQ(Parsed(*entry),
            Json::parse(R"({"kind":"held_out","time":5000,"step":4,"heldOutLoss":2.5})"));
  EXPECT_EQ(ByTag(*entry), (std::map<std::string, double>{{"loss/held_out", 2.5}}));
  EXPECT_EQ(entry->step, 4u);
}

TEST(LogEntryTest, GoingBackMakesStepsVoid) {
  // Three positions, one of which nobody has.
  const PlanMade plan{3, 6, {PeerId{{1}}, PeerId{}, PeerId{{2}}}};
  const auto back = MakeEventEntry(plan, 9, 2, 5000);
  ASSERT_TRUE(back);
  EXPECT_EQ(Parsed(*back), (Json{{"kind", "generation"},
                                 {"time", 5000},
                                 {"step", 6},
                                 {"generation", 3},
                                 {"stepsLost", 3},
                                 {"peers", 2}}));
  EXPECT_EQ(back->void_from, 7u);
  EXPECT_FALSE(MakeEventEntry(PlanMade{3, 9, {}}, 9, 2, 5000)->void_from);
}

TEST(LogEntryTest, TheFirstLineNamesRunAndVersion) {
  const LogEntry opened = MakeOpenedEntry(RunId{0x77}, "my run", 100, 3, 5);
  EXPECT_EQ(opened.void_from, 4u);
  EXPECT_EQ(Parsed(opened), (Json{{"kind", "opened"},
                                  {"time", 5},
                                  {"step", 3},
                                  {"schemaVersion", 1},
                                  {"program", "shoal-scheduler"},
                                  {"version", kVersion},
                                  {"run", "0000000000000077"},
                                  {"name", "my run"},
                                  {"steps", 100}}));
}

}  // namespace
}  // namespace shoal::scheduler
