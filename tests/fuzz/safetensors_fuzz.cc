// Safetensors files: an accepted file's views lie inside its bytes and cover all data once.

#include <cstdint>
#include <cstdlib>
#include <span>

#include "storage/models/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto parsed = shoal::storage::ParseSafetensors(bytes, "fuzz");
  if (!parsed.ok()) return 0;
  std::size_t total = 0;
  for (const auto& [name, view] : (*parsed)->tensors()) {
    total += view.data.size();
    if (view.data.empty()) continue;
    if (view.data.data() < bytes.data()) abort();
    if (view.data.data() + view.data.size() > bytes.data() + bytes.size()) abort();
  }
  if (total > size) abort();
  return 0;
}
