// The choice of the next token. Pure; thread: any.

#ifndef SHOAL_MODEL_TOKEN_SAMPLING_H_
#define SHOAL_MODEL_TOKEN_SAMPLING_H_

#include <cstdint>
#include <span>

namespace shoal::model {

// Draws a token id from `logits`: the `top_k` most probable (0: all), temperature above 0, with
// the uniform number that (seed, position) names; temperature 0 takes the first largest.
std::int32_t SampleToken(std::span<const float> logits, double temperature, std::uint32_t top_k,
                         std::uint64_t seed, std::uint64_t position);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_TOKEN_SAMPLING_H_
