// ScaledCodec: divides values by a power of two per channel before another codec sees them
// (channel_scales.h), and multiplies what it decodes.
//
// State kept: none. Bytes on the wire: a header, the exponents (about three bits a channel), and
// the other codec's section: docs/WIRE.md, "Channel scales". Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_SCALED_SCALED_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_SCALED_SCALED_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "compression/codecs/plain_codec.h"
#include "compression/codecs/scaled/channel_scales.h"

namespace shoal::compression {

// What stands before the other codec's section.
struct ScaledHead {
  ChannelExponents exponents;
  std::size_t bytes = 0;
};
std::size_t ScaledHeadBytesMax(std::uint32_t hidden);
// Writes the head of a section of `samples` samples to `out` and returns its bytes.
std::size_t WriteScaledHead(const ChannelExponents& exponents, SampleShape shape,
                            std::size_t samples, std::span<std::byte> out);
Result<ScaledHead> ReadScaledHead(std::span<const std::byte> payload, SampleShape shape,
                                  std::size_t samples, std::string_view spec);

class ScaledCodec final : public PlainCodec {
 public:
  // `inner` codes the scaled values. The spec is its spec with `channels=on`.
  explicit ScaledCodec(std::shared_ptr<const PlainCodec> inner)
      : spec_(inner->spec() + ",channels=on"), inner_(std::move(inner)) {}

  static constexpr CodecKind kKind{"scaled"};
  const CodecKind* kind() const override { return &kKind; }
  // The codec of the scaled values.
  const std::shared_ptr<const PlainCodec>& inner() const { return inner_; }

  const std::string& spec() const override { return spec_; }
  bool divisible() const override { return inner_->divisible(); }
  std::shared_ptr<const PlainCodec> Wider() const override;
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override;
  Result<std::size_t> Encode(std::span<const std::span<const float>> samples, SampleShape shape,
                             const RandomKey& key, std::span<std::byte> out,
                             std::span<const std::span<float>> decoded) const override {
    return EncodeChanges(samples, {}, shape, key, out, decoded);
  }
  bool follows_values() const override { return inner_->follows_values(); }
  Result<std::size_t> EncodeChanges(std::span<const std::span<const float>> changes,
                                    std::span<const std::span<const float>> values,
                                    SampleShape shape, const RandomKey& key,
                                    std::span<std::byte> out,
                                    std::span<const std::span<float>> decoded) const override;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                std::span<const std::span<float>> samples) const override;

 private:
  const std::string spec_;
  const std::shared_ptr<const PlainCodec> inner_;
};

// The codec itself, or under channel scales: what `channels=` says.
inline std::shared_ptr<const PlainCodec> WithChannelScales(std::shared_ptr<const PlainCodec> codec,
                                                           bool scaled) {
  return scaled ? std::make_shared<const ScaledCodec>(std::move(codec)) : codec;
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_SCALED_SCALED_CODEC_H_
