// Probability tables in few bits: each probability as a level on a logarithmic scale, eight levels
// an octave, sent as its distance from the line through the two before it.
//
// Level l stands for 2^(-l/8); a level is at most 3 % off in probability, which costs below 0.001
// bit a symbol. Everything is integer arithmetic, so that both ends make the same frequencies.
// Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_ENTROPY_RANS_TABLE_H_
#define SHOAL_COMPRESSION_ENTROPY_RANS_TABLE_H_

#include <cstdint>
#include <span>

#include "compression/entropy/bit_stream.h"

namespace shoal::compression {

// The largest level that stands for a probability, 2^-12, below what a table can give.
inline constexpr std::uint8_t kLevelMax = 96;
// A symbol that does not occur.
inline constexpr std::uint8_t kLevelAbsent = 104;

// The level nearest to part / whole, at most kLevelMax; kLevelAbsent where part is 0. Both are
// below 2^40, part at most whole.
std::uint8_t LevelOf(std::uint64_t part, std::uint64_t whole);

void WriteLevels(std::span<const std::uint8_t> levels, BitWriter* writer);
// False if the bits end early or a level is above kLevelAbsent.
[[nodiscard]] bool ReadLevels(BitReader* reader, std::span<std::uint8_t> levels);

// Frequencies in proportion to the levels that add up to `total`, which is at least twice their
// number: at least 1, or 0 where the level is kLevelAbsent. At least one level must not be absent.
void FrequenciesOf(std::span<const std::uint8_t> levels, std::uint32_t total,
                   std::span<std::uint16_t> frequencies);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_ENTROPY_RANS_TABLE_H_
