// Delta records: key, header and value of arbitrary bytes; what is accepted encodes to the same.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "storage/delta_records.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shoal::storage;
  const std::size_t key_bytes = std::min(size, kDeltaKeyBytes);
  const std::string key(reinterpret_cast<const char*>(data), key_bytes);
  const auto value = std::as_bytes(std::span(data, size)).subspan(key_bytes);
  if (const auto decoded = DecodeDeltaKey(key); decoded && EncodeDeltaKey(*decoded) != key) abort();
  const auto record = DecodeDeltaValue(key, value);
  if (record && record->image.size() + kDeltaHeaderBytes != value.size()) abort();
  return 0;
}
