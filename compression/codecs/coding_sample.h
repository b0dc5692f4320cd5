// What CodingStats look at: one block of so many of each sample. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_CODING_SAMPLE_H_
#define SHOAL_COMPRESSION_CODECS_CODING_SAMPLE_H_

#include <cstddef>
#include <span>

#include "compression/api/codec.h"

namespace shoal::compression {

inline constexpr std::size_t kStatsBlock = 2048;  // values
inline constexpr std::size_t kStatsShare = 8;     // one block of so many is looked at

inline bool Counted(std::size_t sample, std::size_t block) {
  return (sample + block) % kStatsShare == 0;
}
// Adds a block to `stats` if it is one of the share that is looked at. `delta` is null for samples
// without m. `block` counts the blocks of a sample.
void CountBlock(std::size_t sample, std::size_t block, std::span<const float> x,
                const float* decoded, const float* delta, CodingStats* stats);
// All blocks of a sample.
void CountSample(std::size_t sample, std::span<const float> x, const float* decoded,
                 const float* delta, CodingStats* stats);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_CODING_SAMPLE_H_
