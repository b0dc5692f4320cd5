#include "compression/api/value_range.h"

#include <bit>
#include <cstdint>

#include "compression/simd/kernels.h"

namespace shoal::compression {

// Bits of magnitudes have the order of the magnitudes; those of what is not finite come last.
bool AllWithin(std::span<const float> values, float most) {
  return AbsMaxBits(values.data(), values.size()) <= std::bit_cast<std::uint32_t>(most);
}

}  // namespace shoal::compression
