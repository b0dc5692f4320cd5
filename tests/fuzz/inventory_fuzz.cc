// Foreign bytes into the inventory and the losses of a boundary: refused, or encoded back to the
// same bytes.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "pipeline/core/inventory.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto same = [&](const shoal::Buffer& again) {
    SHOAL_CHECK(again.size() == size && std::memcmp(again.data(), data, size) == 0);
  };
  const auto inventory = shoal::pipeline::DecodeInventory(bytes);
  if (inventory.ok()) same(shoal::pipeline::EncodeInventory(*inventory));
  const auto losses = shoal::pipeline::DecodeLosses(bytes);
  if (losses.ok()) same(shoal::pipeline::EncodeLosses(*losses));
  return 0;
}
