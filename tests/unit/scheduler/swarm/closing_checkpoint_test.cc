#include "scheduler/swarm/closing_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scheduler/config/swarm_limits.h"
#include "unit/scheduler/swarm/swarm_parts.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

// Two stages in two pipelines that trained three steps.
struct Trained : SwarmParts {
  Trained() : SwarmParts(2, 2) {
    JoinAll(4);
    Train();
    Apply(3);
  }
  void Lose(Member* member) { members.Close(member->connection); }
  // Whoever is here and trusted holds the steps, and is to save them.
  bool Close(const Keep& keep = {}) {
    lifecycle.Interrupt("a link broke", keep);
    return closing.saving() || closing.Begin(3, step_seconds);
  }
  // By pipeline, then stage: "-" is told nothing of it, "s" saves.
  std::string Roles() const {
    std::string roles;
    for (std::uint32_t p = 0; p < 2; ++p) {
      for (std::uint32_t s = 0; s < 2; ++s) {
        control::v1::Abort abort;
        closing.Fill(*plan.At(p, s), &abort);
        roles += !abort.save() || abort.hold_step() != 3 ? "-" : "s";
      }
    }
    return roles;
  }
  void Save(std::uint32_t pipeline, std::uint32_t stage) {
    uploads.OnDone(&At(pipeline, stage), SavedFiles(stage, 3));
  }
  void Fail(std::uint32_t pipeline, std::uint32_t stage) {
    control::v1::CheckpointDone done;
    done.set_generation(history.generation());
    done.set_step(3);
    done.set_error("no space");
    uploads.OnDone(&At(pipeline, stage), done);
    Look();
  }
  void Look() {
    for (const PeerId& peer : members.TakeMoved()) uploads.OnMoved(peer);
    uploads.Look();
    closing.Look();
  }
  void Bring() {
    BringWanted();
    closing.Look();
  }
};

TEST(ClosingCheckpoint, WhoHoldsTheStepSavesItAndSharesTheUploadOut) {
  Trained run;
  run.Lose(&run.At(0, 1));
  run.lifecycle.Interrupt("lost one");
  ASSERT_TRUE(run.closing.saving());
  EXPECT_EQ(run.Roles(), "s-ss");
  run.Save(1, 1);
  run.Save(1, 0);
  run.Bring();
  EXPECT_TRUE(run.closing.saving()) << "one still saves";
  run.Save(0, 0);
  run.Bring();
  EXPECT_FALSE(run.closing.saving());
  EXPECT_EQ(run.history.checkpoint().step, 3u);
  EXPECT_EQ(run.history.checkpoint().files.size(), 12u);
  EXPECT_EQ(run.lifecycle.cause(), "lost one; no step is lost");
}

TEST(ClosingCheckpoint, OthersSaveForOneThatCannotOrGoes) {
  Trained run;
  ASSERT_TRUE(run.Close());
  run.Fail(0, 1);
  EXPECT_TRUE(run.closing.saving());
  EXPECT_EQ(run.Roles(), "s-ss");
  run.Save(0, 0);
  run.Save(1, 0);
  run.Save(1, 1);
  run.Look();
  run.Lose(&run.At(0, 0));
  run.Look();
  EXPECT_TRUE(run.closing.saving());
  run.uploads.OnMoved(run.At(1, 0).peer);  // ask both anew: what was sent above is lost here
  run.uploads.OnMoved(run.At(1, 1).peer);
  run.Bring();
  EXPECT_EQ(run.history.checkpoint().step, 3u);
}

TEST(ClosingCheckpoint, WithoutAMemberOfAStageTheRunGoesBack) {
  Trained run;
  ASSERT_TRUE(run.Close());
  run.Fail(0, 1);
  run.Fail(1, 1);
  EXPECT_FALSE(run.closing.saving());
  EXPECT_EQ(run.lifecycle.cause(),
            "a link broke; 3 steps since the start are trained again (they could not be saved: no "
            "member of a stage is left that can save it)");
  EXPECT_EQ(run.history.checkpoint().step, 0u);
  // What comes late changes nothing.
  run.Save(0, 0);
  run.Bring();
  EXPECT_EQ(run.history.checkpoint().step, 0u);
}

TEST(ClosingCheckpoint, DoubtfulWeightsAreNotSaved) {
  Trained run;
  EXPECT_TRUE(run.Close({true, run.At(0, 0).peer}));
  EXPECT_EQ(run.Roles(), "-sss");
}

TEST(ClosingCheckpoint, FilesThatAreMissingCountAsAFailure) {
  Trained run;
  ASSERT_TRUE(run.Close());
  control::v1::CheckpointDone done = run.SavedFiles(0, 3);
  done.mutable_files()->RemoveLast();
  run.uploads.OnDone(&run.At(0, 0), done);
  EXPECT_EQ(run.Roles(), "-sss");
}

TEST(ClosingCheckpoint, NothingIsSavedThatTrainsSooner) {
  // A stage of three parts, weights and two moments: 900 bytes.
  for (const bool worth : {false, true}) {
    Trained run;
    for (std::uint32_t p = 0; p < 2; ++p) {
      for (std::uint32_t s = 0; s < 2; ++s) run.At(p, s).line.upload_bps = 36;  // 100 s
    }
    run.step_seconds = worth ? 31 : 29;
    EXPECT_EQ(run.Close(), worth);
    if (!worth) continue;
    run.Wait(kClosingLimit + std::chrono::seconds(299));
    run.closing.Look();
    EXPECT_TRUE(run.closing.saving());
    run.Wait(std::chrono::seconds(2));
    run.closing.Look();
    EXPECT_FALSE(run.closing.saving());
    EXPECT_THAT(run.lifecycle.cause(), HasSubstr("it took too long"));
  }
}

// Nobody knows them until they were full once, or have a cap.
TEST(ClosingCheckpoint, LinesThatNobodyKnowsGetTheTimeOfAHomesLine) {
  Trained run;
  CheckpointMade before{1, {}};
  for (std::uint32_t s = 0; s < 2; ++s) {
    const control::v1::CheckpointDone saved = run.SavedFiles(s, 1);
    for (control::v1::ArtefactRef file : saved.files()) {
      file.set_size(250'000'000);
      before.files.push_back(file);
    }
  }
  run.journal.Record(before);
  ASSERT_TRUE(run.Close());
  run.Wait(3 * kClosingLimit);  // 1.5 GB take 10 minutes at 20 Mbit/s
  run.closing.Look();
  EXPECT_TRUE(run.closing.saving());
  run.Wait(std::chrono::hours(1));
  run.closing.Look();
  EXPECT_FALSE(run.closing.saving());
}

// The files lie with the members: whoever comes back brings them.
TEST(ClosingCheckpoint, AHolderThatIsGoneForAMomentDoesNotEndIt) {
  Trained run;
  ASSERT_TRUE(run.Close());
  for (std::uint32_t s = 0; s < 2; ++s) run.Save(0, s);
  run.Lose(&run.At(1, 0));
  run.Lose(&run.At(1, 1));
  run.Look();
  Member& holder = run.At(0, 1);
  run.Lose(&holder);
  run.Look();
  EXPECT_TRUE(run.closing.saving());
  run.Wait(kReturnGrace - std::chrono::milliseconds(1));
  run.uploads.OnTick();
  run.Look();
  EXPECT_TRUE(run.closing.saving());
  run.Wait(std::chrono::milliseconds(1));
  run.uploads.OnTick();
  run.Look();
  EXPECT_FALSE(run.closing.saving());
}

}  // namespace
}  // namespace shoal::scheduler
