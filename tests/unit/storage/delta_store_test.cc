#include "storage/delta_store.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "common/checksum.h"
#include "storage/delta_records.h"
#include "storage/indexed_delta_store.h"
#include "storage_test_support.h"

namespace shoal::storage {
namespace {

using ::testing::HasSubstr;

constexpr DeltaPlace kPlace{RunId{0x0102030405060708}, 0x0a0b0c0d, BoundarySide::kReceiver};

DeltaUpdate Update(std::uint64_t sample, std::uint64_t version, std::string_view image) {
  DeltaUpdate update;
  update.sample.value = sample;
  update.record.version = version;
  update.record.checksum = Checksum64(Bytes(image));
  update.record.tokens = 3;
  update.record.hidden = 5;
  update.record.image = Buffer::CopyOf(Bytes(image));
  return update;
}

// Big enough for a blob file, and different for every sample and version.
std::string Image(std::uint64_t sample, std::uint64_t version, std::size_t size = 8192) {
  std::mt19937_64 random(sample * 1000003 + version);
  return RandomBytes(random, size);
}

template <typename... Updates>
std::vector<DeltaUpdate> List(Updates... updates) {
  std::vector<DeltaUpdate> list;
  (list.push_back(std::move(updates)), ...);
  return list;
}

std::string TextOf(const Buffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}

struct Backend {
  const char* name;
  bool on_disk;
};

class DeltaStoreSuite : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override { Open(0); }
  void Open(std::uint64_t bytes_max) {
    store_.reset();
    if (!GetParam().on_disk) {
      store_ = NewMemoryDeltaStore(bytes_max);
      return;
    }
    auto opened = OpenRocksDeltaStore({folder_ / "deltas", bytes_max, 4 << 20});
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    store_ = std::move(*opened);
  }
  std::optional<DeltaRecord> Get(const DeltaPlace& place, std::uint64_t sample) {
    auto got = store_->Get(place, SampleId{sample});
    EXPECT_TRUE(got.ok()) << got.status().ToString();
    return std::move(*got);
  }
  std::vector<SampleId> Commit(const DeltaPlace& place, const std::vector<DeltaUpdate>& updates) {
    std::vector<SampleId> evicted;
    EXPECT_OK(store_->Commit(place, updates, &evicted));
    return evicted;
  }
  TemporaryFolder folder_;
  std::unique_ptr<DeltaStore> store_;
};

TEST_P(DeltaStoreSuite, GivesBackWhatWasCommitted) {
  EXPECT_FALSE(Get(kPlace, 1).has_value());
  EXPECT_TRUE(Commit(kPlace, List(Update(1, 4, Image(1, 4)), Update(2, 4, "small"))).empty());
  const auto one = Get(kPlace, 1);
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->version, 4u);
  EXPECT_EQ(one->tokens, 3u);
  EXPECT_EQ(one->hidden, 5u);
  EXPECT_EQ(one->checksum, Checksum64(Bytes(Image(1, 4))));
  EXPECT_EQ(TextOf(one->image), Image(1, 4));
  EXPECT_EQ(TextOf(Get(kPlace, 2)->image), "small");
  Commit(kPlace, List(Update(1, 5, Image(1, 5, 100))));
  EXPECT_EQ(TextOf(Get(kPlace, 1)->image), Image(1, 5, 100));
  const DeltaStoreStats stats = store_->stats();
  EXPECT_EQ(stats.hits, 3u);
  EXPECT_EQ(stats.misses, 1u);
  EXPECT_EQ(stats.corrupt, 0u);
  EXPECT_EQ(stats.records, 2u);
  EXPECT_EQ(stats.bytes, 105u);
}

TEST_P(DeltaStoreSuite, PlacesAreApart) {
  DeltaPlace other_run = kPlace;
  other_run.run.value ^= 1;
  DeltaPlace other_boundary = kPlace;
  other_boundary.boundary += 1;
  DeltaPlace other_side = kPlace;
  other_side.side = BoundarySide::kSender;
  const std::vector<DeltaPlace> places = {kPlace, other_run, other_boundary, other_side};
  for (std::size_t i = 0; i < places.size(); ++i) {
    Commit(places[i], List(Update(7, 1, "image " + std::to_string(i))));
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    EXPECT_EQ(TextOf(Get(places[i], 7)->image), "image " + std::to_string(i));
    EXPECT_EQ(store_->Inventory(places[i])->size(), 1u);
  }
}

TEST_P(DeltaStoreSuite, InventoryIsInOrderOfSample) {
  EXPECT_TRUE(store_->Inventory(kPlace)->empty());
  Commit(kPlace, List(Update(300, 1, "c"), Update(2, 2, "b"), Update(1ull << 40, 3, "d"),
                      Update(0, 4, "a")));
  const auto inventory = store_->Inventory(kPlace);
  ASSERT_TRUE(inventory.ok());
  std::vector<std::uint64_t> samples;
  std::vector<std::uint64_t> versions;
  for (const DeltaInventoryEntry& entry : *inventory) {
    samples.push_back(entry.sample.value);
    versions.push_back(entry.version);
  }
  EXPECT_EQ(samples, (std::vector<std::uint64_t>{0, 2, 300, 1ull << 40}));
  EXPECT_EQ(versions, (std::vector<std::uint64_t>{4, 2, 1, 3}));
  EXPECT_EQ(inventory->front().checksum, Checksum64(Bytes("a")));
}

TEST_P(DeltaStoreSuite, PlaceChecksumIsThatOfTheDocumentedRows) {
  DeltaPlace other_end = kPlace;
  other_end.side = BoundarySide::kSender;
  Commit(kPlace, List(Update(9, 2, "x"), Update(4, 3, "y")));
  Commit(other_end, List(Update(4, 1, "old")));
  EXPECT_NE(*store_->PlaceChecksum(kPlace), *store_->PlaceChecksum(other_end));
  Commit(other_end, List(Update(4, 3, "y")));
  Commit(other_end, List(Update(9, 2, "x")));
  EXPECT_EQ(*store_->PlaceChecksum(kPlace), *store_->PlaceChecksum(other_end));
  const std::uint64_t rows[] = {4, 3, Checksum64(Bytes("y")), 9, 2, Checksum64(Bytes("x"))};
  EXPECT_EQ(*store_->PlaceChecksum(kPlace), Checksum64(std::as_bytes(std::span(rows))));
}

TEST_P(DeltaStoreSuite, DropForgetsSingleRecords) {
  Commit(kPlace, List(Update(1, 1, "a"), Update(2, 1, "b"), Update(3, 1, "c")));
  const SampleId gone[] = {SampleId{1}, SampleId{3}, SampleId{99}, SampleId{3}};
  EXPECT_OK(store_->Drop(kPlace, gone));
  EXPECT_FALSE(Get(kPlace, 1).has_value());
  EXPECT_TRUE(Get(kPlace, 2).has_value());
  EXPECT_EQ(store_->Inventory(kPlace)->size(), 1u);
  EXPECT_EQ(store_->stats().records, 1u);
  EXPECT_EQ(store_->stats().bytes, 1u);
  EXPECT_EQ(store_->stats().corrupt, 0u);
}

TEST_P(DeltaStoreSuite, DropNewerThanIsARollbackOfOneRun) {
  DeltaPlace sender = kPlace;
  sender.side = BoundarySide::kSender;
  DeltaPlace other_run = kPlace;
  other_run.run.value += 1;
  for (std::uint64_t version = 1; version <= 6; ++version) {
    for (const DeltaPlace& place : {kPlace, sender, other_run}) {
      Commit(place, List(Update(version, version, "v")));
    }
  }
  EXPECT_OK(store_->DropNewerThan(kPlace.run, 4));
  for (const DeltaPlace& place : {kPlace, sender}) {
    EXPECT_EQ(store_->Inventory(place)->size(), 4u);
    EXPECT_TRUE(Get(place, 4).has_value());
    EXPECT_FALSE(Get(place, 5).has_value());
  }
  EXPECT_EQ(store_->Inventory(other_run)->size(), 6u);
}

TEST_P(DeltaStoreSuite, QuotaRefusesNewSamplesAndKeepsTheOld) {
  Open(1000);
  EXPECT_EQ(store_->stats().bytes_limit, 1000u);
  EXPECT_TRUE(Commit(kPlace, List(Update(1, 1, Image(1, 1, 600)))).empty());
  EXPECT_EQ(Commit(kPlace, List(Update(2, 1, Image(2, 1, 401)), Update(3, 1, Image(3, 1, 400)))),
            std::vector<SampleId>{SampleId{2}});
  EXPECT_FALSE(Get(kPlace, 2).has_value());
  EXPECT_TRUE(Get(kPlace, 3).has_value());
  // The same size again always fits.
  EXPECT_TRUE(Commit(kPlace, List(Update(1, 2, Image(1, 2, 600)))).empty());
  // A replacement that does not fit takes the outdated record away.
  EXPECT_EQ(Commit(kPlace, List(Update(3, 2, Image(3, 2, 500)))),
            std::vector<SampleId>{SampleId{3}});
  EXPECT_FALSE(Get(kPlace, 3).has_value());
  EXPECT_EQ(store_->stats().bytes, 600u);
  EXPECT_EQ(store_->stats().records, 1u);
  EXPECT_EQ(store_->stats().evicted, 2u);
  EXPECT_EQ(Get(kPlace, 1)->version, 2u);
}

TEST_P(DeltaStoreSuite, OfTwoRecordsForASampleTheLaterCounts) {
  Open(10);
  EXPECT_TRUE(Commit(kPlace, List(Update(1, 3, "12345678"), Update(1, 3, "87654321"))).empty());
  EXPECT_EQ(TextOf(Get(kPlace, 1)->image), "87654321");
  EXPECT_EQ(store_->stats().bytes, 8u);
}

TEST_P(DeltaStoreSuite, RefusesARecordThatCouldNeverBeReadBack) {
  auto wrong = List(Update(1, 1, "x"), Update(2, 1, "y"));
  wrong[1].record.checksum ^= 1;
  EXPECT_EQ(store_->Commit(kPlace, wrong, nullptr).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->Commit(kPlace, List(Update(1, 0, "x")), nullptr).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->stats().records, 0u);
}

// Against a plain map, through thousands of random calls.
TEST_P(DeltaStoreSuite, AgreesWithAPlainMap) {
  std::map<std::pair<int, std::uint64_t>, std::pair<std::uint64_t, std::string>> model;
  std::mt19937_64 random(11);
  const auto place = [](int i) {
    DeltaPlace p = kPlace;
    p.boundary = static_cast<std::uint32_t>(i);
    return p;
  };
  for (std::uint64_t step = 1; step <= 400; ++step) {
    const int boundary = static_cast<int>(random() % 3);
    const std::uint64_t sample = random() % 20;
    if (random() % 8 == 0) {
      const SampleId one[] = {SampleId{sample}};
      ASSERT_OK(store_->Drop(place(boundary), one));
      model.erase({boundary, sample});
    } else if (random() % 50 == 0) {
      ASSERT_OK(store_->DropNewerThan(kPlace.run, step - 5));
      std::erase_if(model, [&](const auto& item) { return item.second.first > step - 5; });
    } else {
      const std::string image = Image(sample, step, random() % 10000);
      Commit(place(boundary), List(Update(sample, step, image)));
      model[{boundary, sample}] = {step, image};
    }
    if (step % 100 == 0) ASSERT_OK(store_->Flush());
  }
  std::uint64_t bytes = 0;
  for (int boundary = 0; boundary < 3; ++boundary) {
    for (std::uint64_t sample = 0; sample < 20; ++sample) {
      const auto got = Get(place(boundary), sample);
      const auto want = model.find({boundary, sample});
      ASSERT_EQ(got.has_value(), want != model.end());
      if (!got) continue;
      EXPECT_EQ(got->version, want->second.first);
      EXPECT_EQ(TextOf(got->image), want->second.second);
      bytes += got->image.size();
    }
  }
  EXPECT_EQ(store_->stats().records, model.size());
  EXPECT_EQ(store_->stats().bytes, bytes);
}

INSTANTIATE_TEST_SUITE_P(Backends, DeltaStoreSuite,
                         ::testing::Values(Backend{"memory", false}, Backend{"rocks", true}),
                         [](const auto& given) { return given.param.name; });

// --- byte layouts ---

std::string Hex(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte b : bytes) {
    hex.push_back("0123456789abcdef"[std::to_integer<int>(b) >> 4]);
    hex.push_back("0123456789abcdef"[std::to_integer<int>(b) & 15]);
  }
  return hex;
}

TEST(DeltaRecords, KeyIsBigEndianAndSorts) {
  const std::string key = EncodeDeltaKey({kPlace, SampleId{0x1112131415161718}});
  EXPECT_EQ(Hex(Bytes(key)), "01020304050607080a0b0c0d011112131415161718");
  const auto decoded = DecodeDeltaKey(key);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->place, kPlace);
  EXPECT_EQ(decoded->sample.value, 0x1112131415161718u);
  EXPECT_LT(EncodeDeltaKey({kPlace, SampleId{255}}), EncodeDeltaKey({kPlace, SampleId{256}}));
  EXPECT_FALSE(DecodeDeltaKey(key.substr(1)).has_value());
  std::string wrong_side = key;
  wrong_side[12] = 2;
  EXPECT_FALSE(DecodeDeltaKey(wrong_side).has_value());
}

TEST(DeltaRecords, HeaderBytesArePinned) {
  const std::string key = EncodeDeltaKey({kPlace, SampleId{5}});
  const DeltaHeaderBytes bytes =
      EncodeDeltaHeader(key, {0x0102030405060708, 0x1112131415161718, 0x21, 0x31, 0x41});
  EXPECT_EQ(Hex(std::span(bytes).first(40)),
            "53445201"
            "31000000"
            "41000000"
            "00000000"
            "0807060504030201"
            "2100000000000000"
            "1817161514131211");
  EXPECT_EQ(Hex(std::span(bytes).subspan(40)), "9e60e287ccb7c004");
  const auto header = DecodeDeltaHeader(key, bytes);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->version, 0x0102030405060708u);
  EXPECT_EQ(header->checksum, 0x1112131415161718u);
  EXPECT_EQ(header->image_bytes, 0x21u);
  EXPECT_EQ(header->tokens, 0x31u);
  EXPECT_EQ(header->hidden, 0x41u);
}

std::string Value(const std::string& key, const DeltaRecord& record) {
  const DeltaHeaderBytes header = EncodeDeltaHeader(
      key, {record.version, record.checksum, record.image.size(), record.tokens, record.hidden});
  return std::string(reinterpret_cast<const char*>(header.data()), header.size()) +
         TextOf(record.image);
}

TEST(DeltaRecords, EveryFlippedBitAndTruncationIsFound) {
  const std::string key = EncodeDeltaKey({kPlace, SampleId{5}});
  const std::string value = Value(key, Update(5, 9, "an image of m").record);
  ASSERT_TRUE(DecodeDeltaValue(key, Bytes(value)).has_value());
  EXPECT_FALSE(DecodeDeltaValue(EncodeDeltaKey({kPlace, SampleId{6}}), Bytes(value)).has_value());
  for (std::size_t bit = 0; bit < 8 * value.size(); ++bit) {
    std::string flipped = value;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodeDeltaValue(key, Bytes(flipped)).has_value()) << bit;
  }
  for (std::size_t size = 0; size < value.size(); ++size) {
    EXPECT_FALSE(DecodeDeltaValue(key, Bytes(value.substr(0, size))).has_value());
  }
  EXPECT_FALSE(DecodeDeltaValue(key, Bytes(value + "x")).has_value());
  std::mt19937_64 random(5);
  for (int i = 0; i < 5000; ++i) {
    EXPECT_FALSE(DecodeDeltaValue(key, Bytes(RandomBytes(random, random() % 128))).has_value());
  }
}

// --- damage below the store ---

// A backend whose bytes the test can change.
class OpenBackend final : public DeltaBackend {
 public:
  using Values = std::map<std::string, std::string>;
  OpenBackend(Values* headers, Values* values) : headers_(headers), values_(values) {}
  Status VisitHeaders(
      const std::function<void(std::string_view, std::span<const std::byte>)>& visit) override {
    for (const auto& [key, header] : *headers_) visit(key, Bytes(header));
    return Status::Ok();
  }
  Status Read(const std::string& key,
              const std::function<void(std::span<const std::byte>)>& visit) override {
    if (values_->count(key) == 0) return NotFound("gone");
    visit(Bytes(values_->at(key)));
    return Status::Ok();
  }
  Status Write(std::span<const Put> puts, std::span<const std::string> removals) override {
    for (const Put& put : puts) {
      const std::string header(reinterpret_cast<const char*>(put.header.data()), put.header.size());
      (*headers_)[put.key] = header;
      (*values_)[put.key] =
          header + std::string(reinterpret_cast<const char*>(put.image.data()), put.image.size());
    }
    for (const std::string& key : removals) {
      headers_->erase(key);
      values_->erase(key);
    }
    return Status::Ok();
  }
  Status Flush() override { return Status::Ok(); }

 private:
  Values* const headers_;
  Values* const values_;
};

class DamagedDeltaStore : public ::testing::Test {
 protected:
  void SetUp() override {
    Open();
    ASSERT_OK(store_->Commit(kPlace, List(Update(1, 1, "one"), Update(2, 2, "two")), nullptr));
  }
  void Open() {
    store_ = *NewIndexedDeltaStore(std::make_unique<OpenBackend>(&headers_, &values_), 0);
  }
  // Sample 1 is a counted miss and is gone; sample 2 is not touched.
  void ExpectMissOfSampleOne() {
    const auto got = store_->Get(kPlace, SampleId{1});
    ASSERT_TRUE(got.ok());
    EXPECT_FALSE(got->has_value());
    EXPECT_EQ(store_->stats().corrupt, 1u);
    EXPECT_EQ(store_->stats().misses, 1u);
    EXPECT_EQ(store_->stats().records, 1u);
    EXPECT_EQ(store_->Inventory(kPlace)->size(), 1u);
    EXPECT_EQ(headers_.count(key_), 0u);
    EXPECT_EQ(values_.count(key_), 0u);
    EXPECT_TRUE((*store_->Get(kPlace, SampleId{2})).has_value());
  }
  const std::string key_ = EncodeDeltaKey({kPlace, SampleId{1}});
  OpenBackend::Values headers_;
  OpenBackend::Values values_;
  std::unique_ptr<DeltaStore> store_;
};

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
  EXPECT_FALSE((*store_->Get(kPlace, SampleId{1})).has_value());
  EXPECT_TRUE((*store_->Get(kPlace, SampleId{2})).has_value());
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
      ASSERT_OK(store->Commit(kPlace, List(Update(sample, 1, Image(sample, 1))), nullptr));
    }
    const SampleId dropped[] = {SampleId{3}};
    ASSERT_OK(store->Drop(kPlace, dropped));
    checksum = *store->PlaceChecksum(kPlace);
  }
  const auto store = Open();
  EXPECT_EQ(*store->PlaceChecksum(kPlace), checksum);
  EXPECT_EQ(store->stats().records, 49u);
  EXPECT_EQ(store->stats().bytes, 49u * 8192);
  for (std::uint64_t sample = 0; sample < 50; ++sample) {
    const auto got = store->Get(kPlace, SampleId{sample});
    ASSERT_TRUE(got.ok());
    ASSERT_EQ(got->has_value(), sample != 3) << sample;
    if (got->has_value()) {
      EXPECT_EQ(TextOf((*got)->image), Image(sample, 1));
    }
  }
}

TEST_F(RocksDeltaStore, LargeImagesLieInBlobFilesAndNoLogIsKept) {
  const auto store = Open();
  ASSERT_OK(store->Commit(kPlace, List(Update(1, 1, Image(1, 1, 100000))), nullptr));
  ASSERT_OK(store->Flush());
  std::uintmax_t blob_bytes = 0;
  std::uintmax_t log_bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    if (entry.path().extension() == ".blob") blob_bytes += entry.file_size();
    if (entry.path().extension() == ".log") log_bytes += entry.file_size();
  }
  EXPECT_GT(blob_bytes, 100000u);
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
        store->Commit(kPlace, List(Update(1, 1, Image(1, 1)), Update(2, 1, Image(2, 1))), nullptr));
    ASSERT_OK(store->Flush());
  }
  int flipped = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    if (entry.path().extension() != ".blob") continue;
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
    const auto got = store->Get(kPlace, SampleId{1});
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_FALSE(got->has_value());
    EXPECT_EQ(store->stats().corrupt, 1u);
    EXPECT_EQ(TextOf((*store->Get(kPlace, SampleId{2}))->image), Image(2, 1));
    ASSERT_OK(store->Flush());
  }
  EXPECT_EQ(Open()->Inventory(kPlace)->size(), 1u);  // dropped for good
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
    if (!(*store)->Commit(kPlace, updates, nullptr).ok()) ::_exit(2);
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
  const auto inventory = store->Inventory(kPlace);
  ASSERT_TRUE(inventory.ok());
  EXPECT_EQ(inventory->size() % kSamplesPerStep, 0u);
  EXPECT_GE(inventory->size(), kFlushedStep * kSamplesPerStep);
  EXPECT_LT(inventory->size(), kCrashSteps * kSamplesPerStep);  // the tail was in memory only
  std::uint64_t expected = kSamplesPerStep;
  for (const DeltaInventoryEntry& entry : *inventory) {
    EXPECT_EQ(entry.sample.value, expected);
    EXPECT_EQ(entry.version, expected / kSamplesPerStep);
    const auto got = store->Get(kPlace, entry.sample);
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
      ASSERT_OK(store->Commit(kPlace, List(Update(sample, epoch, Image(sample, epoch, kBytes))),
                              nullptr));
    }
    ASSERT_OK(store->Flush());
  }
  std::uintmax_t blob_bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    std::error_code error;
    const auto size = entry.file_size(error);
    if (!error && entry.path().extension() == ".blob") blob_bytes += size;
  }
  EXPECT_LT(blob_bytes, 6 * kSamples * kBytes);  // 12 epochs were written
}

}  // namespace
}  // namespace shoal::storage
