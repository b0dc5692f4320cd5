// What every store does when the disk is full: says so, keeps what it had, heals when space is
// back. Needs root, to mount a small file system.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <unistd.h>

#include "common/checksum.h"
#include "storage/checkpoints/checkpoint_store.h"
#include "storage/checkpoints/event_log.h"
#include "storage/delta/delta_store.h"
#include "storage/files/content_store.h"
#include "tests/unit/storage/storage_test_support.h"

namespace shoal::storage {
namespace {

class DiskFull : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::mount("tmpfs", disk_.path().c_str(), "tmpfs", 0, "size=24m") != 0) {
      GTEST_SKIP() << "skipped: needs root";
    }
    mounted_ = true;
  }
  void TearDown() override {
    if (mounted_) ::umount2(disk_.path().c_str(), MNT_DETACH);
  }
  // Takes the space that is left, but `spare` bytes.
  void Fill(std::size_t spare = 0) {
    const int fd = ::open((disk_ / "ballast").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    const std::string block(4096, 'x');
    off_t size = 0;
    while (::write(fd, block.data(), block.size()) == 4096) size += 4096;
    ASSERT_EQ(::ftruncate(fd, size - static_cast<off_t>(spare)), 0);
    ::close(fd);
  }
  void Free() { std::filesystem::remove(disk_ / "ballast"); }

  TemporaryFolder disk_;
  bool mounted_ = false;
};

constexpr BoundaryEnd kEnd{RunId{1}, 0, BoundarySide::kSender};

std::string Image(std::uint64_t sample) {
  std::mt19937_64 random(sample);
  return RandomBytes(random, 256 << 10);
}

DeltaUpdate New(std::uint64_t sample, std::uint64_t version) {
  DeltaUpdate update;
  update.segment.value = sample;
  update.record.version = version;
  update.record.image = Buffer::CopyOf(Bytes(Image(sample)));
  update.record.checksum = Checksum64(update.record.image.bytes());
  return update;
}

Status CommitOne(DeltaStore& store, std::uint64_t sample) {
  const DeltaUpdate update = New(sample, 1);
  return store.Commit(kEnd, std::span(&update, 1), nullptr);
}

void ExpectAllReadable(DeltaStore& store) {
  const auto inventory = store.Inventory(kEnd);
  for (const DeltaInventoryEntry& entry : *inventory) {
    const auto got = store.Get(kEnd, entry.segment);
    ASSERT_TRUE(got.ok() && got->has_value()) << entry.segment.value;
    EXPECT_EQ((*got)->checksum, Checksum64(Bytes(Image(entry.segment.value))));
  }
  EXPECT_EQ(store.stats().corrupt, 0u);
}

TEST_F(DiskFull, DeltaStore) {
  const DeltaStoreOptions options{disk_ / "deltas", 0, 4 << 20};
  std::size_t kept = 0;
  {
    auto store = OpenRocksDeltaStore(options);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    ASSERT_OK(CommitOne(**store, 0));
    ASSERT_OK((*store)->Flush());
    Fill();
    std::uint64_t sample = 1;
    while ((*store)->stats().lost == 0 && sample < 200) ASSERT_OK(CommitOne(**store, sample++));
    EXPECT_EQ((*store)->stats().lost, 1u);
    EXPECT_THAT((*store)->stats().trouble, ::testing::HasSubstr("free some"));
    EXPECT_EQ((*store)->stats().trouble.find('\n'), std::string::npos);
    --sample;  // the last one is lost
    EXPECT_EQ((*store)->Inventory(kEnd)->size(), sample);
    ExpectAllReadable(**store);
    Free();
    EXPECT_OK((*store)->Flush());
    EXPECT_EQ((*store)->stats().trouble, "");
    EXPECT_OK(CommitOne(**store, 500));
    EXPECT_OK((*store)->Flush());
    ExpectAllReadable(**store);
    kept = (*store)->Inventory(kEnd)->size();
    EXPECT_EQ(kept, sample + 1);
  }
  auto store = OpenRocksDeltaStore(options);
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  EXPECT_EQ((*store)->Inventory(kEnd)->size(), kept);
  ExpectAllReadable(**store);
}

TEST_F(DiskFull, WhatTheDiskRefusesToStageIsLostAtTheCommit) {
  auto store = *OpenRocksDeltaStore({disk_ / "deltas", 0, 4 << 20});
  for (std::uint64_t sample = 0; sample < 4; ++sample) ASSERT_OK(CommitOne(*store, sample));
  ASSERT_OK(store->Flush());
  const auto stage = [&](std::uint64_t sample) { ASSERT_OK(store->Stage(kEnd, New(sample, 2))); };
  stage(0);
  stage(1);
  Fill();
  stage(2);
  stage(9);
  EXPECT_EQ(store->stats().lost, 0u);
  std::vector<SegmentId> evicted;
  ASSERT_OK(store->CommitStaged(kEnd, 2, &evicted));
  EXPECT_EQ(evicted, (std::vector<SegmentId>{SegmentId{2}, SegmentId{9}}));
  EXPECT_EQ(store->Inventory(kEnd)->size(), 3u);
  EXPECT_THAT(store->stats().trouble, ::testing::HasSubstr("free some"));
  ExpectAllReadable(*store);
  Free();
  stage(2);
  ASSERT_OK(store->CommitStaged(kEnd, 2, &evicted));
  EXPECT_EQ(store->stats().trouble, "");
  EXPECT_EQ(store->Inventory(kEnd)->size(), 4u);
  ExpectAllReadable(*store);
}

TEST_F(DiskFull, AStoreThatCannotBeOpenedKeepsNothingAndSaysSo) {
  const DeltaStoreOptions options{disk_ / "deltas", 0, 4 << 20};
  Fill();
  EXPECT_EQ(OpenRocksDeltaStore(options).status().code(), StatusCode::kResourceExhausted);
  const auto store = OpenRocksDeltaStoreOrNone(options);
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  EXPECT_OK(CommitOne(**store, 1));
  EXPECT_TRUE((*store)->Inventory(kEnd)->empty());
  EXPECT_THAT((*store)->stats().notice, ::testing::HasSubstr("the disk was full"));
}

TEST_F(DiskFull, EventLog) {
  std::uint64_t written = 0;
  const std::string event(64 << 10, 'e');
  {
    auto log = OpenRocksEventLog(disk_ / "events");
    ASSERT_TRUE(log.ok()) << log.status().ToString();
    Fill(1 << 20);
    Result<std::uint64_t> number = log.value()->Append(event);
    while (number.ok() && *number < 1000) {
      written = *number;
      number = (*log)->Append(event);
    }
    EXPECT_EQ(number.status().code(), StatusCode::kResourceExhausted) << number.status().ToString();
    Free();
    number = (*log)->Append(event);
    ASSERT_TRUE(number.ok()) << number.status().ToString();
    EXPECT_EQ(*number, ++written);
  }
  auto log = OpenRocksEventLog(disk_ / "events");
  ASSERT_TRUE(log.ok()) << log.status().ToString();
  std::uint64_t seen = 0;
  EXPECT_OK((*log)->Replay([&](std::uint64_t, std::string_view bytes) {
    ++seen;
    return bytes == event ? Status::Ok() : DataLoss("other bytes");
  }));
  EXPECT_EQ(seen, written);
}

TEST_F(DiskFull, ContentStore) {
  auto store = OpenFileContentStore(disk_ / "content");
  ASSERT_TRUE(store.ok());
  const std::string bytes(1 << 20, 'b');
  const ContentHash hash = HashOf(Bytes(bytes));
  ASSERT_OK((*store)->AppendPartial(hash, 0, Bytes(bytes.substr(0, 1000))));
  Fill(8192);
  EXPECT_EQ((*store)->AppendPartial(hash, 1000, Bytes(bytes.substr(1000))).code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ((*store)->PartialSize(hash), 1000u);
  EXPECT_EQ((*store)->Put(Bytes(bytes)).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(NamesIn(disk_ / "content/blobs").empty());
  Free();
  ASSERT_OK((*store)->AppendPartial(hash, 1000, Bytes(bytes.substr(1000))));
  EXPECT_OK((*store)->FinishPartial(hash, bytes.size()));
}

TEST_F(DiskFull, CheckpointAndSafetensors) {
  auto store = OpenCheckpointStore(disk_ / "checkpoints");
  ASSERT_TRUE(store.ok());
  TensorSet set;
  set.Add("w", DType::kF32, {1 << 18});
  const auto write = [&](const std::string& folder) {
    return WriteSafetensors(folder + "/head", set.list, {});
  };
  ASSERT_TRUE((*store)->Save(RunId{1}, 1, write, 2).ok());
  Fill(16384);
  EXPECT_EQ((*store)->Save(RunId{1}, 2, write, 1).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(NamesIn(disk_ / "checkpoints/0000000000000001"),
            std::vector<std::string>{"step-000000000001"});
  EXPECT_TRUE((*store)->Load(RunId{1}, 1).ok());
  Free();
  EXPECT_TRUE((*store)->Save(RunId{1}, 2, write, 1).ok());
}

}  // namespace
}  // namespace shoal::storage
