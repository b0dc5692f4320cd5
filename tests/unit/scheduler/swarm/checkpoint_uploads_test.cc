#include "scheduler/swarm/checkpoint_uploads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  bool Saved(std::uint32_t pipeline, std::uint32_t stage, const std::string& hash = "",
             const std::string& moments_hash = "") {
    control::v1::CheckpointDone done;
    done.set_step(history.step());
    for (const std::string& part : StageParts(config, stage)) {
      done.add_files()->set_name(part);
      done.mutable_files()->rbegin()->set_hash(hash);
      done.add_files()->set_name(part + ".optimizer");
      done.mutable_files()->rbegin()->set_hash(moments_hash);
    }
    return uploads.OnDone(&At(pipeline, stage), done);
  }
  bool Failed(std::uint32_t pipeline, std::uint32_t stage) {
    control::v1::CheckpointDone done;
    done.set_step(history.step());
    done.set_error("no space");
    return uploads.OnDone(&At(pipeline, stage), done);
  }
};

TEST(CheckpointUploads, ACheckpointIsWholeWithItsLastReport) {
  Uploads parts(2, 2, 4);
  EXPECT_TRUE(parts.uploads.Uploads(parts.At(0, 1)));
  EXPECT_FALSE(parts.uploads.Uploads(parts.At(1, 1)));
  EXPECT_FALSE(parts.Saved(0, 0)) << "nobody asked for one";
  parts.ApplyAndSave();
  EXPECT_EQ(parts.uploads.asked(), 1u);
  EXPECT_FALSE(parts.Saved(0, 0));
  EXPECT_FALSE(parts.Saved(0, 1));
  EXPECT_FALSE(parts.Saved(1, 0));
  parts.Take<Persist>();
  EXPECT_TRUE(parts.Saved(1, 1));
  EXPECT_EQ(parts.history.checkpoint().step, 1u);
  EXPECT_EQ(parts.history.checkpoint().files.count("head.optimizer"), 1u);
  const auto complete = parts.Take<CheckpointComplete>();
  ASSERT_EQ(complete.size(), 1u);
  EXPECT_EQ(complete[0].step, 1u);
}

TEST(CheckpointUploads, WhoUploadsTooLittleEndsTheGeneration) {
  Uploads parts(1, 1, 1);
  parts.ApplyAndSave();
  control::v1::CheckpointDone done;
  done.set_step(1);
  EXPECT_FALSE(parts.uploads.OnDone(&parts.At(0, 0), done));
  EXPECT_FALSE(parts.lifecycle.active());
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("did not upload"));
}

TEST(CheckpointUploads, AllStagesUploadTheSameSharedPart) {
  Uploads parts(3, 1, 3);
  parts.config.shared_part = true;
  parts.ApplyAndSave();
  EXPECT_FALSE(parts.Saved(0, 0, "one", "a"));
  EXPECT_FALSE(parts.Saved(0, 1, "one", "b")) << "moments may be a pipeline's own";
  EXPECT_TRUE(parts.Saved(0, 2, "one", "c"));
  EXPECT_EQ(parts.history.checkpoint().files.at("shared").hash(), "one");
  EXPECT_EQ(parts.history.checkpoint().files.at("shared.optimizer").hash(), "a");
  parts.ApplyAndSave();
  EXPECT_FALSE(parts.Saved(0, 0, "one"));
  EXPECT_TRUE(parts.lifecycle.active());
  EXPECT_FALSE(parts.Saved(0, 1, "another"));
  EXPECT_FALSE(parts.lifecycle.active());
  EXPECT_THAT(parts.lifecycle.cause(), HasSubstr("another shared than other stages"));
}

TEST(CheckpointUploads, AnotherMemberUploadsForOneThatCannot) {
  Uploads parts(1, 2, 2);
  parts.ApplyAndSave();
  EXPECT_FALSE(parts.Failed(0, 0));
  EXPECT_TRUE(parts.lifecycle.active());
  EXPECT_EQ(parts.uploads.asked(), 0u) << "with the next step";
  EXPECT_FALSE(parts.uploads.Uploads(parts.At(0, 0)));
  EXPECT_TRUE(parts.uploads.Uploads(parts.At(1, 0)));
  EXPECT_THAT(parts.uploads.WhoCannotSave(), HasSubstr("peer1"));
  parts.ApplyAndSave();
  EXPECT_FALSE(parts.Saved(1, 0));
  EXPECT_TRUE(parts.Failed(0, 0)) << "it is not needed";
  parts.ApplyAndSave();
  parts.Saved(0, 0);
  EXPECT_EQ(parts.uploads.WhoCannotSave(), "");
}

TEST(CheckpointUploads, ASpareReplacesAMemberThatFailedTwice) {
  Uploads parts(1, 1, 2);
  parts.ApplyAndSave();
  parts.Failed(0, 0);
  EXPECT_TRUE(parts.lifecycle.active());
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

TEST(CheckpointUploads, AfterTheLastStepAFailureTakesAnotherGeneration) {
  Uploads parts(1, 2, 2);
  parts.config.steps = 1;
  parts.ApplyAndSave();
  parts.Failed(0, 0);
  EXPECT_FALSE(parts.lifecycle.active());
  EXPECT_FALSE(parts.history.held());
  parts.Train();
  EXPECT_TRUE(parts.uploads.Uploads(parts.At(1, 0))) << "it can save";
  parts.ApplyAndSave();
  parts.Failed(1, 0);
  EXPECT_TRUE(parts.history.held()) << "nobody can";
}

}  // namespace
}  // namespace shoal::scheduler
