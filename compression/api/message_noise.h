// MessageNoise: uniform numbers that both ends of a message can draw and that nobody sends.
//
// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). The key
// of a message is the first half of the block at counter (step low, step high, micro-batch,
// 2 * boundary + direction) under the seed of the run as key; the message's block b is then drawn
// at counter (b low, b high, stream, 0). Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_API_MESSAGE_NOISE_H_
#define SHOAL_COMPRESSION_API_MESSAGE_NOISE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/api/codec.h"

namespace shoal::compression {

// The two words of a message's own Philox key.
std::array<std::uint32_t, 2> MessageKeyWords(const RandomKey& key);

// Writes numbers first, first + 1, ... of the message: multiples of 2^-24 in [0, 1). Number i is
// the high 24 bits of word i % 4 of block i / 4 of `stream`.
void FillUniform(const RandomKey& key, std::uint32_t stream, std::uint64_t first,
                 std::span<float> out);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_MESSAGE_NOISE_H_
