#include "replica/collective/chunk_coder.h"

#include "common/memory/buffer.h"

namespace shoal::collective {

using compression::VectorOp;

Result<std::size_t> ChunkCoder::EncodeKeeping(std::span<const float> values,
                                              std::span<const float> before,
                                              const compression::RandomKey& key,
                                              std::span<std::byte> out, std::span<float> next,
                                              std::span<float> decoded) const {
  SHOAL_CHECK(next.size() == values.size());
  SHOAL_CHECK(before.empty() || before.size() == values.size());
  SHOAL_RETURN_IF_ERROR(before.empty() ? home().Update(VectorOp::kCopy, values, 1, next)
                                       : home().Sum(values, before, next));
  SHOAL_ASSIGN_OR_RETURN(const std::size_t bytes, Encode(next, key, out));
  Buffer scratch;
  if (decoded.empty()) {
    SHOAL_ASSIGN_OR_RETURN(scratch, home().Allocate(values.size()));
    decoded = scratch.floats();
  }
  SHOAL_RETURN_IF_ERROR(Decode(out.first(bytes), key, decoded));
  SHOAL_RETURN_IF_ERROR(home().Update(VectorOp::kSubtract, decoded, 1, next));
  return bytes;
}

Status ChunkCoder::DecodeOnto(std::span<const std::byte> payload, const compression::RandomKey& key,
                              float factor, bool first, std::span<float> sum) const {
  if (first) {
    SHOAL_RETURN_IF_ERROR(Decode(payload, key, sum));
    return factor == 1 ? Status::Ok() : home().Update(VectorOp::kScale, {}, factor, sum);
  }
  SHOAL_ASSIGN_OR_RETURN(Buffer part, home().Allocate(sum.size()));
  SHOAL_RETURN_IF_ERROR(Decode(payload, key, part.floats()));
  return home().Update(VectorOp::kAddScaled, part.floats(), factor, sum);
}

}  // namespace shoal::collective
