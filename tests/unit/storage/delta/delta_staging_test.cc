// What a step stages: invisible until it is committed, gone when it is dropped or never committed.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "common/mutex.h"
#include "tests/unit/storage/delta/delta_store_test_support.h"

namespace shoal::storage {
namespace {

class DeltaStaging : public DeltaStoreSuite {
 protected:
  void Stage(const DeltaUpdate& update, const BoundaryEnd& boundary_end = kEnd) {
    EXPECT_OK(store_->Stage(boundary_end, update));
  }
  std::vector<SegmentId> CommitStaged(std::uint64_t version,
                                      const BoundaryEnd& boundary_end = kEnd) {
    std::vector<SegmentId> evicted;
    EXPECT_OK(store_->CommitStaged(boundary_end, version, &evicted));
    return evicted;
  }
  std::string Text(std::uint64_t sample, const BoundaryEnd& boundary_end = kEnd) {
    const auto record = Get(boundary_end, sample);
    return record ? TextOf(record->image) : "none";
  }
};

TEST_P(DeltaStaging, NothingIsVisibleBeforeTheCommit) {
  Commit(kEnd, List(Update(1, 1, "one")));
  const std::uint64_t checksum = *store_->ChecksumOf(kEnd);
  Stage(Update(1, 2, "one, too"));
  Stage(Update(2, 2, "two"));
  EXPECT_EQ(Text(1), "one");
  EXPECT_EQ(Text(2), "none");
  EXPECT_EQ(store_->Inventory(kEnd)->size(), 1u);
  EXPECT_EQ(*store_->ChecksumOf(kEnd), checksum);
  EXPECT_EQ(store_->stats().bytes, 3u);
  EXPECT_EQ(store_->stats().committed_bytes, 3u);
  EXPECT_EQ(store_->stats().staged_bytes, 11u);
  EXPECT_TRUE(CommitStaged(2).empty());
  EXPECT_EQ(Text(1), "one, too");
  EXPECT_EQ(Text(2), "two");
  EXPECT_EQ(Get(kEnd, 1)->version, 2u);
  EXPECT_NE(*store_->ChecksumOf(kEnd), checksum);
  EXPECT_EQ(store_->stats().bytes, 11u);
  EXPECT_EQ(store_->stats().committed_bytes, 14u);
  EXPECT_EQ(store_->stats().staged_bytes, 0u);
  EXPECT_TRUE(CommitStaged(2).empty());
  EXPECT_EQ(store_->stats().records, 2u);
}

TEST_P(DeltaStaging, OfTwoForASampleTheLaterCounts) {
  Stage(Update(1, 1, "first"));
  Stage(Update(1, 1, "second"));
  EXPECT_EQ(store_->stats().staged_bytes, 6u);
  CommitStaged(1);
  EXPECT_EQ(Text(1), "second");
  EXPECT_EQ(store_->stats().records, 1u);
}

// One call at a time, but from whichever thread of a pool, while others read the statistics.
TEST_P(DeltaStaging, ThreadsMayTakeTurnsWhileOthersReadStatistics) {
  constexpr std::uint64_t kThreads = 3, kVersions = 12, kSamplesOfThread = 5;
  Mutex turn;
  std::atomic<std::uint64_t> staged = 0;
  std::atomic<bool> done = false;
  const auto work = [&](std::uint64_t thread) {
    for (std::uint64_t version = 1; version <= kVersions; ++version) {
      for (std::uint64_t i = 0; i < kSamplesOfThread; ++i) {
        MutexLock lock(turn);
        const std::uint64_t sample = thread * kSamplesOfThread + i;
        Stage(Update(sample, version, Image(sample, version, 512)));
        // Whoever stages the last image of a version commits it.
        const std::uint64_t of_version = kThreads * kSamplesOfThread;
        if (++staged % of_version == 0) {
          EXPECT_TRUE(CommitStaged(staged / of_version).empty());
        }
      }
      while (staged < version * kThreads * kSamplesOfThread) std::this_thread::yield();
    }
  };
  std::thread reader([&] {
    std::uint64_t before = 0;
    while (!done) {
      const DeltaStoreStats stats = store_->stats();
      EXPECT_LE(before, stats.committed_bytes);
      before = stats.committed_bytes;
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) threads.emplace_back(work, t);
  for (std::thread& thread : threads) thread.join();
  done = true;
  reader.join();
  for (std::uint64_t sample = 0; sample < kThreads * kSamplesOfThread; ++sample) {
    EXPECT_EQ(Text(sample), Image(sample, kVersions, 512)) << sample;
  }
  EXPECT_EQ(store_->stats().committed_bytes, kThreads * kSamplesOfThread * kVersions * 512);
  EXPECT_EQ(store_->stats().staged_bytes, 0u);
}

// A step is staged while the commit of the one before still waits for the other end.
TEST_P(DeltaStaging, StepsAndPlacesAreApart) {
  BoundaryEnd sender = kEnd;
  sender.side = BoundarySide::kSender;
  Stage(Update(1, 2, "second step"));
  Stage(Update(1, 3, "third step"));
  Stage(Update(1, 2, "sender"), sender);
  CommitStaged(2);
  EXPECT_EQ(Text(1), "second step");
  EXPECT_EQ(Text(1, sender), "none");
  CommitStaged(2, sender);
  EXPECT_EQ(Text(1, sender), "sender");
  CommitStaged(3);
  EXPECT_EQ(Text(1), "third step");
}

TEST_P(DeltaStaging, WhatIsDroppedIsForgottenAndWhatWasThereStays) {
  Commit(kEnd, List(Update(1, 1, "one")));
  Stage(Update(1, 2, "applied"));
  Stage(Update(1, 3, "given up"));
  Stage(Update(2, 3, "given up"));
  ASSERT_OK(store_->DropStaged(kEnd, 3));
  ASSERT_OK(store_->DropStaged(kEnd, 9));
  EXPECT_EQ(store_->stats().staged_bytes, 7u);
  EXPECT_TRUE(CommitStaged(3).empty());
  EXPECT_EQ(Text(1), "one");
  Stage(Update(2, 3, "again"));
  CommitStaged(2);
  CommitStaged(3);
  EXPECT_EQ(Text(1), "applied");
  EXPECT_EQ(Text(2), "again");
}

TEST_P(DeltaStaging, ARollbackForgetsAllThatIsStaged) {
  BoundaryEnd other_run = kEnd;
  other_run.run.value += 1;
  Stage(Update(1, 1, "older"));
  Stage(Update(1, 5, "newer"));
  Stage(Update(1, 1, "of another run"), other_run);
  ASSERT_OK(store_->DropNewerThan(kEnd.run, 2));
  EXPECT_EQ(store_->stats().staged_bytes, 0u);
  CommitStaged(1);
  CommitStaged(5);
  CommitStaged(1, other_run);
  EXPECT_TRUE(store_->Ends().empty());
}

TEST_P(DeltaStaging, TheQuotaCountsWhenAStepIsCommitted) {
  Open(1000);
  BoundaryEnd sender = kEnd;
  sender.side = BoundarySide::kSender;
  Commit(kEnd, List(Update(1, 1, Image(1, 1, 300))));
  Stage(Update(1, 2, Image(1, 2, 300)));
  Stage(Update(2, 2, Image(2, 2, 300)));
  Stage(Update(1, 2, Image(3, 2, 600)), sender);
  Stage(Update(3, 2, Image(3, 2, 300)));
  EXPECT_EQ(store_->stats().staged_bytes, 1500u);
  EXPECT_TRUE(CommitStaged(2, sender).empty());
  EXPECT_EQ(CommitStaged(2), (std::vector<SegmentId>{SegmentId{2}, SegmentId{3}}));
  EXPECT_EQ(store_->stats().bytes, 900u);
  EXPECT_EQ(store_->stats().evicted, 2u);
  EXPECT_EQ(store_->stats().staged_bytes, 0u);
  // A replacement that does not fit takes the outdated record away.
  Stage(Update(1, 3, Image(1, 3, 500)));
  EXPECT_EQ(Text(1), Image(1, 2, 300));
  EXPECT_EQ(CommitStaged(3), std::vector<SegmentId>{SegmentId{1}});
  EXPECT_EQ(Text(1), "none");
}

TEST_P(DeltaStaging, WhatTheQuotaWillRefuseIsNotWritten) {
  Open(1000);
  BoundaryEnd residual = kEnd;
  residual.side = BoundarySide::kResidual;
  Commit(kEnd, List(Update(1, 1, Image(1, 1, 400)), Update(2, 1, Image(2, 1, 400))));
  Stage(Update(3, 2, Image(3, 2, 300)));
  Stage(Update(1, 2, Image(1, 2, 500)));
  Stage(Update(4, 2, Image(4, 2, 200)));
  EXPECT_EQ(store_->stats().staged_bytes, 500u);
  EXPECT_EQ(CommitStaged(2), (std::vector<SegmentId>{SegmentId{3}, SegmentId{4}}));
  // Residuals would make room.
  Open(1000);
  ASSERT_OK(store_->DropRun(kEnd.run));
  Commit(residual, List(Update(1, 1, Image(1, 1, 900))));
  Stage(Update(3, 2, Image(3, 2, 300)));
  EXPECT_EQ(store_->stats().staged_bytes, 300u);
  EXPECT_TRUE(CommitStaged(2).empty());
  EXPECT_EQ(store_->Ends(), std::vector<BoundaryEnd>{kEnd});
}

// Against plain maps, through thousands of random calls.
TEST_P(DeltaStaging, AgreesWithPlainMaps) {
  using Model = std::map<std::uint64_t, std::pair<std::uint64_t, std::string>>;
  Model records;
  std::map<std::uint64_t, Model> staged;  // by version
  std::mt19937_64 random(17);
  std::uint64_t step = 1;
  for (int i = 0; i < 1500; ++i) {
    const std::uint64_t version = step + random() % 2;
    const std::uint64_t sample = random() % 24, kind = random() % 100;
    if (kind < 80) {
      const std::string image = Image(sample, static_cast<std::uint64_t>(i), random() % 30000);
      Stage(Update(sample, version, image));
      staged[version][sample] = {version, image};
    } else if (kind < 84) {
      ASSERT_OK(store_->DropStaged(kEnd, version));
      staged.erase(version);
    } else if (kind < 94) {
      CommitStaged(step);
      for (const auto& [made, record] : staged[step]) records[made] = record;
      staged.erase(step++);
    } else if (kind < 96) {
      ASSERT_OK(store_->Flush());
    } else if (kind < 98) {
      ASSERT_OK(store_->Compact());
    } else if (GetParam().on_disk) {
      Open(0);
      staged.clear();
    }
    std::uint64_t bytes = 0;
    for (const auto& [of, model] : staged) {
      for (const auto& [made, record] : model) bytes += record.second.size();
    }
    ASSERT_EQ(store_->stats().staged_bytes, bytes);
    ASSERT_EQ(store_->stats().records, records.size());
    ASSERT_EQ(Text(sample), records.contains(sample) ? records.at(sample).second : "none") << i;
  }
  for (const auto& [sample, record] : records) EXPECT_EQ(Text(sample), record.second);
  EXPECT_EQ(store_->stats().corrupt, 0u);
  EXPECT_GT(step, 50u);
}

SHOAL_ON_BOTH_BACKENDS(DeltaStaging);

// --- the files ---

class StagedFiles : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 64 << 10;  // sixteen fill a file

  void SetUp() override { Open(); }
  void Open() {
    store_.reset();
    store_ = *OpenRocksDeltaStore({path_, 0, 4 << 20});
  }
  void Stage(std::uint64_t sample, std::uint64_t version) {
    ASSERT_OK(store_->Stage(kEnd, Update(sample, version, Image(sample, version, kBytes))));
  }
  void Commit(std::uint64_t sample, std::uint64_t version) {
    ASSERT_OK(store_->Commit(kEnd, List(Update(sample, version, Image(sample, version, kBytes))),
                             nullptr));
  }
  void CommitStaged(std::uint64_t version) {
    std::vector<SegmentId> evicted;
    ASSERT_OK(store_->CommitStaged(kEnd, version, &evicted));
    EXPECT_TRUE(evicted.empty());
  }
  void Expect(std::uint64_t sample, std::uint64_t version) {
    const auto got = store_->Get(kEnd, SegmentId{sample});
    ASSERT_TRUE(got.ok() && got->has_value()) << sample;
    EXPECT_EQ(TextOf((*got)->image), Image(sample, version, kBytes)) << sample;
  }
  std::uint64_t ImageBytes() const {
    std::uint64_t bytes = 0;
    for (const auto& file : std::filesystem::directory_iterator(path_ + "/images")) {
      bytes += file.file_size();
    }
    return bytes;
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "deltas";
  std::unique_ptr<DeltaStore> store_;
};

TEST_F(StagedFiles, ACommitWritesHeadersOnly) {
  for (std::uint64_t sample = 0; sample < 8; ++sample) Stage(sample, 1);
  const std::uint64_t written = store_->stats().disk_written_bytes;
  EXPECT_GE(written, 8 * kBytes);
  CommitStaged(1);
  EXPECT_EQ(store_->stats().disk_written_bytes, written);
  EXPECT_EQ(store_->stats().records, 8u);
}

TEST_F(StagedFiles, APipeAmongThemHangsNobody) {
  Stage(1, 1);
  CommitStaged(1);
  std::string image;
  for (const auto& file : std::filesystem::directory_iterator(path_ + "/images")) {
    image = file.path().string();
  }
  std::filesystem::remove(image);
  ASSERT_EQ(::mkfifo(image.c_str(), 0600), 0);
  const auto got = store_->Get(kEnd, SegmentId{1});
  EXPECT_TRUE(got.ok() && !got->has_value()) << "a miss, as with any damage";
  store_.reset();
  const auto opened = OpenRocksDeltaStore({path_, 0, 4 << 20});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(opened.status().message().find(image + " is not a regular file"), std::string::npos);
}

TEST_F(StagedFiles, WhatWasNotCommittedIsGarbageAfterAnEnd) {
  for (std::uint64_t sample = 0; sample < 40; ++sample) Stage(sample, 1);
  EXPECT_GE(ImageBytes(), 40 * kBytes);
  Open();
  EXPECT_EQ(store_->stats().records, 0u);
  EXPECT_EQ(ImageBytes(), 0u);
  Commit(50, 1);
  for (std::uint64_t sample = 0; sample < 4; ++sample) Stage(sample, 2);
  ASSERT_OK(store_->Flush());
  Open();
  EXPECT_EQ(store_->stats().records, 1u);
  Expect(50, 1);
  ASSERT_OK(store_->Compact());
  Expect(50, 1);
  EXPECT_LT(ImageBytes(), 2 * kBytes);
}

TEST_F(StagedFiles, AFileWhoseOnlyUseIsWhatIsStagedIsKept) {
  Stage(99, 2);
  for (std::uint64_t version = 1; version <= 3; ++version) {
    for (std::uint64_t sample = 0; sample < 40; ++sample) Commit(sample, version);
    ASSERT_OK(store_->Flush());
  }
  EXPECT_LT(ImageBytes(), 3 * 40 * kBytes);
  CommitStaged(2);
  Expect(99, 2);
}

TEST_F(StagedFiles, CompactingLeavesWhatIsStagedWhereItIs) {
  for (std::uint64_t sample = 0; sample < 60; ++sample) {
    Commit(sample, 1);
    if (sample % 3 == 0) Stage(100 + sample, 3);
  }
  for (std::uint64_t sample = 0; sample < 60; sample += 2) Commit(sample, 2);
  ASSERT_OK(store_->Compact());
  for (std::uint64_t sample = 0; sample < 60; ++sample) Expect(sample, sample % 2 == 0 ? 2 : 1);
  CommitStaged(3);
  for (std::uint64_t sample = 0; sample < 60; sample += 3) Expect(100 + sample, 3);
  ASSERT_OK(store_->Compact());
  for (std::uint64_t sample = 0; sample < 60; ++sample) Expect(sample, sample % 2 == 0 ? 2 : 1);
  for (std::uint64_t sample = 0; sample < 60; sample += 3) Expect(100 + sample, 3);
  EXPECT_LT(ImageBytes(), 80 * kBytes + (2 << 20));
  EXPECT_EQ(store_->stats().corrupt, 0u);
}

TEST_F(StagedFiles, WhatIsDroppedGivesItsSpaceBack) {
  for (std::uint64_t version = 1; version <= 6; ++version) {
    for (std::uint64_t sample = 0; sample < 40; ++sample) Stage(sample, version);
    ASSERT_OK(store_->DropStaged(kEnd, version));
    ASSERT_OK(store_->Flush());
  }
  EXPECT_LT(ImageBytes(), 40 * kBytes);
}

std::set<std::string> Names(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    names.insert(file.path().filename());
  }
  return names;
}

// New bytes go where dead ones were, but not before a flush: after a crash older headers hold.
TEST_F(StagedFiles, DeadFilesAreWrittenAnew) {
  std::set<std::string> before;
  // An epoch has three steps.
  for (std::uint64_t version = 1; version <= 12; ++version) {
    const std::uint64_t first = version % 3 * 40;
    for (std::uint64_t sample = first; sample < first + 40; ++sample) Stage(sample, version);
    CommitStaged(version);
    for (std::uint64_t sample = first; sample < first + 40; ++sample) Expect(sample, version);
    ASSERT_OK(store_->Flush());
    EXPECT_LT(ImageBytes(), 2 * 120 * kBytes);
    if (version == 4) before = Names(path_ + "/images");
  }
  std::set<std::string> both = Names(path_ + "/images");
  std::erase_if(both, [&](const std::string& name) { return !before.contains(name); });
  EXPECT_GE(both.size(), 5u);
  Open();
  for (std::uint64_t sample = 0; sample < 120; ++sample) {
    Expect(sample, sample < 40 ? 12 : sample < 80 ? 10 : 11);
  }
}

// Records of other sizes than those that were there, and an end in the middle of a file.
TEST_F(StagedFiles, AFileWrittenAnewHasNothingOfItsFormerLife) {
  std::mt19937_64 random(3);
  std::map<std::uint64_t, std::string> records;
  for (std::uint64_t version = 1; version <= 30; ++version) {
    for (int i = 0; i < 30; ++i) {
      const std::uint64_t sample = random() % 40;
      const std::string image =
          Image(sample, random(), random() % 3 == 0 ? 70'000 : random() % 9000);
      ASSERT_OK(store_->Stage(kEnd, Update(sample, version, image)));
      records[sample] = image;
    }
    CommitStaged(version);
    if (version % 3 == 0) {
      ASSERT_OK(store_->Flush());
    }
    if (version % 10 == 0) {
      ASSERT_OK(store_->Compact());
    }
    if (version % 7 == 0) Open();
    for (const auto& [sample, image] : records) {
      const auto got = store_->Get(kEnd, SegmentId{sample});
      ASSERT_TRUE(got.ok() && got->has_value()) << sample << " of step " << version;
      ASSERT_EQ(TextOf((*got)->image), image);
    }
  }
  EXPECT_EQ(store_->stats().corrupt, 0u);
}

TEST_F(StagedFiles, AFolderDeletedWhileInUseTakesWhatIsStagedAlong) {
  Commit(1, 1);
  ASSERT_OK(store_->Flush());
  for (std::uint64_t sample = 2; sample < 40; ++sample) Stage(sample, 2);
  std::filesystem::remove_all(path_);
  EXPECT_FALSE((*store_->Get(kEnd, SegmentId{1})).has_value());
  EXPECT_EQ(store_->stats().staged_bytes, 0u);
  Stage(50, 2);
  std::vector<SegmentId> evicted;
  ASSERT_OK(store_->CommitStaged(kEnd, 2, &evicted));
  EXPECT_EQ(evicted.size(), 39u);
  EXPECT_EQ(store_->stats().lost, 38u);
  Expect(50, 2);
  ASSERT_OK(store_->Flush());
  Open();
  Expect(50, 2);
}

}  // namespace
}  // namespace shoal::storage
