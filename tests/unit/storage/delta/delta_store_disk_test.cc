// The delta store on damaged, full and vanished disks, and its files.

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>

#include "delta_store_test_support.h"
#include "storage/delta/indexed_delta_store.h"

namespace shoal::storage {
namespace {

using ::testing::HasSubstr;

// --- damage below the store ---

// A backend whose bytes the test can change.
class OpenBackend final : public DeltaBackend {
 public:
  using Values = std::map<std::string, std::string>;
  OpenBackend(Values* headers, Values* values, const Status* broken)
      : headers_(headers), values_(values), broken_(broken) {}
  Status VisitHeaders(
      const std::function<void(std::string_view, std::span<const std::byte>)>& visit) override {
    for (const auto& [key, header] : *headers_) visit(key, Bytes(header));
    return Status::Ok();
  }
  Status Read(const std::string& key, DeltaHeaderBytes* header, Buffer* image) override {
    if (!broken_->ok()) return *broken_;
    if (values_->count(key) == 0) return NotFound("gone");
    const auto value = Bytes(values_->at(key));
    std::copy_n(value.begin(), header->size(), header->begin());
    *image = Buffer::CopyOf(value.subspan(header->size()));
    return Status::Ok();
  }
  Result<StagedImage> Stage(const std::string&, const DeltaHeaderBytes&,
                            std::span<const std::byte> image) override {
    if (!broken_->ok()) return *broken_;
    staged_[++last_staged_].assign(reinterpret_cast<const char*>(image.data()), image.size());
    return last_staged_;
  }
  void Unstage(StagedImage image) override { EXPECT_EQ(staged_.erase(image), 1u); }
  Status Write(std::span<const Put> puts, std::span<const std::string> removals) override {
    std::vector<std::string> images;
    for (const Put& put : puts) images.push_back(staged_.extract(put.image).mapped());
    if (!broken_->ok()) return *broken_;
    for (std::size_t i = 0; i < puts.size(); ++i) {
      const std::string header(reinterpret_cast<const char*>(puts[i].header.data()),
                               puts[i].header.size());
      (*headers_)[puts[i].key] = header;
      (*values_)[puts[i].key] = header + images[i];
    }
    for (const std::string& key : removals) {
      headers_->erase(key);
      values_->erase(key);
    }
    return Status::Ok();
  }
  Status Flush() override { return *broken_; }
  Status Compact() override { return *broken_; }
  bool BeginAnewIfGone() override {
    if (broken_->code() != StatusCode::kNotFound) return false;
    headers_->clear();
    values_->clear();
    staged_.clear();
    return true;
  }
  Usage usage() const override { return {}; }

 private:
  Values* const headers_;
  Values* const values_;
  const Status* const broken_;  // what every call fails with, if it is not OK
  std::map<StagedImage, std::string> staged_;
  StagedImage last_staged_ = 0;
};

// The index in memory has room for so many records, about 1.1 million by default.
TEST(DeltaStoreIndexBound, RecordsBeyondItAreRefusedAndWhatIsThereStays) {
  OpenBackend::Values headers, values;
  Status broken;
  std::unique_ptr<DeltaStore> store;
  const auto open = [&](std::uint64_t records_max) {
    store = *NewIndexedDeltaStore(std::make_unique<OpenBackend>(&headers, &values, &broken),
                                  {.records = records_max});
  };
  const auto refused = [&](const BoundaryEnd& boundary_end, std::uint64_t sample,
                           std::uint64_t version) {
    std::vector<SegmentId> evicted;
    EXPECT_OK(store->Commit(boundary_end, List(Update(sample, version, "m")), &evicted));
    EXPECT_TRUE(evicted.empty() || evicted == std::vector<SegmentId>{SegmentId{sample}});
    return !evicted.empty();
  };
  open(3);
  for (const std::uint64_t sample : {1u, 2u, 3u}) EXPECT_FALSE(refused(kEnd, sample, 1));
  EXPECT_TRUE(refused(kEnd, 4, 1));
  EXPECT_FALSE(refused(kEnd, 2, 2)) << "a replacement needs no more room";
  EXPECT_FALSE((*store->Get(kEnd, SegmentId{4})).has_value());
  EXPECT_EQ((*store->Get(kEnd, SegmentId{2}))->version, 2u);
  EXPECT_EQ(store->stats().records, 3u);
  EXPECT_EQ(store->stats().evicted, 1u);
  EXPECT_EQ(headers.size(), 3u);

  const SegmentId gone[] = {SegmentId{1}};
  EXPECT_OK(store->Drop(kEnd, gone, UINT64_MAX));
  EXPECT_FALSE(refused(kEnd, 4, 2));
  BoundaryEnd newer_run = kEnd;
  newer_run.run.value += 1;
  EXPECT_FALSE(refused(newer_run, 1, 1)) << "records of other runs go first";
  EXPECT_EQ(store->Inventory(kEnd)->size(), 2u);

  // A smaller bound than what is held: nothing new, and what is visited shrinks to it.
  open(2);
  EXPECT_EQ(store->stats().records, 3u);
  EXPECT_FALSE(refused(newer_run, 2, 1));
  EXPECT_EQ(store->stats().records, 2u);
  EXPECT_TRUE(refused(newer_run, 3, 1));
  open(1);
  EXPECT_TRUE(refused(newer_run, 2, 2)) << "the other end has a newer m, so the old one goes, too";
  EXPECT_EQ(store->stats().records, 1u);
  EXPECT_FALSE(refused(newer_run, 1, 2));
}

class DamagedDeltaStore : public ::testing::Test {
 protected:
  void SetUp() override {
    Open();
    ASSERT_OK(store_->Commit(kEnd, List(Update(1, 1, "one"), Update(2, 2, "two")), nullptr));
  }
  void Open() {
    store_ = *NewIndexedDeltaStore(std::make_unique<OpenBackend>(&headers_, &values_, &broken_),
                                   DeltaLimits());
  }
  // Sample 1 is a counted miss and is gone; sample 2 is not touched.
  void ExpectMissOfSampleOne() {
    const auto got = store_->Get(kEnd, SegmentId{1});
    ASSERT_TRUE(got.ok());
    EXPECT_FALSE(got->has_value());
    EXPECT_EQ(store_->stats().corrupt, 1u);
    EXPECT_EQ(store_->stats().misses, 1u);
    EXPECT_EQ(store_->stats().records, 1u);
    EXPECT_EQ(store_->Inventory(kEnd)->size(), 1u);
    EXPECT_EQ(headers_.count(key_), 0u);
    EXPECT_EQ(values_.count(key_), 0u);
    EXPECT_TRUE((*store_->Get(kEnd, SegmentId{2})).has_value());
  }
  const std::string key_ = EncodeDeltaKey({kEnd, SegmentId{1}});
  OpenBackend::Values headers_;
  OpenBackend::Values values_;
  Status broken_;
  std::unique_ptr<DeltaStore> store_;
};

std::vector<std::uint64_t> Numbers(const std::vector<SegmentId>& samples) {
  std::vector<std::uint64_t> numbers;
  for (const SegmentId sample : samples) numbers.push_back(sample.value);
  return numbers;
}

TEST_F(DamagedDeltaStore, ADiskThatRefusesMakesRecordsMissAndTheCallSucceed) {
  broken_ = ResourceExhausted("the disk is full");
  std::vector<SegmentId> evicted;
  ASSERT_OK(store_->Commit(kEnd, List(Update(2, 3, "two'"), Update(3, 3, "three")), &evicted));
  // Neither the new m nor the outdated one may be served: the other end has the new one.
  EXPECT_EQ(Numbers(evicted), (std::vector<std::uint64_t>{2, 3}));
  EXPECT_FALSE((*store_->Get(kEnd, SegmentId{2})).has_value());
  EXPECT_EQ(store_->stats().lost, 2u);
  EXPECT_THAT(store_->stats().trouble, HasSubstr("the disk is full"));
  EXPECT_EQ(store_->Inventory(kEnd)->size(), 1u);
  broken_ = Status::Ok();
  evicted.clear();
  ASSERT_OK(store_->Commit(kEnd, List(Update(2, 4, "two''")), &evicted));
  EXPECT_TRUE(evicted.empty());
  EXPECT_EQ(store_->stats().trouble, "");
  EXPECT_EQ(TextOf((*store_->Get(kEnd, SegmentId{2}))->image), "two''");
}

TEST_F(DamagedDeltaStore, WhatCouldNotBeStagedIsLostAtTheCommitAndTheRestIsKept) {
  ASSERT_OK(store_->Stage(kEnd, Update(1, 3, "one'")));
  broken_ = ResourceExhausted("the disk is full");
  ASSERT_OK(store_->Stage(kEnd, Update(2, 3, "two'")));
  ASSERT_OK(store_->Stage(kEnd, Update(3, 3, "three")));
  broken_ = Status::Ok();
  ASSERT_OK(store_->Stage(kEnd, Update(3, 3, "three'")));
  EXPECT_EQ((*store_->Get(kEnd, SegmentId{2}))->version, 2u);  // until the step is applied
  std::vector<SegmentId> evicted;
  ASSERT_OK(store_->CommitStaged(kEnd, 3, &evicted));
  EXPECT_EQ(Numbers(evicted), std::vector<std::uint64_t>{2});
  EXPECT_FALSE((*store_->Get(kEnd, SegmentId{2})).has_value());
  EXPECT_EQ(headers_.size(), 2u);
  EXPECT_EQ(TextOf((*store_->Get(kEnd, SegmentId{1}))->image), "one'");
  EXPECT_EQ(TextOf((*store_->Get(kEnd, SegmentId{3}))->image), "three'");
  EXPECT_EQ(store_->stats().lost, 1u);
  EXPECT_THAT(store_->stats().trouble, HasSubstr("the disk is full"));
  ASSERT_OK(store_->Commit(kEnd, List(Update(2, 4, "two''")), &evicted));
  EXPECT_EQ(store_->stats().trouble, "");
}

TEST_F(DamagedDeltaStore, ADiskThatRefusesTheHeadersLosesWhatWasStaged) {
  ASSERT_OK(store_->Stage(kEnd, Update(1, 3, "one'")));
  ASSERT_OK(store_->Stage(kEnd, Update(3, 3, "three")));
  broken_ = ResourceExhausted("the disk is full");
  std::vector<SegmentId> evicted;
  ASSERT_OK(store_->CommitStaged(kEnd, 3, &evicted));
  EXPECT_EQ(Numbers(evicted), (std::vector<std::uint64_t>{1, 3}));
  EXPECT_EQ(store_->stats().lost, 2u);
  EXPECT_EQ(store_->stats().staged_bytes, 0u);
  EXPECT_EQ(store_->Inventory(kEnd)->size(), 1u);
}

TEST_F(DamagedDeltaStore, WhatIsStagedGoesWithAStoreThatIsGone) {
  ASSERT_OK(store_->Stage(kEnd, Update(7, 3, "seven")));
  ASSERT_OK(store_->Stage(kEnd, Update(8, 4, "eight")));
  broken_ = NotFound("no such folder");
  EXPECT_FALSE((*store_->Get(kEnd, SegmentId{1})).has_value());
  EXPECT_EQ(store_->stats().staged_bytes, 0u);
  broken_ = Status::Ok();
  ASSERT_OK(store_->Stage(kEnd, Update(9, 3, "nine")));
  std::vector<SegmentId> evicted;
  ASSERT_OK(store_->CommitStaged(kEnd, 3, &evicted));
  EXPECT_EQ(Numbers(evicted), (std::vector<std::uint64_t>{1, 2, 7}));
  EXPECT_EQ(store_->stats().records, 1u);
  ASSERT_OK(store_->DropStaged(kEnd, 4));
  EXPECT_EQ(TextOf((*store_->Get(kEnd, SegmentId{9}))->image), "nine");
}

TEST_F(DamagedDeltaStore, WhatCannotBeReadIsAMissAndIsToldAtTheNextCommit) {
  broken_ = Unavailable("the disk is not there");
  EXPECT_FALSE((*store_->Get(kEnd, SegmentId{1})).has_value());
  broken_ = Status::Ok();
  std::vector<SegmentId> evicted;
  ASSERT_OK(store_->Commit(kEnd, List(Update(9, 3, "nine")), &evicted));
  EXPECT_EQ(Numbers(evicted), std::vector<std::uint64_t>{1});
  evicted.clear();
  ASSERT_OK(store_->Commit(kEnd, List(Update(9, 4, "nine")), &evicted));
  EXPECT_TRUE(evicted.empty());  // once is enough
  // What was lost and made anew in the same step is not missing.
  values_.erase(EncodeDeltaKey({kEnd, SegmentId{2}}));
  EXPECT_FALSE((*store_->Get(kEnd, SegmentId{2})).has_value());
  ASSERT_OK(store_->Commit(kEnd, List(Update(2, 5, "two")), &evicted));
  EXPECT_TRUE(evicted.empty());
}

TEST_F(DamagedDeltaStore, AStoreThatIsGoneBeginsAnewAndTellsAllLosses) {
  broken_ = NotFound("no such folder");
  std::vector<SegmentId> evicted;
  ASSERT_OK(store_->Commit(kEnd, List(Update(5, 3, "five")), &evicted));
  EXPECT_EQ(Numbers(evicted), (std::vector<std::uint64_t>{1, 2, 5}));
  EXPECT_EQ(store_->stats().records, 0u);
  EXPECT_EQ(store_->stats().bytes, 0u);
  EXPECT_THAT(store_->stats().notice, HasSubstr("was deleted while in use"));
  broken_ = Status::Ok();
  ASSERT_OK(store_->Commit(kEnd, List(Update(5, 4, "five")), nullptr));
  EXPECT_TRUE((*store_->Get(kEnd, SegmentId{5})).has_value());
}

TEST_F(DamagedDeltaStore, AFlippedImageBitIsAMiss) {
  values_[key_].back() = static_cast<char>(values_[key_].back() ^ 1);
  ExpectMissOfSampleOne();
}

TEST_F(DamagedDeltaStore, AMissingImageIsAMiss) {
  values_.erase(key_);
  ExpectMissOfSampleOne();
}

TEST_F(DamagedDeltaStore, AnotherVersionThanTheIndexSaysIsAMiss) {
  values_[key_] = Value(key_, Update(1, 7, "one").record);
  ExpectMissOfSampleOne();
}

TEST_F(DamagedDeltaStore, ADamagedHeaderIsDroppedAtOpen) {
  headers_[key_][20] = static_cast<char>(headers_[key_][20] ^ 1);
  headers_["short"] = "x";
  Open();
  EXPECT_EQ(store_->stats().corrupt, 2u);
  EXPECT_EQ(store_->stats().records, 1u);
  EXPECT_EQ(headers_.size(), 1u);
  EXPECT_FALSE((*store_->Get(kEnd, SegmentId{1})).has_value());
  EXPECT_TRUE((*store_->Get(kEnd, SegmentId{2})).has_value());
}

// --- RocksDB on disk ---

class RocksDeltaStore : public ::testing::Test {
 protected:
  std::unique_ptr<DeltaStore> Open() {
    auto opened = OpenRocksDeltaStore({path_, 0, 4 << 20});
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    return std::move(*opened);
  }
  TemporaryFolder folder_;
  const std::string path_ = folder_ / "deltas";
};

TEST_F(RocksDeltaStore, SurvivesCloseAndReopen) {
  std::uint64_t checksum = 0;
  {
    const auto store = Open();
    for (std::uint64_t sample = 0; sample < 50; ++sample) {
      ASSERT_OK(store->Commit(kEnd, List(Update(sample, 1, Image(sample, 1))), nullptr));
    }
    const SegmentId dropped[] = {SegmentId{3}};
    ASSERT_OK(store->Drop(kEnd, dropped, 1));
    checksum = *store->ChecksumOf(kEnd);
  }
  const auto store = Open();
  EXPECT_EQ(*store->ChecksumOf(kEnd), checksum);
  EXPECT_EQ(store->stats().records, 49u);
  EXPECT_EQ(store->stats().bytes, 49u * 8192);
  for (std::uint64_t sample = 0; sample < 50; ++sample) {
    const auto got = store->Get(kEnd, SegmentId{sample});
    ASSERT_TRUE(got.ok());
    ASSERT_EQ(got->has_value(), sample != 3) << sample;
    if (got->has_value()) {
      EXPECT_EQ(TextOf((*got)->image), Image(sample, 1));
    }
  }
}

TEST_F(RocksDeltaStore, ImagesLieInImageFilesAndNoLogIsKept) {
  const auto store = Open();
  ASSERT_OK(store->Commit(kEnd, List(Update(1, 1, Image(1, 1, 100000))), nullptr));
  ASSERT_OK(store->Flush());
  std::uintmax_t image_bytes = 0;
  std::uintmax_t log_bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
    if (entry.path().extension() == ".images") image_bytes += entry.file_size();
    if (entry.path().extension() == ".log") log_bytes += entry.file_size();
  }
  EXPECT_GT(image_bytes, 100000u);
  EXPECT_EQ(log_bytes, 0u);
}

TEST_F(RocksDeltaStore, ASecondOpenerIsToldWhoHoldsTheLock) {
  const auto store = Open();
  const auto second = OpenRocksDeltaStore({path_, 0, 4 << 20});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr("another shoald uses " + path_));
  EXPECT_EQ(second.status().message().find('\n'), std::string::npos);
}

TEST_F(RocksDeltaStore, AFlippedBitOnDiskIsAMissAndTheOthersStay) {
  {
    const auto store = Open();
    ASSERT_OK(
        store->Commit(kEnd, List(Update(1, 1, Image(1, 1)), Update(2, 1, Image(2, 1))), nullptr));
    ASSERT_OK(store->Flush());
  }
  int flipped = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
    if (entry.path().extension() != ".images") continue;
    std::string bytes = ReadAll(entry.path().string());
    const std::size_t at = bytes.find(Image(1, 1));
    if (at == std::string::npos) continue;
    bytes[at + 4000] = static_cast<char>(bytes[at + 4000] ^ 0x10);
    WriteAll(entry.path().string(), bytes);
    ++flipped;
  }
  ASSERT_EQ(flipped, 1);
  {
    const auto store = Open();
    const auto got = store->Get(kEnd, SegmentId{1});
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_FALSE(got->has_value());
    EXPECT_EQ(store->stats().corrupt, 1u);
    EXPECT_EQ(TextOf((*store->Get(kEnd, SegmentId{2}))->image), Image(2, 1));
    ASSERT_OK(store->Flush());
  }
  EXPECT_EQ(Open()->Inventory(kEnd)->size(), 1u);  // dropped for good
}

constexpr std::uint64_t kCrashSteps = 60;
constexpr std::uint64_t kSamplesPerStep = 4;
constexpr std::uint64_t kFlushedStep = 5;

// Ends without closing the store, as a power cut would end it.
[[noreturn]] void CommitAndCrash(const std::string& path) {
  auto store = OpenRocksDeltaStore({path, 0, 4 << 20});
  if (!store.ok()) ::_exit(1);
  for (std::uint64_t step = 1; step <= kCrashSteps; ++step) {
    std::vector<DeltaUpdate> updates;
    for (std::uint64_t i = 0; i < kSamplesPerStep; ++i) {
      const std::uint64_t sample = step * kSamplesPerStep + i;
      updates.push_back(Update(sample, step, Image(sample, step, 32768)));
    }
    if (!(*store)->Commit(kEnd, updates, nullptr).ok()) ::_exit(2);
    if (step == kFlushedStep && !(*store)->Flush().ok()) ::_exit(3);
  }
  ::_exit(7);
}

TEST_F(RocksDeltaStore, ACrashLeavesAPrefixOfWholeSteps) {
  // The crashing process is this test run again, so the folder's name must be handed to it.
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const char* inherited = std::getenv("SHOAL_CRASH_FOLDER");
  const std::string path = inherited == nullptr ? path_ : inherited;
  if (inherited != nullptr) std::filesystem::remove_all(folder_.path());  // nobody else will
  ASSERT_EQ(::setenv("SHOAL_CRASH_FOLDER", path.c_str(), 1), 0);
  EXPECT_EXIT(CommitAndCrash(path), ::testing::ExitedWithCode(7), "");
  ::unsetenv("SHOAL_CRASH_FOLDER");
  const auto store = Open();
  const auto inventory = store->Inventory(kEnd);
  ASSERT_TRUE(inventory.ok());
  EXPECT_EQ(inventory->size() % kSamplesPerStep, 0u);
  EXPECT_GE(inventory->size(), kFlushedStep * kSamplesPerStep);
  EXPECT_LT(inventory->size(), kCrashSteps * kSamplesPerStep);  // the tail was in memory only
  std::uint64_t expected = kSamplesPerStep;
  for (const DeltaInventoryEntry& entry : *inventory) {
    EXPECT_EQ(entry.segment.value, expected);
    EXPECT_EQ(entry.version, expected / kSamplesPerStep);
    const auto got = store->Get(kEnd, entry.segment);
    ASSERT_TRUE(got.ok() && got->has_value());
    EXPECT_EQ(TextOf((*got)->image), Image(expected, entry.version, 32768));
    ++expected;
  }
  EXPECT_EQ(store->stats().corrupt, 0u);
}

TEST_F(RocksDeltaStore, ManyEpochsDoNotGrowTheFolderWithoutEnd) {
  const auto store = Open();
  constexpr std::uint64_t kSamples = 64;
  constexpr std::size_t kBytes = 64 << 10;  // 4 MiB live
  for (std::uint64_t epoch = 1; epoch <= 12; ++epoch) {
    for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
      ASSERT_OK(
          store->Commit(kEnd, List(Update(sample, epoch, Image(sample, epoch, kBytes))), nullptr));
    }
    ASSERT_OK(store->Flush());
  }
  std::uintmax_t image_bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path_)) {
    std::error_code error;
    const auto size = entry.file_size(error);
    if (!error && entry.path().extension() == ".images") image_bytes += size;
  }
  EXPECT_LT(image_bytes, 3 * kSamples * kBytes);  // 12 epochs were written
}

// Every second sample is never visited again: no file dies as a whole, so they must be copied.
TEST_F(RocksDeltaStore, GarbageBesideWhatIsNoLongerVisitedIsCollected) {
  constexpr std::uint64_t kSamples = 64;
  constexpr std::size_t kBytes = 64 << 10;
  const auto store = *OpenRocksDeltaStore({path_, 0, 4 << 20, StoreSpace::kTight});
  for (std::uint64_t epoch = 1; epoch <= 12; ++epoch) {
    for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
      if (epoch > 1 && sample % 2 == 0) continue;
      ASSERT_OK(
          store->Commit(kEnd, List(Update(sample, epoch, Image(sample, epoch, kBytes))), nullptr));
    }
  }
  ASSERT_OK(store->Flush());
  EXPECT_LT(store->stats().disk_bytes, 3 * kSamples * kBytes / 2);
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    const std::uint64_t version = sample % 2 == 0 ? 1 : 12;
    const auto got = store->Get(kEnd, SegmentId{sample});
    ASSERT_TRUE(got.ok() && got->has_value()) << sample;
    EXPECT_EQ(TextOf((*got)->image), Image(sample, version, kBytes));
  }
}

TEST_F(RocksDeltaStore, TightTakesLessThanHalfAsMuchAgainThroughRandomEpochs) {
  constexpr std::uint64_t kSamples = 300;
  constexpr std::size_t kBytes = 64 << 10;  // 19 MiB
  constexpr std::uint64_t kMemory = 64 << 20;
  const auto store = *OpenRocksDeltaStore({path_, 0, kMemory, StoreSpace::kTight});
  std::mt19937_64 random(2);
  std::vector<std::uint64_t> order(kSamples);
  std::iota(order.begin(), order.end(), 0ull);
  const std::string image(kBytes, 'm');
  std::uint64_t most = 0;
  for (std::uint64_t epoch = 1; epoch <= 4; ++epoch) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::uint64_t sample : order) {
      ASSERT_OK(store->Commit(kEnd, List(Update(sample, epoch, image)), nullptr));
      if (epoch > 1) most = std::max(most, store->stats().disk_bytes);
    }
  }
  const DeltaStoreStats stats = store->stats();
  // Dead files wait for a flush until there are 4 MiB of them, a fifth of this small store.
  EXPECT_LT(static_cast<double>(most), 1.5 * static_cast<double>(stats.bytes) + (4 << 20));
  EXPECT_LT(static_cast<double>(stats.disk_written_bytes),
            1.1 * static_cast<double>(stats.committed_bytes));
  EXPECT_LE(stats.memory_bytes, kMemory);
}

TEST_F(RocksDeltaStore, AFolderDeletedWhileInUseBecomesAnEmptyStore) {
  const auto store = Open();
  for (std::uint64_t sample = 0; sample < 4; ++sample) {
    ASSERT_OK(store->Commit(kEnd, List(Update(sample, 1, Image(sample, 1, 1 << 20))), nullptr));
  }
  ASSERT_OK(store->Flush());
  std::filesystem::remove_all(path_);
  EXPECT_FALSE((*store->Get(kEnd, SegmentId{0})).has_value());
  std::vector<SegmentId> evicted;
  ASSERT_OK(store->Commit(kEnd, List(Update(9, 2, Image(9, 2))), &evicted));
  EXPECT_EQ(Numbers(evicted), (std::vector<std::uint64_t>{0, 1, 2, 3}));
  EXPECT_THAT(store->stats().notice, HasSubstr("was deleted while in use"));
  EXPECT_OK(store->Flush());
  EXPECT_TRUE(std::filesystem::exists(path_ + "/headers/CURRENT"));
  EXPECT_EQ(TextOf((*store->Get(kEnd, SegmentId{9}))->image), Image(9, 2));
}

TEST_F(RocksDeltaStore, DamagedFilesAreSetAsideAndTheStoreBeginsEmpty) {
  {
    const auto store = Open();
    ASSERT_OK(store->Commit(kEnd, List(Update(1, 1, Image(1, 1))), nullptr));
    ASSERT_OK(store->Flush());
  }
  for (const auto& entry : std::filesystem::directory_iterator(path_ + "/headers")) {
    if (entry.path().extension() == ".sst") WriteAll(entry.path().string(), "no table");
  }
  const auto store = Open();
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->stats().records, 0u);
  EXPECT_THAT(store->stats().notice, HasSubstr(path_ + ".damaged"));
  EXPECT_TRUE(std::filesystem::exists(path_ + ".damaged/headers/CURRENT"));
  ASSERT_OK(store->Commit(kEnd, List(Update(1, 2, Image(1, 2))), nullptr));
  EXPECT_TRUE((*store->Get(kEnd, SegmentId{1})).has_value());
}

TEST_F(RocksDeltaStore, AMissingTableIsDamageToo) {
  {
    const auto store = Open();
    ASSERT_OK(store->Commit(kEnd, List(Update(1, 1, Image(1, 1))), nullptr));
    ASSERT_OK(store->Flush());
  }
  for (const auto& entry : std::filesystem::directory_iterator(path_ + "/headers")) {
    if (entry.path().extension() == ".sst") std::filesystem::remove(entry.path());
  }
  const auto store = Open();
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->stats().records, 0u);
}

}  // namespace
}  // namespace shoal::storage
