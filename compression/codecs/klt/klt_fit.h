// Which reflectors turn the leading directions of a message onto the first hidden positions.
//
// The Karhunen-Loeve transform of a message's tokens, cut off where another direction costs more
// bits than it saves. Only the encoder does this: nothing here needs to be the same on two
// machines. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_KLT_KLT_FIT_H_
#define SHOAL_COMPRESSION_CODECS_KLT_KLT_FIT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compression/api/codec.h"
#include "compression/codecs/klt/reflectors.h"

namespace shoal::compression {

// The tokens of a message of `tokens` that FitReflectors looks at, evenly spaced, in order: none
// where there are too few, else 512 or 12 rank_most at most.
std::vector<std::size_t> TokensToFit(std::size_t tokens, std::uint32_t hidden,
                                     std::size_t rank_most);
// Up to `rank_most` reflectors, none where they would not pay, for values that will be rounded with
// this step. `rows`: `hidden` values of each of the TokensToFit. `energies`: all tokens' sums of
// squares in order.
ReflectorCodes FitReflectors(std::span<const float* const> rows, std::uint32_t hidden,
                             std::span<const double> energies, float step, std::size_t rank_most,
                             const RandomKey& key);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_KLT_KLT_FIT_H_
