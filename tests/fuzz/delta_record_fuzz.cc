// Delta records: key, header, image head and entry of arbitrary bytes; what is accepted encodes to
// the same.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "storage/delta/delta_records.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shoal::storage;
  const std::size_t key_bytes = std::min(size, kDeltaKeyBytes);
  const std::string key(reinterpret_cast<const char*>(data), key_bytes);
  const auto value = std::as_bytes(std::span(data, size)).subspan(key_bytes);
  if (const auto decoded = DecodeDeltaKey(key); decoded && EncodeDeltaKey(*decoded) != key) abort();
  const auto header = value.first(std::min(value.size(), kDeltaHeaderBytes));
  const auto image = value.subspan(header.size());
  const auto record = DecodeDeltaRecord(key, header, shoal::Buffer::CopyOf(image));
  if (record && record->image.size() != image.size()) abort();
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto head = DecodeImageHead(bytes); head && head->key != key) abort();
  if (const auto entry = DecodeDeltaEntry(bytes)) {
    const std::string encoded = EncodeDeltaEntry(*entry);
    if (!std::ranges::equal(std::as_bytes(std::span(encoded)), bytes)) abort();
  }
  return 0;
}
