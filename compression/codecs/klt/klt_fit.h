// Which reflectors turn the leading directions of a message onto the first hidden positions.
//
// The Karhunen-Loeve transform of a message's tokens, cut off where another direction costs more
// bits than it saves. Only the encoder does this: nothing here needs to be the same on two
// machines. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_KLT_KLT_FIT_H_
#define SHOAL_COMPRESSION_CODECS_KLT_KLT_FIT_H_

#include <cstddef>
#include <span>

#include "compression/api/codec.h"
#include "compression/codecs/klt/reflectors.h"

namespace shoal::compression {

// Up to `rank_most` reflectors, none where they would not pay, for values that will be rounded with
// this step. `energies`: the tokens' sums of squares in order.
ReflectorCodes FitReflectors(std::span<const std::span<const float>> samples, SampleShape shape,
                             std::span<const double> energies, float step, std::size_t rank_most,
                             const RandomKey& key);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_KLT_KLT_FIT_H_
