// What the tests of the delta store share.

#ifndef SHOAL_TESTS_UNIT_STORAGE_DELTA_DELTA_STORE_TEST_SUPPORT_H_
#define SHOAL_TESTS_UNIT_STORAGE_DELTA_DELTA_STORE_TEST_SUPPORT_H_

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/checksum.h"
#include "storage/delta/delta_records.h"
#include "storage/delta/delta_store.h"
#include "tests/unit/storage/storage_test_support.h"

namespace shoal::storage {

inline constexpr BoundaryEnd kEnd{RunId{0x0102030405060708}, 0x0a0b0c0d, BoundarySide::kReceiver};

inline DeltaUpdate Update(std::uint64_t sample, std::uint64_t version, std::string_view image) {
  DeltaUpdate update;
  update.segment.value = sample;
  update.record.version = version;
  update.record.checksum = Checksum64(Bytes(image));
  update.record.tokens = 3;
  update.record.hidden = 5;
  update.record.image = Buffer::CopyOf(Bytes(image));
  return update;
}

// Different for every sample and version.
inline std::string Image(std::uint64_t sample, std::uint64_t version, std::size_t size = 8192) {
  std::mt19937_64 random(sample * 1000003 + version);
  return RandomBytes(random, size);
}

template <typename... Updates>
std::vector<DeltaUpdate> List(Updates... updates) {
  std::vector<DeltaUpdate> list;
  (list.push_back(std::move(updates)), ...);
  return list;
}

inline std::string TextOf(const Buffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}

inline std::string Value(const std::string& key, const DeltaRecord& record) {
  const DeltaHeaderBytes header = EncodeDeltaHeader(
      key, {record.version, record.checksum, record.image.size(), record.tokens, record.hidden});
  return std::string(reinterpret_cast<const char*>(header.data()), header.size()) +
         TextOf(record.image);
}

// Every test of a suite runs in memory and on disk.
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
  std::optional<DeltaRecord> Get(const BoundaryEnd& end, std::uint64_t sample) {
    auto got = store_->Get(end, SegmentId{sample});
    EXPECT_TRUE(got.ok()) << got.status().ToString();
    return std::move(*got);
  }
  std::vector<SegmentId> Commit(const BoundaryEnd& end, const std::vector<DeltaUpdate>& updates) {
    std::vector<SegmentId> evicted;
    EXPECT_OK(store_->Commit(end, updates, &evicted));
    return evicted;
  }
  TemporaryFolder folder_;
  std::unique_ptr<DeltaStore> store_;
};

#define SHOAL_ON_BOTH_BACKENDS(Suite)                                                           \
  INSTANTIATE_TEST_SUITE_P(Backends, Suite,                                                     \
                           ::testing::Values(Backend{"memory", false}, Backend{"rocks", true}), \
                           [](const auto& given) { return given.param.name; })

}  // namespace shoal::storage

#endif  // SHOAL_TESTS_UNIT_STORAGE_DELTA_DELTA_STORE_TEST_SUPPORT_H_
