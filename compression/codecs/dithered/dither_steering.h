// The step with which a message takes a wanted number of bits a value.
//
// A model gives the bits of a token from its energy (Gaussian values, given the dither); quantising
// a few tokens says by which factor this message differs from it. Only the encoder does this: the
// step is sent. Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_DITHERED_DITHER_STEERING_H_
#define SHOAL_COMPRESSION_CODECS_DITHERED_DITHER_STEERING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shoal::compression {

// Which of a message's tokens the choice is made from, every n-th, and how many of their first
// values.
std::vector<std::size_t> SteeringTokens(std::size_t tokens);
std::size_t SteeringValues(std::uint32_t hidden);

// The step for `rate` bits a value, what a message holds besides codes included. `energies` are the
// tokens' sums of squares in order, not all of them 0; `rows` the first SteeringValues values of
// each of the SteeringTokens. The result lies within [least, most] x the rms of all values.
double StepForRate(double rate, std::span<const double> energies,
                   std::span<const float* const> rows, std::uint32_t hidden,
                   const std::array<std::uint32_t, 2>& key, double least, double most);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_DITHERED_DITHER_STEERING_H_
