// FeedbackCodec: error feedback per sample at the sender alone, for gradients: what a codec did not
// send of a sample, its residual, is added to what the sample's next visit sends (Seide et al.,
// "1-bit stochastic gradient descent", Interspeech 2014; Karimireddy et al., "Error feedback fixes
// SignSGD and other gradient compression schemes", ICML 2019; per sample as in AQ-SGD,
// "Fine-tuning Language Models over Slow Networks using Activation Quantization with Guarantees",
// split learning).
//
// State kept: the residual per sample, as an image that enters and leaves as an argument, at the
// sender only. Bytes on the wire: those of the inner codec, which also decodes.
//
// The image has fp16 values with one power-of-two exponent per sample that puts the largest just
// below fp16's limit (docs/WIRE.md, "Residual image"). So it takes half of fp32's space, as much as
// m. Its rounding error is at most 2^-11 of a value, or 2^-39 of the sample's largest one. That is
// small, as the values are errors of an 8-bit or coarser code. Plain fp16 would underflow on
// gradients; bf16 keeps three bits less.

#ifndef SHOAL_COMPRESSION_CODECS_FEEDBACK_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_FEEDBACK_CODEC_H_

#include <cstddef>
#include <memory>
#include <span>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "compression/api/codec.h"
#include "compression/codecs/plain_codec.h"

namespace shoal::compression {

// The codec named `<spec of inner>,feedback=on`.
std::shared_ptr<const MessageCodec> NewFeedbackCodec(std::shared_ptr<const PlainCodec> inner);

// The image of a residual of finite values up to 2^119.
Buffer MakeResidualImage(std::span<const float> residual, SampleShape shape);
// Size and header.
Status CheckResidualImage(std::span<const std::byte> image, SampleShape shape);
// The values of an image that passed the check.
void ReadResidualImage(std::span<const std::byte> image, std::span<float> residual);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_FEEDBACK_CODEC_H_
