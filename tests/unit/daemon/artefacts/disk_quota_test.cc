#include "daemon/artefacts/disk_quota.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "common/file.h"
#include "daemon/artefacts/disk_keeper.h"
#include "tests/support/on_executor.h"
#include "tests/support/sim_executor.h"
#include "tests/support/temporary_folder.h"

namespace shoal::daemon {
namespace {

using storage::Checkpoint;
using storage::ContentHash;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr RunId kOldest{1}, kOlder{2}, kOwn{3};

std::string Bytes(std::size_t size, char seed) { return std::string(size, seed); }

// A peer's folder: checkpoints of three runs, the oldest first, of a MiB each; m of all of them;
// blobs of the run and of nobody.
class DiskQuotaTest : public testing::Test {
 protected:
  DiskQuotaTest() {
    checkpoints_ = storage::OpenCheckpointStore(folder_ / "checkpoints").value();
    content_ = storage::OpenFileContentStore(folder_ / "content").value();
    for (const RunId run : {kOldest, kOlder, kOwn}) {
      Save(run);
      AddDelta(run);
    }
    needed_ = Put('n');
    useless_ = Put('u');
    std::filesystem::create_directories(folder_ / "deltas");
  }
  void Save(RunId run) {
    const auto write = [run](const std::string& folder) {
      return WriteFileAtomic(folder + "/stage", Bytes(kMiB, static_cast<char>('a' + run.value)));
    };
    const auto saved = checkpoints_->Save(run, 7, write, 2);
    ASSERT_TRUE(saved.ok()) << saved.status().ToString();
    // The newest checkpoint's files are blobs, too, by the same names of the disk.
    if (run == kOwn) saved_ = content_->PutFile(saved->folder + "/stage").value();
  }
  void AddDelta(RunId run) {
    storage::DeltaUpdate update;
    update.record.version = 1;
    update.record.image = Buffer(100);
    std::vector<SegmentId> evicted;
    ASSERT_TRUE(deltas_->Commit({run, 0}, std::span(&update, 1), &evicted).ok());
  }
  ContentHash Put(char seed) {
    const std::string blob = Bytes(kMiB, seed);
    return content_->Put(std::as_bytes(std::span(blob.data(), blob.size()))).value();
  }
  DiskUse Keep(std::uint64_t bytes_max) {
    DiskOrder order;
    order.bytes_max = bytes_max;
    order.run = kOwn;
    order.blobs = {needed_};
    return KeepDiskQuota(folder_.path(), order, content_.get(), deltas_.get(), checkpoints_.get());
  }
  std::vector<std::uint64_t> Runs() const {  // with checkpoints
    std::vector<std::uint64_t> runs;
    for (const auto& run : checkpoints_->Runs()) runs.push_back(run.run.value);
    return runs;
  }
  std::vector<std::uint64_t> RunsOfM() const {
    std::vector<std::uint64_t> runs;
    for (const auto& end : deltas_->Ends()) runs.push_back(end.run.value);
    return runs;
  }

  const test_support::TemporaryFolder folder_;
  std::unique_ptr<storage::CheckpointStore> checkpoints_;
  std::unique_ptr<storage::ContentStore> content_;
  const std::unique_ptr<storage::DeltaStore> deltas_ = storage::NewMemoryDeltaStore(500 * kMiB);
  ContentHash needed_, useless_, saved_;
};

TEST_F(DiskQuotaTest, CountsAFileOfSeveralNamesOnce) {
  const DiskUse use = Keep(0);
  EXPECT_GE(use.bytes, 5 * kMiB);
  EXPECT_LT(use.bytes, 6 * kMiB) << "the own checkpoint is a blob, too";
  EXPECT_EQ(use.kept_bytes, use.bytes);
}

TEST_F(DiskQuotaTest, NothingGoesWhileAllFits) {
  Keep(20 * kMiB);
  Keep(0);
  EXPECT_THAT(Runs(), ElementsAre(3, 2, 1));
  EXPECT_THAT(RunsOfM(), ElementsAre(1, 2, 3));
  EXPECT_TRUE(content_->Has(useless_));
}

TEST_F(DiskQuotaTest, WhatGoesFirstIsTheDamagedStoreThenTheOldestRun) {
  std::filesystem::create_directories(folder_ / "deltas.damaged");
  ASSERT_TRUE(WriteFileAtomic(folder_ / "deltas.damaged/m", Bytes(kMiB, 'd')).ok());
  EXPECT_LT(Keep(6 * kMiB).bytes, 6 * kMiB);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "deltas.damaged"));
  EXPECT_THAT(Runs(), ElementsAre(3, 2, 1));

  Keep(5 * kMiB);
  EXPECT_THAT(Runs(), ElementsAre(3, 2));
  EXPECT_THAT(RunsOfM(), ElementsAre(2, 3));
  EXPECT_TRUE(content_->Has(useless_));
}

TEST_F(DiskQuotaTest, ThenBlobsThatTheRunDoesNotNeed) {
  const DiskUse use = Keep(3 * kMiB);
  EXPECT_LT(use.bytes, 3 * kMiB);
  EXPECT_THAT(Runs(), ElementsAre(3));
  EXPECT_TRUE(content_->Has(needed_));
  EXPECT_TRUE(content_->Has(saved_)) << "its newest checkpoint";
  EXPECT_FALSE(content_->Has(useless_));
}

TEST_F(DiskQuotaTest, TheRunsOwnFilesStayHoweverSmallTheQuotaIs) {
  const DiskUse use = Keep(1);
  EXPECT_THAT(Runs(), ElementsAre(3));
  EXPECT_THAT(RunsOfM(), ElementsAre(3)) << "it goes as samples come up";
  EXPECT_TRUE(content_->Has(needed_));
  EXPECT_GT(use.kept_bytes, 2 * kMiB);
  EXPECT_EQ(deltas_->stats().bytes_limit, 1u);
}

TEST_F(DiskQuotaTest, MGetsWhatIsLeftAndAllOfItBackWithoutAQuota) {
  const DiskUse use = Keep(100 * kMiB);
  const std::uint64_t left = 100 * kMiB - use.kept_bytes;
  EXPECT_EQ(deltas_->stats().bytes_limit, left / 11 * 5);
  EXPECT_LE(storage::DeltaStoreStats(deltas_->stats()).bytes_limit * 11 / 5, left);
  Keep(4000 * kMiB);
  EXPECT_EQ(deltas_->stats().bytes_limit, 500 * kMiB) << "limits.delta_store holds besides";
  Keep(20 * kMiB);
  Keep(0);
  EXPECT_EQ(deltas_->stats().bytes_limit, 500 * kMiB);
}

TEST_F(DiskQuotaTest, WhatIsNotKnownToBeUselessStays) {
  DiskOrder order;
  order.bytes_max = 1;
  KeepDiskQuota(folder_.path(), order, content_.get(), deltas_.get(), checkpoints_.get());
  EXPECT_THAT(Runs(), ElementsAre(3, 2, 1)) << "it may join any of them";
  order.run = kOwn;
  KeepDiskQuota(folder_.path(), order, content_.get(), deltas_.get(), checkpoints_.get());
  EXPECT_THAT(Runs(), ElementsAre(3));
  EXPECT_TRUE(content_->Has(useless_));
}

// The folder of a real store: of an idle peer, which no step makes smaller.
TEST_F(DiskQuotaTest, OfAnIdlePeerMGoesAtOnceThatOfActivationsLast) {
  constexpr std::uint64_t kRecords = 2000, kImage = 8192;
  const auto deltas =
      storage::OpenRocksDeltaStore({.path = folder_ / "deltas", .bytes_max = 500 * kMiB}).value();
  const storage::BoundaryEnd m{kOwn, 0}, residuals{kOwn, 0, storage::BoundarySide::kResidual},
      gradients{kOwn, 1, storage::BoundarySide::kGradientReceiver};
  const auto add = [&](const storage::BoundaryEnd& end, std::uint64_t records) {
    std::vector<storage::DeltaUpdate> updates(records);
    for (std::uint64_t i = 0; i < records; ++i) {
      updates[i].segment = SegmentId{i};
      updates[i].record.version = 1;
      updates[i].record.image = Buffer(kImage);
    }
    std::vector<SegmentId> evicted;
    ASSERT_TRUE(deltas->Commit(end, updates, &evicted).ok());
  };
  add(m, kRecords);
  add(residuals, 10);
  add(gradients, 20);
  ASSERT_TRUE(deltas->Flush().ok());
  DiskOrder order;
  order.run = kOwn;
  order.blobs = {needed_};
  const auto look = [&] {
    return KeepDiskQuota(folder_.path(), order, content_.get(), deltas.get(), checkpoints_.get());
  };
  const DiskUse before = look();
  EXPECT_GT(before.bytes - before.kept_bytes, kRecords * kImage);
  order.bytes_max = before.kept_bytes + 11 * kMiB;
  EXPECT_GT(look().bytes, order.bytes_max) << "a stage may need any of it";
  EXPECT_EQ(deltas->stats().records, kRecords + 30);
  order.idle = true;
  DiskUse use = look();
  for (int i = 0; i < 10 && use.more_to_drop; ++i) use = look();
  EXPECT_FALSE(use.more_to_drop);
  EXPECT_LE(use.bytes, order.bytes_max);
  const storage::DeltaStoreStats kept = deltas->stats();
  EXPECT_LE(kept.bytes, kept.bytes_limit);
  EXPECT_GT(kept.bytes, kept.bytes_limit / 2) << "no more than needed";
  EXPECT_TRUE(deltas->Inventory(residuals)->empty());
  EXPECT_TRUE(deltas->Inventory(gradients)->empty());
  const auto left = deltas->Inventory(m).value();
  ASSERT_FALSE(left.empty());
  EXPECT_EQ(left.back().segment.value, left.size() - 1);
}

TEST_F(DiskQuotaTest, TheKeeperLooksEveryMinuteAndWhenTheQuotaChanges) {
  test_support::SimWorld world;
  const std::unique_ptr<Executor> control = world.NewExecutor("control");
  const std::unique_ptr<Executor> store = world.NewExecutor("store");
  DiskKeeper keeper(control.get(), store.get(),
                    {folder_.path(), content_.get(), deltas_.get(), checkpoints_.get()});
  const auto pass = [&world](Duration time) {
    world.At(world.Now() + time, [] {});
    world.RunUntil([] { return false; }, time);
  };
  const auto keep = [&](std::uint64_t bytes_max) {
    DiskOrder order;
    order.bytes_max = bytes_max;
    order.run = kOwn;
    keeper.Keep(std::move(order));
  };
  EXPECT_FALSE(keeper.Due(0, false)) << "there never was a quota";
  EXPECT_TRUE(keeper.Due(kMiB, false));
  keep(kMiB);
  EXPECT_FALSE(keeper.Due(2 * kMiB, false)) << "it looks already";
  pass(std::chrono::seconds(1));
  EXPECT_THAT(keeper.text(), HasSubstr("of 1.00 MiB: weights, data and checkpoints of the run"));
  EXPECT_FALSE(keeper.Due(kMiB, false));
  pass(kDiskLookEvery);
  EXPECT_TRUE(keeper.Due(kMiB, false));
  EXPECT_TRUE(keeper.Due(0, false));
  keep(kMiB);
  pass(std::chrono::seconds(1));
  EXPECT_FALSE(keeper.Due(kMiB, false));
  EXPECT_TRUE(keeper.Due(kMiB, true)) << "m may go now";
  keep(0);
  pass(std::chrono::seconds(1));
  EXPECT_EQ(keeper.text(), "");
  pass(kDiskLookEvery);
  EXPECT_FALSE(keeper.Due(0, false));
}

}  // namespace
}  // namespace shoal::daemon
