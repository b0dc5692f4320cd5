// ChannelCodec: b-bit codes with one scale per hidden channel, shared by all tokens and samples of
// a message, as the AQ-SGD authors' code does ("Fine-tuning Language Models over Slow Networks
// using Activation Quantization with Guarantees"; their `fixpoint` quantiser).
//
// For comparisons: scales shared across tokens let the few tokens that hold the energy set the step
// of all others (measured in docs/quality/), so buckets are the default. State kept: none. Bytes on
// the wire: 16 + one scale per channel + b bits per value, or what an entropy stage leaves of them.

#ifndef SHOAL_COMPRESSION_CHANNEL_CODEC_H_
#define SHOAL_COMPRESSION_CHANNEL_CODEC_H_

#include <memory>

#include "compression/level_rule.h"
#include "compression/plain_codec.h"
#include "compression/symbol_stream.h"

namespace shoal::compression {

std::shared_ptr<const PlainCodec> NewChannelCodec(const LevelRule& rule, EntropyStage stage);

// The authors' numerics to the bit: the scale is the absmax rounded to fp16; a code is
// x / fp16(scale + 1e-6) * 2^(b-1), rounded half to even, clipped to -2^(b-1) .. 2^(b-1) - 1 (so
// the positive extreme always clips); decoding multiplies by the scale without the 1e-6. 2 to 8
// bits; an absmax beyond 65504 is an error here and infinity there.
std::shared_ptr<const PlainCodec> NewAuthorsChannelCodec(int bits, EntropyStage stage);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CHANNEL_CODEC_H_
