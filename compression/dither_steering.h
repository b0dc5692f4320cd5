// The step with which a message takes a wanted number of bits a value.
//
// A model gives the bits of a token from its energy (Gaussian values, given the dither); quantising
// a few tokens says by which factor this message differs from it. Only the encoder does this: the
// step is sent. Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_DITHER_STEERING_H_
#define SHOAL_COMPRESSION_DITHER_STEERING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/codec.h"

namespace shoal::compression {

// The step for `rate` bits a value, what a message holds besides codes included. `energies` are the
// tokens' sums of squares in order, not all of them 0; the result lies within
// [least, most] x the rms of all values.
double StepForRate(double rate, std::span<const double> energies,
                   std::span<const std::span<const float>> samples, SampleShape shape,
                   const std::array<std::uint32_t, 2>& key, double least, double most);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DITHER_STEERING_H_
