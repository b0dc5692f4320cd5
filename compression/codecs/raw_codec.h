// RawCodec: values in fp32, fp16 or bf16.
//
// No paper. State kept: none. Bytes on the wire: 16 + 4 or 2 per value. fp16 carries one
// power-of-two exponent per message, so values beyond 65504 survive.

#ifndef SHOAL_COMPRESSION_CODECS_RAW_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_RAW_CODEC_H_

#include <memory>

#include "compression/api/sample_layout.h"
#include "compression/codecs/plain_codec.h"

namespace shoal::compression {

class RawCodec final : public PlainCodec {
 public:
  static constexpr CodecKind kKind{"raw"};

  explicit RawCodec(ValueType type);

  ValueType type() const { return type_; }

  const std::string& spec() const override { return spec_; }
  const CodecKind* kind() const override { return &kKind; }
  std::shared_ptr<const PlainCodec> Wider() const override {
    return std::make_shared<const RawCodec>(ValueType::kFp32);
  }
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override {
    return kPayloadHeaderBytes + samples * shape.values() * ValueBytes();
  }

  Result<std::size_t> Encode(std::span<const std::span<const float>> samples, SampleShape shape,
                             const RandomKey& key, std::span<std::byte> out,
                             std::span<const std::span<float>> decoded) const override;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                std::span<const std::span<float>> samples) const override;

 private:
  std::size_t ValueBytes() const { return type_ == ValueType::kFp32 ? 4 : 2; }
  PayloadHeader HeaderFor(SampleShape shape, std::size_t samples) const;
  Status CheckValues(const std::byte* from, std::size_t n) const;
  void Write(std::span<const float> values, int exponent, std::byte* to) const;
  void Read(const std::byte* from, int exponent, std::span<float> values) const;

  ValueType type_;
  std::string spec_;
};

const CodecEntry& RawEntry();

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_RAW_CODEC_H_
