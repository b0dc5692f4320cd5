// ShiftedCodec: b-bit codes on a grid that is shifted at random, the same way on both ends.
//
// Source: Markov, Vladu, Guo and Alistarh, "Quantized Distributed Training of Large Models with
// Convergence Guarantees" (QSDP, ICML 2023), definition 1, with buckets as in section 5.1. In a
// bucket from low to high let d = (high - low) / (2^b - 1), and draw u uniformly from [-1/2, 1/2).
// The points are low + d (k + u), and a value becomes the nearest one. The error is uniform within
// half a step for every value: mean 0 and variance d^2 / 12, where stochastic rounding has
// d^2 f (1 - f). u is drawn once a bucket, by counter (message_noise.h), and not sent.
// No value needs a code outside 0 to 2^b - 1, so nothing clips.
// State kept: none. Bytes on the wire: 16 + 8 per bucket + b bits per value or, with an entropy
// coder, what its codes need.

#ifndef SHOAL_COMPRESSION_CODECS_SHIFTED_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_SHIFTED_CODEC_H_

#include <cstdint>
#include <memory>

#include "compression/codecs/plain_codec.h"
#include "compression/entropy/symbol_stream.h"

namespace shoal::compression {

const CodecEntry& ShiftedEntry();

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_SHIFTED_CODEC_H_
