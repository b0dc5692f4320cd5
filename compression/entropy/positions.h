// Positions: which of n values are sent, as a bitmap or as Rice-coded gaps (Rice, "Some practical
// universal noiseless coding techniques", JPL 79-22, 1979), whichever is smaller.
//
// Bytes: docs/WIRE.md, "topk". Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_ENTROPY_POSITIONS_H_
#define SHOAL_COMPRESSION_ENTROPY_POSITIONS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/status.h"

namespace shoal::compression {

// Most bytes that WritePositions writes for positions below n.
std::size_t PositionBytesMax(std::size_t n);

// Writes growing positions below n to `out` (at least PositionBytesMax); returns the bytes.
std::size_t WritePositions(std::span<const std::uint32_t> positions, std::size_t n, std::byte* out);

// Reads positions.size() growing positions below n from the front of `in` (foreign bytes) and
// returns how many bytes they took. `spec` names the codec in errors.
Result<std::size_t> ReadPositions(std::span<const std::byte> in, std::size_t n,
                                  std::span<std::uint32_t> positions, std::string_view spec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_ENTROPY_POSITIONS_H_
