// What the tests of the delta store share.

#ifndef SHOAL_TESTS_UNIT_STORAGE_DELTA_STORE_TEST_SUPPORT_H_
#define SHOAL_TESTS_UNIT_STORAGE_DELTA_STORE_TEST_SUPPORT_H_

#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/checksum.h"
#include "storage/delta_records.h"
#include "storage/delta_store.h"
#include "storage_test_support.h"

namespace shoal::storage {

inline constexpr DeltaPlace kPlace{RunId{0x0102030405060708}, 0x0a0b0c0d, BoundarySide::kReceiver};

inline DeltaUpdate Update(std::uint64_t sample, std::uint64_t version, std::string_view image) {
  DeltaUpdate update;
  update.sample.value = sample;
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

}  // namespace shoal::storage

#endif  // SHOAL_TESTS_UNIT_STORAGE_DELTA_STORE_TEST_SUPPORT_H_
