#include "model/quantized/float_values.h"

#include "common/status.h"
#include "storage/models/float_bytes.h"

namespace shoal::model {

using storage::DType;

bool HoldsFloats(DType dtype) { return storage::IsFloat(dtype); }

void ReadFloats(std::span<const std::byte> bytes, DType dtype, std::size_t first,
                std::span<float> values) {
  const std::size_t width = storage::DTypeBytes(dtype), count = bytes.size() / width;
  SHOAL_CHECK(first <= count && values.size() <= count - first);
  storage::ReadFloats(dtype, bytes.subspan(first * width, values.size() * width), values);
}

void WriteFloats(std::span<const float> values, DType dtype, std::size_t first,
                 std::span<std::byte> bytes) {
  const std::size_t width = storage::DTypeBytes(dtype), count = bytes.size() / width;
  SHOAL_CHECK(first <= count && values.size() <= count - first);
  (void)storage::WriteFloats(dtype, values, bytes.subspan(first * width, values.size() * width));
}

}  // namespace shoal::model
