#include "scheduler/swarm/lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scheduler/config/swarm_limits.h"
#include "unit/scheduler/swarm/swarm_parts.h"

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Lifecycle, AnInterruptionSaysWhatItUndoesAndWaits) {
  SwarmParts parts(1, 1);
  parts.Join(1);
  parts.Train();
  parts.Apply(3);
  parts.lifecycle.Interrupt("a cause", {false});
  EXPECT_EQ(parts.lifecycle.state(), RunState::kPaused);
  EXPECT_EQ(parts.lifecycle.cause(), "a cause; 3 steps since the start are trained again");
  EXPECT_THAT(parts.ends, ElementsAre(parts.lifecycle.cause()));
  EXPECT_FALSE(parts.lifecycle.MayPlan());
  parts.Wait(kBackoffFirst);
  EXPECT_TRUE(parts.lifecycle.MayPlan());
  // Between generations there is nothing to interrupt.
  parts.lifecycle.Interrupt("another");
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("a cause"));
  EXPECT_EQ(parts.ends.size(), 1u);
}

TEST(Lifecycle, StoresWhyAGenerationEndedAndWhoWasBehindIt) {
  SwarmParts parts(1, 1);
  parts.Join(1);
  parts.Train();
  parts.Apply(3);
  parts.Take<Persist>();
  const auto ends = [&parts] {
    std::vector<GenerationEnded> all;
    for (const Persist& persist : parts.Take<Persist>()) {
      const StoredEvent event = *DecodeEvent(persist.event);
      if (const auto* const ended = std::get_if<GenerationEnded>(&event)) all.push_back(*ended);
    }
    return all;
  };
  parts.Wait(std::chrono::milliseconds(1500));
  parts.lifecycle.Interrupt("a link broke");
  const auto first = ends();
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].step, 3u);
  EXPECT_EQ(first[0].cause, "a link broke") << "without what becomes of the steps";
  EXPECT_EQ(first[0].idle_ms, 1500u);
  parts.lifecycle.Interrupt("another");
  EXPECT_TRUE(ends().empty()) << "nothing ended";
  parts.lifecycle.Lost(SimPeerId(1), "lost anna");
  const auto second = ends();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].cause, "lost anna");
  parts.lifecycle.Lost(SimPeerId(1), "lost berta");
  EXPECT_TRUE(ends().empty()) << "once, however often a member flaps";
}

TEST(Lifecycle, NothingIsPlannedWhileStepsAreAwaitedOrSaved) {
  SwarmParts parts(1, 1);
  parts.Join(1);
  parts.Train();
  parts.Apply(3);
  parts.lifecycle.Interrupt("a cause");
  EXPECT_EQ(parts.lifecycle.cause(),
            "a cause; 3 steps since the start are kept: the peers that are here hold them");
  EXPECT_THAT(parts.ends, ElementsAre(parts.lifecycle.cause()));
  parts.Wait(std::chrono::hours(1));
  EXPECT_TRUE(parts.lifecycle.MayPlan());
  parts.lifecycle.SetStepsFate(StepsFate::kAwaited, "");
  EXPECT_EQ(parts.lifecycle.cause(),
            "a cause; 3 steps since the start are kept if peers that hold them come back");
  EXPECT_FALSE(parts.lifecycle.MayPlan());
  parts.lifecycle.SetStepsFate(StepsFate::kBeingSaved, "");
  EXPECT_EQ(parts.lifecycle.cause(),
            "a cause; 3 steps since the start are being saved by those who are left");
  EXPECT_FALSE(parts.lifecycle.MayPlan());
  parts.lifecycle.SetStepsFate(StepsFate::kTrainedAgain, "peer anna cannot save");
  EXPECT_EQ(parts.lifecycle.cause(),
            "a cause; 3 steps since the start are trained again (they could not be saved: peer "
            "anna cannot save)");
  EXPECT_TRUE(parts.lifecycle.MayPlan());
  parts.journal.Record(CheckpointMade{3, {}});
  parts.lifecycle.SetStepsFate(StepsFate::kSaved, "");
  EXPECT_EQ(parts.lifecycle.cause(), "a cause; no step is lost");
  EXPECT_TRUE(parts.lifecycle.MayPlan());
}

TEST(Lifecycle, InterruptionsWithoutProgressHoldTheRun) {
  SwarmParts parts(1, 1);
  parts.Join(1);
  for (std::uint32_t i = 0; i < kFailuresMax; ++i) {
    EXPECT_FALSE(parts.history.held());
    parts.Train();
    parts.lifecycle.InterruptUncounted("a rumour");
    parts.Train();
    parts.lifecycle.Interrupt("it broke");
  }
  EXPECT_TRUE(parts.history.held());
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("interruption 5 in a row"));
  parts.Wait(std::chrono::hours(1));
  EXPECT_FALSE(parts.lifecycle.MayPlan());
  parts.lifecycle.OrderResume();
  EXPECT_TRUE(parts.lifecycle.MayPlan());
}

TEST(Lifecycle, AConfirmedRumourCountsAsAFailure) {
  SwarmParts parts(1, 1);
  parts.Join(1);
  for (std::uint32_t i = 0; i < kFailuresMax; ++i) {
    EXPECT_FALSE(parts.history.held());
    parts.Train();
    parts.lifecycle.InterruptUncounted("a rumour");
    parts.lifecycle.Confirm("it is true");
  }
  EXPECT_TRUE(parts.history.held());
}

TEST(Lifecycle, ALostMemberRenamesTheCauseOfAPause) {
  SwarmParts parts(1, 1);
  parts.Join(1);
  parts.Train();
  parts.lifecycle.Interrupt("a link broke");
  parts.lifecycle.Lost(SimPeerId(1), "lost anna");
  EXPECT_EQ(parts.lifecycle.cause(), "lost anna");
  EXPECT_EQ(parts.ends.size(), 1u);
  parts.lifecycle.Hold("paused");
  parts.lifecycle.Lost(SimPeerId(1), "lost berta");
  EXPECT_EQ(parts.lifecycle.cause(), "paused") << "what holds the run stays";
}

TEST(Lifecycle, AnEndingWaitsForACheckpointOfNewerSteps) {
  SwarmParts parts(1, 1);
  parts.Join(1);
  parts.Train();
  parts.Apply(4);
  parts.lifecycle.EndSoon("anna hands over");
  parts.lifecycle.EndSoon("berta hands over");
  ASSERT_TRUE(parts.lifecycle.ending());
  EXPECT_EQ(parts.lifecycle.ending()->cause, "anna hands over");
  EXPECT_FALSE(parts.lifecycle.EndsWith(4));
  EXPECT_TRUE(parts.lifecycle.EndsWith(5));
  parts.lifecycle.CheckpointWhole(4);
  EXPECT_TRUE(parts.lifecycle.active());
  parts.Apply(1);
  parts.lifecycle.PostponeEnding();  // that of step 5 failed
  parts.lifecycle.CheckpointWhole(5);
  EXPECT_TRUE(parts.lifecycle.active());
  parts.Apply(1);
  parts.journal.Record(CheckpointMade{6, {}});
  parts.lifecycle.CheckpointWhole(6);
  EXPECT_FALSE(parts.lifecycle.active());
  EXPECT_FALSE(parts.lifecycle.ending());
  EXPECT_TRUE(parts.lifecycle.MayPlan()) << "at once";
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("anna hands over"));
}

TEST(Lifecycle, APauseHoldsTheRunWhateverEndsTheGeneration) {
  SwarmParts parts(1, 1);
  parts.Join(1);
  parts.Train();
  parts.lifecycle.EndSoon("anna hands over");
  parts.lifecycle.OrderPause();
  EXPECT_TRUE(parts.lifecycle.active());
  EXPECT_FALSE(parts.history.held()) << "not before its checkpoint";
  parts.lifecycle.Interrupt("it broke");
  EXPECT_TRUE(parts.history.held());
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("a pause was ordered before that"));

  parts.lifecycle.OrderResume();
  parts.Train();
  parts.lifecycle.OrderPause();
  parts.Apply(1);
  parts.lifecycle.CheckpointWhole(1);
  EXPECT_TRUE(parts.history.held());
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("paused by the organiser"));
}

TEST(Lifecycle, APauseIsTakenBackWhileItWaits) {
  SwarmParts parts(1, 1);
  parts.Join(1);
  parts.Train();
  EXPECT_FALSE(parts.lifecycle.CancelPause());
  parts.lifecycle.EndSoon("anna hands over");
  EXPECT_FALSE(parts.lifecycle.CancelPause()) << "that is no pause";
  parts.lifecycle.OrderPause();
  EXPECT_TRUE(parts.lifecycle.CancelPause());
  EXPECT_FALSE(parts.lifecycle.ending());
  parts.lifecycle.OrderPause();
  parts.lifecycle.Interrupt("it broke");
  EXPECT_FALSE(parts.lifecycle.CancelPause()) << "it waits no more";
}

TEST(Lifecycle, BeforeTheFirstStepAPauseComesAtOnce) {
  SwarmParts parts(1, 1);
  parts.Join(1);
  parts.Prepare();
  parts.lifecycle.OrderPause();
  EXPECT_FALSE(parts.lifecycle.active());
  EXPECT_TRUE(parts.history.held());
}

TEST(Lifecycle, AFailedOrFinishedRunStaysSo) {
  SwarmParts failed(1, 1);
  failed.lifecycle.Fail("no such model");
  EXPECT_EQ(failed.lifecycle.state(), RunState::kFailed);
  EXPECT_THAT(failed.lifecycle.cause(), HasSubstr("correct run.toml"));
  failed.lifecycle.Hold("a pause");
  failed.lifecycle.OrderPause();
  EXPECT_FALSE(failed.history.held());
  EXPECT_FALSE(failed.lifecycle.MayPlan());

  SwarmParts finished(1, 1);
  finished.Join(1);
  finished.Train();
  EXPECT_TRUE(finished.lifecycle.Complete());
  EXPECT_FALSE(finished.lifecycle.Complete());
  EXPECT_EQ(finished.lifecycle.state(), RunState::kFinished);
}

TEST(Lifecycle, ARestartPausesAndNamesWhatHeldTheRun) {
  SwarmParts parts(1, 1);
  parts.lifecycle.Restore(PlanMade{1, 0});
  EXPECT_EQ(parts.lifecycle.state(), RunState::kPaused);
  EXPECT_EQ(parts.lifecycle.cause(), "the scheduler was started again");
  parts.lifecycle.Restore(RunHeld{"paused by anna"});
  EXPECT_EQ(parts.lifecycle.cause(), "paused by anna");
  parts.lifecycle.Restore(RunReleased{});
  EXPECT_EQ(parts.lifecycle.cause(), "the scheduler was started again");
  parts.lifecycle.Restore(RunFinished{parts.config.steps - 1});
  EXPECT_EQ(parts.lifecycle.state(), RunState::kPaused) << "the run has more steps now";
  parts.lifecycle.Restore(RunFinished{parts.config.steps});
  EXPECT_EQ(parts.lifecycle.state(), RunState::kFinished);
}

}  // namespace
}  // namespace shoal::scheduler
