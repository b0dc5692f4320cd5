// ChannelCodec: b-bit codes with one scale per hidden channel, shared by all tokens and samples of
// a message, as the AQ-SGD authors' code does ("Fine-tuning Language Models over Slow Networks
// using Activation Quantization with Guarantees"; their `fixpoint` quantiser).
//
// For comparisons: scales shared across tokens let the few tokens that hold the energy set the step
// of all others (measured in docs/quality/), so buckets are the default. State kept: none. Bytes on
// the wire: 16 + one scale per channel + b bits per value, or what an entropy coder leaves of them.

#ifndef SHOAL_COMPRESSION_CODECS_CHANNEL_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_CHANNEL_CODEC_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compression/api/codec_spec.h"
#include "compression/api/sample_layout.h"
#include "compression/codecs/plain_codec.h"
#include "compression/entropy/symbol_stream.h"
#include "compression/simd/level_rule.h"

namespace shoal::compression {

class ChannelCodec final : public PlainCodec {
 public:
  static constexpr CodecKind kKind{"channel"};

  // Without `rule`: the authors' numerics.
  ChannelCodec(int bits, std::optional<LevelRule> rule, EntropyCoder coder);

  const std::string& spec() const override { return spec_; }
  const CodecKind* kind() const override { return &kKind; }
  bool divisible() const override { return false; }  // a scale serves all tokens
  std::shared_ptr<const PlainCodec> Wider() const override;
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override {
    return CodesAt(shape) + CodeBytesMax(shape, samples);
  }
  Result<std::size_t> Encode(std::span<const std::span<const float>> samples, SampleShape shape,
                             const RandomKey& key, std::span<std::byte> out,
                             std::span<const std::span<float>> decoded) const override;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                std::span<const std::span<float>> samples) const override;

  // What Encode and Decode do besides touching values.

  int bits() const { return bits_; }
  const std::optional<LevelRule>& rule() const { return rule_; }
  EntropyCoder coder() const { return coder_; }
  std::size_t ScaleBytes() const { return rule_ ? rule_->scale_bytes() : 2; }
  // Where the codes begin, behind header and scales.
  std::size_t CodesAt(SampleShape shape) const {
    return kPayloadHeaderBytes + shape.hidden * ScaleBytes();
  }
  // Of a sample, without an entropy coder.
  std::size_t PackedBytes(SampleShape shape) const {
    return (shape.values() + 7) / 8 * static_cast<std::size_t>(bits_);
  }
  PayloadHeader HeaderFor(SampleShape shape, std::size_t samples) const;
  // Error if a message with these largest magnitude bits cannot be sent.
  Status CheckLargest(std::uint32_t most) const;

  // Constants per channel for QuantiseColumns and DequantiseColumns (kernels.h), or the authors'
  // divisor in `first`.
  struct Constants {
    std::vector<float> first, second;
  };
  Constants EncoderConstants(SampleShape shape, const std::byte* scales) const;
  Constants DecoderConstants(SampleShape shape, const std::byte* scales) const;

  // Writes the codes, a byte each, behind header and scales, and returns their bytes.
  std::size_t WriteCodes(std::vector<std::uint8_t>* codes, SampleShape shape, std::size_t samples,
                         std::span<std::byte> out) const;
  // Checks a foreign payload of `samples` samples and gives its codes.
  Status Open(std::span<const std::byte> payload, SampleShape shape, std::size_t samples,
              std::vector<std::uint8_t>* codes) const;

 private:
  std::size_t CodeBytesMax(SampleShape shape, std::size_t samples) const {
    return coder_ == EntropyCoder::kNone ? samples * PackedBytes(shape)
                                         : SymbolBytesMax(coder_, samples * shape.values(), bits_);
  }
  Status ChooseScales(std::span<const std::span<const float>> samples, SampleShape shape,
                      std::byte* scales) const;
  void Quantise(std::span<const float> x, SampleShape shape, const Constants& constants,
                const float* noise, std::uint8_t* codes) const;
  Status ReadCodes(std::span<const std::byte> in, SampleShape shape, std::size_t samples,
                   std::vector<std::uint8_t>* codes) const;
  Status CheckScales(const std::byte* scales, std::size_t hidden) const;

  int bits_;
  std::optional<LevelRule> rule_;
  EntropyCoder coder_;
  std::string spec_;
};

// The authors' code of a value: its sum with 2^(b-1), `half`. `divisor` is fp16(scale + 1e-6).
// Adding and subtracting 1.5 * 2^23 rounds a small fp32 number to a whole one, ties to even.
constexpr float AuthorsCode(float x, float divisor, float half) {
  const float scaled = x / divisor * half;
  const float whole = (scaled + 0x1.8p23F) - 0x1.8p23F;
  return std::min(std::max(whole, -half), half - 1) + half;
}

// The codec of `bucket=channel`. With `levels=authors` the authors' numerics to the bit: the scale
// is the absmax rounded to fp16; a code is x / fp16(scale + 1e-6) * 2^(b-1), rounded half to even,
// clipped to -2^(b-1) .. 2^(b-1) - 1 (so the positive extreme always clips); decoding multiplies by
// the scale without the 1e-6. 2 to 8 bits; an absmax beyond 65504 is an error here and infinity
// there.
Result<std::shared_ptr<const PlainCodec>> MakeChannelCodec(const CodecSpec& spec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_CHANNEL_CODEC_H_
