#include "scheduler/swarm/closing_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scheduler/config/swarm_limits.h"
#include "unit/scheduler/swarm/swarm_parts.h"

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;
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
  // By pipeline, then stage: "-" is told nothing of it, "s" saves, "u" also uploads.
  std::string Roles() const {
    std::string roles;
    for (std::uint32_t p = 0; p < 2; ++p) {
      for (std::uint32_t s = 0; s < 2; ++s) {
        control::v1::Abort abort;
        closing.Fill(*plan.At(p, s), &abort);
        roles += !abort.save() || abort.hold_step() != 3 ? "-" : abort.upload() ? "u" : "s";
      }
    }
    return roles;
  }
  control::v1::CheckpointDone Done(std::uint32_t stage, char hash = 'c') const {
    control::v1::CheckpointDone done;
    done.set_step(3);
    for (const std::string& part : StageParts(config, stage)) {
      for (const char* suffix : {"", ".optimizer"}) {
        control::v1::ArtefactRef* file = done.add_files();
        file->set_name(part + suffix);
        file->set_hash(std::string(32, hash));
        file->set_size(50);
      }
    }
    return done;
  }
  control::v1::CheckpointDone Failed() const {
    control::v1::CheckpointDone done;
    done.set_step(3);
    done.set_error("no space");
    return done;
  }
};

TEST(ClosingCheckpoint, OneOfEachStageUploadsAndTheOthersSave) {
  Trained run;
  run.Lose(&run.At(0, 1));
  run.lifecycle.Interrupt("lost one");
  ASSERT_TRUE(run.closing.saving());
  EXPECT_EQ(run.Roles(), "u-su");
  run.closing.OnDone(run.At(1, 1), run.Done(1));
  run.closing.OnDone(run.At(1, 0), {});  // whose upload nobody waits for
  EXPECT_TRUE(run.closing.saving());
  run.closing.OnDone(run.At(0, 0), run.Done(0));
  EXPECT_FALSE(run.closing.saving());
  EXPECT_EQ(run.history.checkpoint().step, 3u);
  EXPECT_EQ(run.history.checkpoint().files.size(), 12u);
  EXPECT_EQ(run.Take<CheckpointComplete>().size(), 1u);
  EXPECT_EQ(run.lifecycle.cause(), "lost one; no step is lost");
}

TEST(ClosingCheckpoint, TheFastestLineUploads) {
  Trained run;
  run.At(1, 0).line.upload_bps = 50'000'000;
  run.At(0, 0).line.upload_bps = 10'000'000;
  ASSERT_TRUE(run.Close());
  EXPECT_EQ(run.Roles(), "suus");
}

TEST(ClosingCheckpoint, AnotherMemberUploadsForOneThatCannot) {
  Trained run;
  ASSERT_TRUE(run.Close());
  run.Take<SendTo>();
  run.closing.OnDone(run.At(0, 1), run.Failed());
  EXPECT_TRUE(run.closing.saving());
  EXPECT_EQ(run.Roles(), "u-su");
  const auto sent = run.Take<SendTo>();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].connection, run.At(1, 1).connection);
  EXPECT_EQ(sent[0].message.abort().hold_step(), 3u);
  EXPECT_TRUE(sent[0].message.abort().upload());
  EXPECT_EQ(sent[0].message.abort().generation(), run.history.generation());
  // And for one that goes meanwhile.
  run.Lose(&run.At(0, 0));
  run.closing.Look();
  EXPECT_EQ(run.Roles(), "s-uu");
  run.closing.OnDone(run.At(1, 0), run.Done(0));
  run.closing.OnDone(run.At(1, 1), run.Done(1));
  EXPECT_EQ(run.history.checkpoint().step, 3u);
}

TEST(ClosingCheckpoint, WithoutAMemberOfAStageTheRunGoesBack) {
  Trained run;
  ASSERT_TRUE(run.Close());
  run.closing.OnDone(run.At(0, 1), run.Failed());
  run.closing.OnDone(run.At(1, 1), run.Failed());
  EXPECT_FALSE(run.closing.saving());
  EXPECT_EQ(run.lifecycle.cause(),
            "a link broke; 3 steps since the start are trained again (they could not be saved: no "
            "member of stage 1 is left that can save it)");
  EXPECT_EQ(run.history.checkpoint().step, 0u);
  // What comes late changes nothing.
  run.closing.OnDone(run.At(0, 0), run.Done(0));
  EXPECT_EQ(run.history.checkpoint().step, 0u);
}

TEST(ClosingCheckpoint, DoubtfulWeightsAreNotSaved) {
  Trained run;
  EXPECT_TRUE(run.Close({true, run.At(0, 0).peer}));
  EXPECT_EQ(run.Roles(), "-uus");
}

TEST(ClosingCheckpoint, FilesThatAreMissingCountAsAFailure) {
  Trained run;
  ASSERT_TRUE(run.Close());
  control::v1::CheckpointDone done = run.Done(0);
  done.mutable_files()->RemoveLast();
  run.closing.OnDone(run.At(0, 0), done);
  EXPECT_EQ(run.Roles(), "-uus");
}

TEST(ClosingCheckpoint, NothingIsSavedThatTrainsSooner) {
  // A stage of three parts, weights and two moments: 900 bytes.
  for (const bool worth : {false, true}) {
    Trained run;
    for (std::uint32_t p = 0; p < 2; ++p) {
      for (std::uint32_t s = 0; s < 2; ++s) run.At(p, s).line.upload_bps = 72;  // 100 s
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

}  // namespace
}  // namespace shoal::scheduler
