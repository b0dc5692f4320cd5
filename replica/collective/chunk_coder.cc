#include "replica/collective/chunk_coder.h"

#include <algorithm>

#include "common/buffer.h"
#include "compression/simd/vector_kernels.h"

namespace shoal::collective {

Result<std::size_t> ChunkCoder::EncodeKeeping(std::span<const float> values,
                                              std::span<const float> before,
                                              const compression::RandomKey& key,
                                              std::span<std::byte> out, std::span<float> next,
                                              std::span<float> decoded) const {
  SHOAL_CHECK(next.size() == values.size());
  SHOAL_CHECK(before.empty() || before.size() == values.size());
  if (before.empty()) {
    std::ranges::copy(values, next.begin());
  } else {
    compression::AddVectors(values.data(), before.data(), values.size(), next.data());
  }
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes, Encode(next, key, out));
  Buffer scratch;
  if (decoded.empty()) {
    scratch = Buffer(values.size_bytes());
    decoded = scratch.floats();
  }
  SHOAL_RETURN_IF_ERROR(Decode(out.first(bytes), key, decoded));
  compression::Subtract(decoded.data(), next.size(), next.data());
  return bytes;
}

Status ChunkCoder::DecodeOnto(std::span<const std::byte> payload, const compression::RandomKey& key,
                              float factor, bool first, std::span<float> sum) const {
  if (first) {
    SHOAL_RETURN_IF_ERROR(Decode(payload, key, sum));
    if (factor != 1) compression::Scale(factor, sum.size(), sum.data());
    return Status::Ok();
  }
  Buffer part(sum.size_bytes());
  SHOAL_RETURN_IF_ERROR(Decode(payload, key, part.floats()));
  compression::AddScaled(part.floats().data(), factor, sum.size(), sum.data());
  return Status::Ok();
}

}  // namespace shoal::collective
