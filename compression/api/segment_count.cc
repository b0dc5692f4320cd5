#include "compression/api/segment_count.h"

namespace shoal::compression {

std::uint32_t SegmentCount(const MessageCodec& codec, SampleShape whole, std::uint32_t rows,
                           std::uint64_t bytes_min) {
  if (!codec.divisible()) return 1;
  const std::uint64_t bytes = rows * (std::uint64_t{whole.values()} * sizeof(float));
  for (std::uint32_t count = kSegmentsMax; count > 1; count /= 2) {
    if (whole.tokens % count == 0 && bytes / count >= bytes_min) return count;
  }
  return 1;
}

std::uint64_t KeptBytes(const MessageCodec& codec, SampleShape whole, std::uint32_t rows,
                        std::uint64_t bytes_min) {
  if (!codec.keeps_m() && !codec.keeps_residual()) return 0;
  const std::uint32_t count = SegmentCount(codec, whole, rows, bytes_min);
  return std::uint64_t{count} * codec.MImageBytes({whole.tokens / count, whole.hidden});
}

}  // namespace shoal::compression
