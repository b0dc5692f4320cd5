// Quantised weights in a safetensors file: what is accepted decodes, from any value on, to finite
// numbers that do not depend on where decoding began.
//
// The first byte says rows, the second columns; a safetensors file follows.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "model/quantized/stored_weight.h"
#include "storage/models/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::int64_t shape[] = {data[0], data[1]};
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(2);
  const auto file = shoal::storage::ParseSafetensors(bytes, "fuzz");
  if (!file.ok()) return 0;
  const auto weight = shoal::model::FindWeight((*file)->tensors(), "w.weight", shape);
  if (!weight.ok()) return 0;
  if (weight->values != static_cast<std::size_t>(shape[0] * shape[1])) abort();
  std::vector<float> whole(weight->values);
  weight->Decode(0, whole);
  const std::size_t first = whole.size() / 3;
  std::vector<float> part(whole.size() - first);
  weight->Decode(first, part);
  if (std::memcmp(part.data(), whole.data() + first, part.size() * sizeof(float)) != 0) abort();
  if (!weight->floats.empty()) return 0;
  for (const float value : whole) {
    if (!std::isfinite(value)) abort();
  }
  return 0;
}
