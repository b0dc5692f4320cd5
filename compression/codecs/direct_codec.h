// DirectCodec: every value to b bits on its own (the DirectQ baseline and the backward codec of
// AQ-SGD: "Fine-tuning Language Models over Slow Networks using Activation Quantization with
// Guarantees", section 3, algorithm 1, lines for the backward pass).
//
// State kept: none. Bytes on the wire: 16 + one scale per bucket + b bits per value or, with an
// entropy coder, what its codes need. Numerics: compression/simd/level_rule.h; decoded values are
// fp32.

#ifndef SHOAL_COMPRESSION_CODECS_DIRECT_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_DIRECT_CODEC_H_

#include <memory>

#include "compression/api/codec_spec.h"
#include "compression/codecs/bucket_section.h"
#include "compression/codecs/plain_codec.h"

namespace shoal::compression {

class DirectCodec final : public PlainCodec {
 public:
  static constexpr CodecKind kKind{"direct"};
  static constexpr CodecKind kStepKind{"direct step"};  // has no form on a device

  DirectCodec(const BucketCode& code, EntropyCoder coder);

  // For aqsgd, which writes its sections block by block.
  const BucketFormat& format() const { return format_; }

  const std::string& spec() const override { return format_.spec; }
  const CodecKind* kind() const override {
    return format_.code.rule().scale() == ScaleRule::kStep ? &kStepKind : &kKind;
  }
  // Mid-rise levels of the largest magnitude, rounded to the nearest, whatever its own are.
  std::shared_ptr<const PlainCodec> Wider() const override;
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override {
    return format_.BytesMax(shape, samples);
  }
  Result<std::size_t> Encode(std::span<const std::span<const float>> samples, SampleShape shape,
                             const RandomKey& key, std::span<std::byte> out,
                             std::span<const std::span<float>> decoded) const override;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                std::span<const std::span<float>> samples) const override;

 private:
  BucketFormat format_;
};

// ",levels=..." and so on: the options of a rule that are not the defaults (`usual`, absmax,
// nearest).
std::string RuleOptions(const LevelRule& rule, Levels usual = Levels::kMidRise);

// Of so many bits, 1 to kCodeBitsMax, with a scale per bucket and no options.
std::shared_ptr<const DirectCodec> MidRiseCodec(int bits, std::uint32_t bucket, EntropyCoder coder);

// Of the options that `direct` and `aqsgd` share, with a scale per bucket.
Result<std::shared_ptr<const DirectCodec>> MakeDirectCodec(const CodecSpec& spec,
                                                           std::uint32_t hidden);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_DIRECT_CODEC_H_
