#include "scheduler/swarm/checkpoint_uploads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "unit/scheduler/swarm/swarm_parts.h"

namespace shoal::scheduler {
namespace {

using ::testing::HasSubstr;

struct Uploads : SwarmParts {
  Uploads(std::uint32_t stages, std::uint32_t pipelines, std::uint32_t peers)
      : SwarmParts(stages, pipelines) {
    JoinAll(peers);
    Train();
  }
  // The next step is applied, and saved.
  void ApplyAndSave() {
    Apply(1);
    uploads.Begin();
  }
  void Saved(std::uint32_t pipeline, std::uint32_t stage) {
    uploads.OnDone(&At(pipeline, stage), SavedFiles(stage, history.step()));
  }
  void Failed(std::uint32_t pipeline, std::uint32_t stage) {
    control::v1::CheckpointDone done;
    done.set_generation(history.generation());
    done.set_step(history.step());
    done.set_error("no space");
    uploads.OnDone(&At(pipeline, stage), done);
    EXPECT_FALSE(uploads.Look());
  }
  // What members are asked to upload is here, at last; the checkpoint that is whole with that.
  std::optional<std::uint64_t> Bring() { return BringWanted(); }
};

TEST(CheckpointUploads, ACheckpointIsWholeWithItsLastFile) {
  Uploads parts(2, 2, 4);
  parts.Saved(0, 0);
  EXPECT_FALSE(parts.Bring()) << "nobody asked for one";
  parts.ApplyAndSave();
  EXPECT_EQ(parts.uploads.asked(), 1u);
  for (const std::uint32_t p : {0u, 1u}) {
    for (const std::uint32_t s : {0u, 1u}) {
      EXPECT_FALSE(parts.uploads.Look());
      parts.Saved(p, s);
    }
  }
  parts.uploads.Look();
  std::map<ConnectionId, std::size_t> asked;
  std::size_t wanted = 0;
  for (const Action& action : parts.reaction.Take()) {
    if (const auto* const want = std::get_if<WantArtefacts>(&action)) {
      wanted += want->files.size();
    } else if (const auto* const sent = std::get_if<SendTo>(&action)) {
      ASSERT_TRUE(sent->message.has_want_artefacts());
      const auto files = static_cast<std::size_t>(sent->message.want_artefacts().files_size());
      asked[sent->connection] = files;
      EXPECT_EQ(wanted, files) << "the server knows what comes";
      wanted = 0;
      for (const auto& file : sent->message.want_artefacts().files()) {
        parts.uploads.OnHere(file.hash());
      }
    }
  }
  EXPECT_EQ(asked.size(), 4u) << "the members of a stage share its parts out";
  for (const auto& [connection, files] : asked) EXPECT_GE(files, 2u);
  EXPECT_EQ(parts.uploads.Files().size(), 12u);
  EXPECT_EQ(parts.uploads.Look(), 1u);
  EXPECT_EQ(parts.history.checkpoint().step, 1u);
  EXPECT_EQ(parts.history.checkpoint().files.count("head.optimizer"), 1u);
  const auto complete = parts.Take<CheckpointComplete>();
  ASSERT_EQ(complete.size(), 1u);
  EXPECT_EQ(complete[0].step, 1u);
  EXPECT_TRUE(parts.uploads.Files().empty());
}

TEST(CheckpointUploads, WhatIsUnderWayGoesOnWithAPlanInPlaceOnly) {
  for (const bool in_place : {true, false}) {
    Uploads parts(1, 2, 2);
    parts.ApplyAndSave();
    parts.Saved(0, 0);
    parts.uploads.EndGeneration();
    parts.reaction.Take();
    parts.Wait(kSaveLimit);
    parts.uploads.OnTick();
    parts.uploads.BeginGeneration(in_place);
    EXPECT_EQ(parts.uploads.pending(), in_place);
    EXPECT_EQ(parts.Take<ArtefactsUnneeded>().empty(), in_place);
    EXPECT_EQ(parts.uploads.asked(), in_place ? 1u : 0u);
    EXPECT_EQ(parts.Bring().value_or(0), in_place ? 1u : 0u) << "the other is waited for no more";
  }
}

TEST(CheckpointUploads, SavedInDoubtIsDropped) {
  Uploads parts(1, 1, 1);
  parts.ApplyAndSave();
  parts.Saved(0, 0);
  parts.lifecycle.Interrupt("the loss is not finite", {false});
  parts.uploads.DropAll();
  EXPECT_FALSE(parts.Bring());
  EXPECT_EQ(parts.history.checkpoint().step, 0u);
}

TEST(CheckpointUploads, WhoSavesTooLittleOrSaysTooMuchEndsTheGeneration) {
  for (const bool little : {true, false}) {
    Uploads parts(1, 1, 1);
    parts.ApplyAndSave();
    control::v1::CheckpointDone done = parts.SavedFiles(0, 1);
    little ? done.mutable_files()->RemoveLast()
           : done.mutable_files(0)->set_size(std::uint64_t{1} << 50);
    parts.uploads.OnDone(&parts.At(0, 0), done);
    EXPECT_FALSE(parts.lifecycle.active());
    EXPECT_THAT(parts.lifecycle.cause(), HasSubstr(little ? "did not save" : "than it can have"));
  }
}

TEST(CheckpointUploads, OthersSaveForOneThatCannot) {
  Uploads parts(1, 2, 2);
  parts.ApplyAndSave();
  parts.Failed(0, 0);
  EXPECT_TRUE(parts.lifecycle.active());
  EXPECT_EQ(parts.uploads.asked(), 1u) << "it is under way";
  EXPECT_THAT(parts.uploads.Trouble(), HasSubstr("peer1"));
  parts.Saved(1, 0);
  EXPECT_EQ(parts.Bring(), 1u);
  parts.ApplyAndSave();
  parts.Saved(0, 0);
  EXPECT_EQ(parts.uploads.Trouble(), "");
}

TEST(CheckpointUploads, OthersUploadWhatAMemberDoesNot) {
  Uploads parts(1, 2, 2);
  parts.ApplyAndSave();
  parts.Saved(0, 0);
  parts.Saved(1, 0);
  parts.uploads.Look();
  for (const SendTo& sent : parts.Take<SendTo>()) {
    if (sent.connection != parts.At(0, 0).connection) continue;
    control::v1::ArtefactsOffered offered;
    offered.set_request(sent.message.want_artefacts().request());
    offered.set_error("read layer.0: input/output error");
    parts.uploads.OnOffered(&parts.At(0, 0), offered);
  }
  EXPECT_THAT(parts.uploads.Trouble(), HasSubstr("input/output error"));
  EXPECT_EQ(parts.Bring(), 1u);
}

// Nobody's fault but the scheduler's: nothing is lost, and it goes on by itself.
TEST(CheckpointUploads, AFullDiskOfTheSchedulerIsWaitedFor) {
  Uploads parts(1, 1, 2);
  parts.ApplyAndSave();
  parts.Saved(0, 0);
  for (int turn = 0; turn < 3; ++turn) {
    parts.uploads.Look();
    const auto sent = parts.Take<SendTo>();
    ASSERT_EQ(sent.size(), 1u) << turn;
    const auto& files = sent[0].message.want_artefacts().files();
    parts.uploads.OnNotKept(files.Get(0).hash(), "No space left on device");
    control::v1::ArtefactsOffered offered;
    offered.set_request(sent[0].message.want_artefacts().request());
    offered.set_error("the scheduler's disk failed");
    parts.uploads.OnOffered(&parts.At(0, 0), offered);
    EXPECT_FALSE(parts.uploads.Look());
    EXPECT_TRUE(parts.Take<SendTo>().empty()) << "not at once";
    EXPECT_THAT(parts.uploads.Trouble(), HasSubstr("the scheduler's disk takes no checkpoint (No"));
    parts.Wait(std::chrono::seconds(11));
    parts.uploads.OnTick();
  }
  EXPECT_TRUE(parts.lifecycle.active()) << "no spare takes its place";
  EXPECT_EQ(parts.Bring(), 1u);
  EXPECT_EQ(parts.uploads.Trouble(), "");
}

TEST(CheckpointUploads, AFullDiskOfTheSchedulerExcusesNobodyElsesFailure) {
  Uploads parts(1, 2, 2);
  parts.ApplyAndSave();
  parts.Saved(0, 0);
  parts.Saved(1, 0);
  parts.uploads.Look();
  const auto sent = parts.Take<SendTo>();
  ASSERT_EQ(sent.size(), 2u);
  const auto offered = [&](std::size_t i) {
    control::v1::ArtefactsOffered message;
    message.set_request(sent[i].message.want_artefacts().request());
    message.set_error("failed");
    for (std::uint32_t p = 0; p < 2; ++p) {
      if (parts.At(p, 0).connection == sent[i].connection) {
        parts.uploads.OnOffered(&parts.At(p, 0), message);
      }
    }
  };
  // What another brings changes nothing for who was not at fault; who was is not excused by it.
  parts.uploads.OnNotKept(sent[0].message.want_artefacts().files(0).hash(), "full");
  parts.uploads.OnHere(sent[1].message.want_artefacts().files(0).hash());
  offered(0);
  EXPECT_TRUE(parts.uploads.not_kept());
  EXPECT_EQ(parts.At(0, 0).save_error + parts.At(1, 0).save_error, "");
  offered(1);
  EXPECT_EQ(parts.At(0, 0).save_error + parts.At(1, 0).save_error, "failed");
}

TEST(CheckpointUploads, WhoGoesIsNotWaitedFor) {
  Uploads parts(1, 2, 2);
  parts.ApplyAndSave();
  parts.Saved(0, 0);
  EXPECT_FALSE(parts.Bring());
  Member& gone = parts.At(1, 0);
  parts.members.Close(gone.connection);
  for (const PeerId& peer : parts.members.TakeMoved()) parts.uploads.OnMoved(peer);
  EXPECT_FALSE(parts.Bring()) << "it may come back at once";
  parts.Wait(kReturnGrace);
  parts.uploads.OnTick();
  EXPECT_EQ(parts.Bring(), 1u);
}

// A save goes on when its generation ends.
TEST(CheckpointUploads, WhatIsToldAfterTheGenerationHasEndedCounts) {
  Uploads parts(1, 2, 2);
  parts.ApplyAndSave();
  control::v1::CheckpointDone done = parts.SavedFiles(0, 1);
  parts.uploads.EndGeneration();
  parts.uploads.BeginGeneration(true);
  EXPECT_FALSE(parts.uploads.Look());
  EXPECT_TRUE(parts.uploads.Has(1));
  parts.uploads.OnDone(&parts.At(0, 0), done);
  parts.uploads.OnDone(&parts.At(1, 0), done);
  EXPECT_EQ(parts.Bring(), 1u);
}

TEST(CheckpointUploads, APlanFromAnOlderOneWaitsForWhatMayBecomeWhole) {
  Uploads parts(1, 1, 1);
  EXPECT_FALSE(parts.uploads.AwaitNewer(0)) << "there is none";
  parts.ApplyAndSave();
  parts.Saved(0, 0);
  parts.uploads.EndGeneration();
  EXPECT_TRUE(parts.uploads.AwaitNewer(0));
  EXPECT_EQ(parts.uploads.awaited(), 1u);
  EXPECT_FALSE(parts.uploads.Look());
  EXPECT_TRUE(parts.uploads.AwaitNewer(0)) << "all is shared out";
  parts.Wait(kClosingLimit + std::chrono::seconds(1));
  EXPECT_FALSE(parts.uploads.AwaitNewer(0)) << "not for ever";
  parts.uploads.BeginGeneration(false);
  EXPECT_FALSE(parts.uploads.awaited());
  // 300 bytes at 8 bit/s take longer than to train the step again.
  Uploads slow(1, 1, 1);
  slow.At(0, 0).line.upload_bps = 8;
  slow.ApplyAndSave();
  slow.Saved(0, 0);
  EXPECT_FALSE(slow.uploads.Look());
  EXPECT_FALSE(slow.uploads.AwaitNewer(60));
  EXPECT_TRUE(slow.uploads.AwaitNewer(600));
}

TEST(CheckpointUploads, ASpareReplacesAMemberThatFailedTwice) {
  Uploads parts(1, 1, 2);
  parts.ApplyAndSave();
  parts.Failed(0, 0);
  EXPECT_TRUE(parts.lifecycle.active());
  EXPECT_EQ(parts.uploads.asked(), 0u) << "with the next step";
  parts.ApplyAndSave();
  parts.Failed(0, 0);
  EXPECT_FALSE(parts.lifecycle.active());
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("a spare takes its place"));
  parts.Train();
  EXPECT_EQ(parts.At(0, 0).peer, SimPeerId(2));
}

TEST(CheckpointUploads, WithoutASpareTheNextCheckpointTriesAgain) {
  Uploads parts(1, 1, 1);
  parts.lifecycle.EndSoon("anna hands over");
  for (int i = 0; i < 5; ++i) {
    parts.ApplyAndSave();
    parts.Failed(0, 0);
    EXPECT_TRUE(parts.lifecycle.active());
    EXPECT_EQ(parts.uploads.asked(), parts.history.step()) << "not before it is due";
    EXPECT_EQ(parts.lifecycle.ending()->from, parts.history.step()) << "the ending waits on";
  }
}

TEST(CheckpointUploads, WhoHandsOverAndCannotSaveIsNotWaitedFor) {
  Uploads parts(1, 1, 1);
  parts.At(0, 0).wants_stage = false;
  parts.At(0, 0).going = "its owner needs it";
  parts.lifecycle.EndSoon(parts.At(0, 0).HandsOver());
  parts.ApplyAndSave();
  parts.Failed(0, 0);
  EXPECT_FALSE(parts.lifecycle.active());
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("and cannot save: no space"));
}

TEST(CheckpointUploads, WhereNobodyCanSaveTheLastStepsTheRunIsHeld) {
  Uploads parts(1, 2, 2);
  parts.config.steps = 1;
  parts.ApplyAndSave();
  parts.Failed(0, 0);
  EXPECT_TRUE(parts.lifecycle.active()) << "the other can";
  parts.Failed(1, 0);
  EXPECT_FALSE(parts.lifecycle.active());
  EXPECT_TRUE(parts.history.held());
}

}  // namespace
}  // namespace shoal::scheduler
