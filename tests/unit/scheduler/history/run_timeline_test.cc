#include "scheduler/history/run_timeline.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/unit/scheduler/history/ledger_events.h"

namespace shoal::scheduler {
namespace {

using Kind = TimelineEntry::Kind;

// An event every second, from 1000 ms on.
std::vector<TimedEvent> Stamped(std::initializer_list<StoredEvent> events) {
  std::vector<TimedEvent> log = Log(events);
  std::uint64_t at_ms = 0;
  for (TimedEvent& timed : log) timed.at_ms = at_ms += 1000;
  return log;
}

std::vector<TimelineEntry> Repairs(const std::vector<TimedEvent>& log, std::uint32_t stages = 2) {
  std::vector<TimelineEntry> repairs = MakeTimeline(log, stages).entries();
  std::erase_if(repairs, [](const TimelineEntry& e) { return e.kind != Kind::kRepair; });
  return repairs;
}

TEST(RunTimeline, TellsInOrderWhatHappened) {
  const std::vector<TimelineEntry> entries =
      MakeTimeline(
          Stamped({RunBegan{}, RunStarted{}, MemberCame{Host(1), "anna"},
                   PlanMade{1, 0, Hosts({1})}, Losses(0, 1), PipelinesCount{3, {0}},
                   PipelinesCount{4, {0}, 0, "it only followed", {{1, 0}}},
                   StepSkipped{1, "not finite"}, Losses(1, 1), CheckpointMade{2, {}},
                   MemberGone{Host(1), "anna", "why", 7}, RunHeld{"paused"},
                   GenerationEnded{2, "a link"}, GenerationEnded{2, "lost anna"},
                   RunHeld{"paused so"}, SchedulerStarted{}, RunReleased{}, RunFinished{2}}),
          1)
          .entries();
  std::vector<std::pair<Kind, std::uint64_t>> seen;
  for (const TimelineEntry& entry : entries) seen.emplace_back(entry.kind, *entry.at_ms / 1000);
  EXPECT_EQ(seen, (std::vector<std::pair<Kind, std::uint64_t>>{{Kind::kBegan, 1},
                                                               {Kind::kJoined, 3},
                                                               {Kind::kRepair, 4},
                                                               {Kind::kCounting, 6},
                                                               {Kind::kSkipped, 8},
                                                               {Kind::kLeft, 11},
                                                               {Kind::kPaused, 12},
                                                               {Kind::kEnded, 13},
                                                               {Kind::kScheduler, 16},
                                                               {Kind::kResumed, 17},
                                                               {Kind::kFinished, 18}}));
  EXPECT_EQ(entries[1].name, "anna");
  EXPECT_EQ(entries[5].peer, Host(1));
  EXPECT_EQ(entries[5].text, "why");
  EXPECT_EQ(entries[5].unstored, 7u);
  EXPECT_EQ(entries[6].text, "paused so");
  EXPECT_EQ(entries[7].text, "lost anna") << "who was behind it is known last";
  EXPECT_EQ(entries[7].repair.generation, 1u);
}

// What is known of its steps' times goes on as if the scheduler had not died.
TEST(RunTimeline, AGenerationGoesOnBehindARestart) {
  const std::vector<TimelineEntry> entries =
      MakeTimeline(
          Stamped({PlanMade{1, 0, Hosts({1})}, Losses(0, 3), SchedulerStarted{}, Losses(3, 1),
                   GenerationGoesOn{4}, Losses(4, 2), GenerationEnded{6, "why", 500},
                   PlanMade{2, 6, Hosts({1})}, Losses(6, 1)}),
          1)
          .entries();
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(entries[2].kind, Kind::kGoesOn);
  EXPECT_EQ(entries[2].step, 4u);
  EXPECT_EQ(entries[3].kind, Kind::kEnded);
  EXPECT_EQ(entries[4].repair.steps_before, StepsBefore::kKept);
  EXPECT_EQ(entries[4].repair.seconds_without_step, 2.5);
}

TEST(RunTimeline, TellsWhatBecameOfTheSteps) {
  const auto fate = [](std::initializer_list<StoredEvent> events) {
    const auto last = Repairs(Stamped(events)).back().repair;
    return std::pair(last.steps_before, last.steps_lost);
  };
  const PlanMade first{1, 0, Hosts({1, 2})};
  using Fate = std::pair<StepsBefore, std::uint64_t>;
  EXPECT_EQ(fate({first}), Fate(StepsBefore::kNone, 0));
  EXPECT_EQ(fate({first, Losses(0, 9), CheckpointMade{5, {}}, GenerationEnded{9, ""},
                  PlanMade{2, 5, Hosts({1, 2})}}),
            Fate(StepsBefore::kTrainedAgain, 4));
  EXPECT_EQ(fate({first, Losses(0, 9), CheckpointMade{5, {}}, GenerationEnded{9, ""},
                  CheckpointMade{9, {}}, PlanMade{2, 9, Hosts({1, 2})}}),
            Fate(StepsBefore::kSaved, 0));
  EXPECT_EQ(fate({first, Losses(0, 9), CheckpointMade{5, {}}, GenerationEnded{9, ""},
                  PlanMade{2, 9, Hosts({1, 2})}}),
            Fate(StepsBefore::kKept, 0));
  EXPECT_EQ(fate({first, Losses(0, 9), CheckpointMade{9, {}}, GenerationEnded{9, ""},
                  PlanMade{2, 9, Hosts({1, 2})}}),
            Fate(StepsBefore::kCheckpointed, 0));
  // The scheduler died: nobody stored how the generation ended, and peers knew two more losses.
  EXPECT_EQ(fate({first, Losses(0, 9), CheckpointMade{5, {}}, SchedulerStarted{}, Losses(9, 2),
                  CheckpointMade{11, {}}, PlanMade{2, 11, Hosts({1, 2})}}),
            Fate(StepsBefore::kSaved, 0));
  // An older version stored neither.
  EXPECT_EQ(fate({first, Losses(0, 9), CheckpointMade{9, {}}, PlanMade{2, 9, Hosts({1, 2})}}),
            Fate(StepsBefore::kCheckpointed, 0));
}

TEST(RunTimeline, TellsThatARunWasRestored) {
  const auto log =
      Stamped({RunBegan{}, PlanMade{1, 0, Hosts({1, 2})}, Losses(0, 5), CheckpointMade{3, {}},
               Losses(5, 1), RunRestored{3, 1001}, PlanMade{1002, 3, Hosts({1, 2})}, Losses(3, 1)});
  const std::vector<TimelineEntry> entries = MakeTimeline(log, 2).entries();
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[2].kind, Kind::kRestored);
  EXPECT_EQ(entries[2].step, 3u);
  EXPECT_EQ(entries[3].repair.steps_before, StepsBefore::kTrainedAgain);
  EXPECT_EQ(entries[3].repair.steps_lost, 3u);
  EXPECT_FALSE(entries[3].repair.seconds_without_step) << "the clocks are those of two machines";
}

TEST(RunTimeline, TellsHowLongThereWasNoStep) {
  const auto repairs = Repairs(Stamped({
      PlanMade{1, 0, Hosts({1, 2})},   // 1 s
      Losses(0, 1),                    // 2
      Losses(1, 8),                    // 3
      GenerationEnded{9, "", 400},     // 4: its last step was at 3.6
      PlanMade{2, 9, Hosts({1, 2})},   // 5
      GenerationEnded{9, ""},          // 6: it made no step
      PlanMade{3, 9, Hosts({1, 2})},   // 7
      Losses(9, 1),                    // 8
      Losses(10, 4),                   // 9
      SchedulerStarted{},              // 10
      Losses(14, 3),                   // 11: peers knew them
      PlanMade{4, 17, Hosts({1, 2})},  // 12
      Losses(17, 1),                   // 13
  }));
  ASSERT_EQ(repairs.size(), 4u);
  EXPECT_FALSE(repairs[0].repair.seconds_without_step) << "there was none before";
  EXPECT_FALSE(repairs[1].repair.seconds_without_step) << "it made none";
  EXPECT_DOUBLE_EQ(repairs[2].repair.seconds_without_step.value(), 4.4);
  EXPECT_FALSE(repairs[2].repair.at_most);
  EXPECT_DOUBLE_EQ(repairs[3].repair.seconds_without_step.value(), 4);
  EXPECT_TRUE(repairs[3].repair.at_most) << "the last step came at some time after 9 s";
  EXPECT_EQ(repairs[3].repair.steps_before, StepsBefore::kKept);
}

TEST(RunTimeline, AClockThatGoesBackGivesNoNegativeTimes) {
  auto log = Stamped({PlanMade{1, 0, Hosts({1, 2})}, Losses(0, 1), GenerationEnded{1, "", 9000},
                      PlanMade{2, 1, Hosts({1, 2})}, Losses(1, 1)});
  EXPECT_DOUBLE_EQ(Repairs(log).back().repair.seconds_without_step.value(), 5);
  log.back().at_ms = 0;
  EXPECT_DOUBLE_EQ(Repairs(log).back().repair.seconds_without_step.value(), 0);
}

TEST(RunTimeline, AnOlderLogHasNoTimes) {
  const auto repairs = Repairs(Log(
      {PlanMade{1, 0, Hosts({1, 2})}, Losses(0, 1), PlanMade{2, 1, Hosts({1, 2})}, Losses(1, 1)}));
  EXPECT_FALSE(repairs[1].at_ms);
  EXPECT_FALSE(repairs[1].repair.seconds_without_step);
}

TEST(RunTimeline, TellsWhoReplacedWhom) {
  const auto log = Stamped({PlanMade{1, 0, Hosts({1, 2, 3, 4})}, PlanMade{2, 0, Hosts({1, 5})},
                            PlanMade{3, 0, Hosts({1, 5, 3, 4})}});
  const auto repairs = Repairs(log);
  EXPECT_TRUE(repairs[0].repair.changes.empty());
  EXPECT_EQ(repairs[0].repair.pipelines, 2u);
  const auto& second = repairs[1].repair.changes;
  ASSERT_EQ(second.size(), 3u);
  EXPECT_EQ(second[0].stage, 1u);
  EXPECT_EQ(second[0].from, Host(2));
  EXPECT_EQ(second[0].to, Host(5));
  EXPECT_EQ(second[1].pipeline, 1u);
  EXPECT_EQ(second[1].from, Host(3));
  EXPECT_FALSE(second[1].to);
  const auto& third = repairs[2].repair.changes;
  ASSERT_EQ(third.size(), 2u);
  EXPECT_FALSE(third[0].from);
  EXPECT_EQ(third[1].to, Host(4));
  EXPECT_TRUE(Repairs(log, 0)[1].repair.changes.empty()) << "stages are not known";
}

TEST(RunTimeline, APipelineWithAGapIsNotCounted) {
  std::vector<PeerId> gap = Hosts({1, 2, 3, 4});
  gap[2] = PeerId{};
  const auto repairs = Repairs(Stamped({PlanMade{1, 0, Hosts({1, 2, 3, 4})}, PlanMade{2, 0, gap},
                                        PlanMade{3, 0, Hosts({1, 2, 5, 4})}}));
  EXPECT_EQ(repairs[1].repair.pipelines, 1u);
  ASSERT_EQ(repairs[1].repair.changes.size(), 1u);
  EXPECT_EQ(repairs[1].repair.changes[0].from, Host(3));
  EXPECT_FALSE(repairs[1].repair.changes[0].to);
  ASSERT_EQ(repairs[2].repair.changes.size(), 1u);
  EXPECT_FALSE(repairs[2].repair.changes[0].from);
  EXPECT_EQ(repairs[2].repair.pipelines, 2u);
}

TEST(RunTimeline, KnowsMembersByTheirLastName) {
  const auto names = MemberNames(
      Log({MemberCame{Host(1), "anna"}, MemberCame{Host(2), "berta"}, MemberCame{Host(1), "ann"}}));
  EXPECT_EQ(names.size(), 2u);
  EXPECT_EQ(names.at(Host(1)), "ann");
}

}  // namespace
}  // namespace shoal::scheduler
