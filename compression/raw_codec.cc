#include "compression/raw_codec.h"

#include <cstring>
#include <limits>

#include "common/bytes.h"
#include "compression/half.h"
#include "compression/kernels.h"

namespace shoal::compression {
namespace {

std::string SpecOf(ValueType type) {
  switch (type) {
    case ValueType::kFp32: return "raw:dtype=fp32";
    case ValueType::kFp16: return "raw:dtype=fp16";
    case ValueType::kBf16: return "raw:dtype=bf16";
  }
  return "raw";
}

class RawCodec : public SampleCodec {
 public:
  RawCodec(ValueType type, bool first_visit)
      : type_(type), first_visit_(first_visit), spec_(SpecOf(type)) {}

  const std::string& spec() const override { return spec_; }
  bool keeps_m() const override { return false; }
  std::size_t EncodedBytesMax(SampleShape shape) const override {
    return kPayloadHeaderBytes + shape.values() * ValueBytes();
  }

  Result<std::size_t> Encode(std::span<const float> values, SampleShape shape,
                             std::span<const std::byte> m, const RandomKey& key,
                             std::span<std::byte> out, Buffer* next_m) const override;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, std::span<const std::byte> m,
                const RandomKey& key, std::span<float> values, Buffer* next_m) const override;

 private:
  std::size_t ValueBytes() const { return type_ == ValueType::kFp32 ? 4 : 2; }
  PayloadHeader HeaderFor(SampleShape shape) const {
    PayloadHeader header;
    header.codec = CodecId::kRaw;
    header.bits = static_cast<std::uint8_t>(8 * ValueBytes());
    header.type = type_;
    header.first_visit = first_visit_;
    header.values = shape.values();
    return header;
  }
  Status CheckValues(const std::byte* from, std::size_t n) const;

  ValueType type_;
  bool first_visit_;
  std::string spec_;
};

Result<std::size_t> RawCodec::Encode(std::span<const float> values, SampleShape shape,
                                     std::span<const std::byte> m, const RandomKey&,
                                     std::span<std::byte> out, Buffer*) const {
  SHOAL_RETURN_IF_ERROR(CheckShape(shape, values.size(), spec_));
  SHOAL_CHECK(m.empty());
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape));
  const std::uint32_t most = AbsMaxBits(values.data(), values.size());
  const bool any = type_ == ValueType::kFp32;
  SHOAL_RETURN_IF_ERROR(
      CheckMagnitude(most, any ? std::numeric_limits<float>::max() : kMagnitudeMax, spec_));
  PayloadHeader header = HeaderFor(shape);
  std::byte* to = out.data() + kPayloadHeaderBytes;
  if (type_ == ValueType::kFp32) {
    std::memcpy(to, values.data(), values.size_bytes());
  } else if (type_ == ValueType::kBf16) {
    ToBf16(values.data(), values.size(), to);
  } else {
    SHOAL_ASSIGN_OR_RETURN(const int exponent, ExponentFor(most, spec_));
    header.exponent = static_cast<std::int8_t>(exponent);
    ToHalf(values.data(), PowerOfTwo(-exponent), values.size(), to);
  }
  WritePayloadHeader(header, out.data());
  return EncodedBytesMax(shape);
}

// Refuses a non-finite value before anything is written.
Status RawCodec::CheckValues(const std::byte* from, std::size_t n) const {
  bool finite = true;
  if (type_ == ValueType::kFp32) {
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t bits = LoadLittle<std::uint32_t>(from + 4 * i) & kAbsMask;
      most = bits > most ? bits : most;
    }
    finite = FiniteBits(most);
  } else {
    const std::uint16_t infinity = type_ == ValueType::kFp16 ? kHalfInfinity : 0x7f80;
    finite = AbsMaxBits16(from, n) < infinity;
  }
  if (finite) return Status::Ok();
  return InvalidArgument("codec " + spec_ +
                         ": payload holds a value that is not finite; drop the message and ask "
                         "for it again");
}

Status RawCodec::Decode(std::span<const std::byte> payload, SampleShape shape,
                        std::span<const std::byte> m, const RandomKey&, std::span<float> values,
                        Buffer*) const {
  SHOAL_RETURN_IF_ERROR(CheckShape(shape, values.size(), spec_));
  SHOAL_CHECK(m.empty());
  SHOAL_ASSIGN_OR_RETURN(const int exponent,
                         CheckPayload(payload, HeaderFor(shape), EncodedBytesMax(shape), spec_));
  const std::byte* from = payload.data() + kPayloadHeaderBytes;
  SHOAL_RETURN_IF_ERROR(CheckValues(from, values.size()));
  if (type_ == ValueType::kFp32) {
    std::memcpy(values.data(), from, values.size_bytes());
  } else if (type_ == ValueType::kBf16) {
    FromBf16(from, values.size(), values.data());
  } else {
    FromHalf(from, PowerOfTwo(exponent), values.size(), values.data());
  }
  return Status::Ok();
}

}  // namespace

std::shared_ptr<const SampleCodec> NewRawCodec(ValueType type, bool first_visit) {
  return std::make_shared<RawCodec>(type, first_visit);
}

}  // namespace shoal::compression
