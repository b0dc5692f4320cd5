#include "scheduler/history/checkpoint_rounds.h"

#include <gtest/gtest.h>

#include "scheduler/config/swarm_limits.h"

namespace shoal::scheduler {
namespace {

control::v1::ArtefactRef File(const std::string& name) {
  control::v1::ArtefactRef file;
  file.set_name(name);
  return file;
}

TEST(CheckpointRounds, IsWholeWhenAllMembersHaveReportedEachOnce) {
  CheckpointRounds rounds;
  rounds.Reset(0, {0, 1});
  rounds.Begin(5, 4);
  EXPECT_EQ(rounds.asked(), 5u);
  EXPECT_TRUE(rounds.Uploads(5, 0, 0));
  EXPECT_FALSE(rounds.Uploads(5, 1, 0));
  EXPECT_TRUE(rounds.Uploads(5, 1, 1));
  rounds.AddFile(5, "a", File("a"));
  for (int twice = 0; twice < 2; ++twice) {
    rounds.AddReport(5, 0, 0);
    rounds.AddReport(5, 0, 1);
    rounds.AddReport(5, 1, 0);
  }
  EXPECT_FALSE(rounds.TakeWhole(5));
  rounds.AddReport(5, 1, 1);
  const auto files = rounds.TakeWhole(5);
  ASSERT_TRUE(files);
  EXPECT_EQ(files->size(), 1u);
  EXPECT_FALSE(rounds.Has(5));
  EXPECT_FALSE(rounds.TakeWhole(5));
}

TEST(CheckpointRounds, AWholeOneEndsThoseBeforeIt) {
  CheckpointRounds rounds;
  rounds.Reset(0, {0});
  rounds.Begin(1, 1);
  rounds.Begin(2, 1);
  rounds.AddReport(2, 0, 0);
  ASSERT_TRUE(rounds.TakeWhole(2));
  EXPECT_FALSE(rounds.Has(1));
}

TEST(CheckpointRounds, TheOldestMakesRoom) {
  CheckpointRounds rounds;
  rounds.Reset(0, {0});
  for (std::uint64_t step = 1; step <= kPendingCheckpointsMax; ++step) rounds.Begin(step, 1);
  EXPECT_TRUE(rounds.full());
  rounds.Begin(kPendingCheckpointsMax + 1, 1);
  EXPECT_FALSE(rounds.Has(1));
  EXPECT_TRUE(rounds.Has(kPendingCheckpointsMax + 1));
}

TEST(CheckpointRounds, AnotherUploaderCountsFromTheNextOn) {
  CheckpointRounds rounds;
  rounds.Reset(3, {0, 0});
  EXPECT_EQ(rounds.asked(), 3u);
  rounds.Begin(4, 1);
  rounds.SetUploader(1, 2);
  EXPECT_TRUE(rounds.Uploads(4, 0, 1));
  rounds.Begin(5, 1);
  EXPECT_TRUE(rounds.Uploads(5, 2, 1));
  EXPECT_TRUE(rounds.DropUploadedBy(1, {1, 2}));
  EXPECT_TRUE(rounds.Has(4));
  EXPECT_FALSE(rounds.Has(5));
  EXPECT_FALSE(rounds.DropUploadedBy(1, {2}));
  rounds.AskAgainAfter(3);
  EXPECT_EQ(rounds.asked(), 3u);
}

}  // namespace
}  // namespace shoal::scheduler
