// Foreign bytes into the inventory of a boundary: refused, or encoded back to the same bytes.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "pipeline/inventory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto decoded = shoal::pipeline::DecodeInventory(bytes);
  if (!decoded.ok()) return 0;
  const shoal::Buffer again = shoal::pipeline::EncodeInventory(*decoded);
  SHOAL_CHECK(again.size() == size && std::memcmp(again.data(), data, size) == 0);
  return 0;
}
