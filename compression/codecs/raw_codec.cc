#include "compression/codecs/raw_codec.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "common/bytes.h"
#include "common/half.h"
#include "compression/codecs/codec_entry.h"
#include "compression/simd/kernels.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kTypeAt = std::string_view("raw:dtype=").size();

std::string SpecOf(ValueType type) {
  switch (type) {
    case ValueType::kFp32: return kLosslessCodec;
    case ValueType::kFp16: return "raw:dtype=fp16";
    case ValueType::kBf16: return "raw:dtype=bf16";
  }
  return "raw";
}

}  // namespace

RawCodec::RawCodec(ValueType type) : type_(type), spec_(SpecOf(type)) {}

PayloadHeader RawCodec::HeaderFor(SampleShape shape, std::size_t samples) const {
  PayloadHeader header;
  header.codec = CodecId::kRaw;
  header.bits = static_cast<std::uint8_t>(8 * ValueBytes());
  header.type = type_;
  header.values = samples * shape.values();
  return header;
}

Result<std::size_t> RawCodec::Encode(std::span<const std::span<const float>> samples,
                                     SampleShape shape, const RandomKey&, std::span<std::byte> out,
                                     std::span<const std::span<float>> decoded) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, false, spec_));
  SHOAL_CHECK(decoded.empty() || decoded.size() == samples.size());
  SHOAL_CHECK(out.size() >= EncodedBytesMax(shape, samples.size()));
  std::uint32_t most = 0;
  for (const auto& sample : samples) {
    most = std::max(most, AbsMaxBits(sample.data(), sample.size()));
  }
  const bool any = type_ == ValueType::kFp32;
  SHOAL_RETURN_IF_ERROR(
      CheckMagnitude(most, any ? std::numeric_limits<float>::max() : kMagnitudeMax, spec_));
  int exponent = 0;
  if (type_ == ValueType::kFp16) {
    SHOAL_ASSIGN_OR_RETURN(exponent, ExponentFor(most, spec_));
  }
  PayloadHeader header = HeaderFor(shape, samples.size());
  header.exponent = static_cast<std::int8_t>(exponent);
  WritePayloadHeader(header, out.data());
  std::byte* to = out.data() + kPayloadHeaderBytes;
  for (std::size_t i = 0; i < samples.size(); ++i, to += shape.values() * ValueBytes()) {
    Write(samples[i], exponent, to);
    if (!decoded.empty()) Read(to, exponent, decoded[i]);
  }
  return EncodedBytesMax(shape, samples.size());
}

void RawCodec::Write(std::span<const float> values, int exponent, std::byte* to) const {
  switch (type_) {
    case ValueType::kFp32: std::memcpy(to, values.data(), values.size_bytes()); return;
    case ValueType::kBf16: ToBf16(values.data(), values.size(), to); return;
    case ValueType::kFp16: ToHalf(values.data(), PowerOfTwo(-exponent), values.size(), to); return;
  }
}

void RawCodec::Read(const std::byte* from, int exponent, std::span<float> values) const {
  switch (type_) {
    case ValueType::kFp32: std::memcpy(values.data(), from, values.size_bytes()); return;
    case ValueType::kBf16: FromBf16(from, values.size(), values.data()); return;
    case ValueType::kFp16:
      FromHalf(from, PowerOfTwo(exponent), values.size(), values.data());
      return;
  }
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

Status RawCodec::Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey&,
                        std::span<const std::span<float>> samples) const {
  SHOAL_RETURN_IF_ERROR(CheckSamples(shape, samples, true, spec_));
  SHOAL_ASSIGN_OR_RETURN(const int exponent,
                         CheckPayload(payload, HeaderFor(shape, samples.size()),
                                      EncodedBytesMax(shape, samples.size()), spec_));
  const std::byte* from = payload.data() + kPayloadHeaderBytes;
  for (const std::span<float> sample : samples) {
    if (!sample.empty()) {
      SHOAL_RETURN_IF_ERROR(CheckValues(from, sample.size()));
      Read(from, exponent, sample);
    }
    from += shape.values() * ValueBytes();
  }
  return Status::Ok();
}

namespace {

Result<PlainPointer> Make(const CodecSpec& spec, std::uint32_t /*hidden*/) {
  const std::string_view type = spec.Option("dtype");
  for (const ValueType known : {ValueType::kFp32, ValueType::kFp16, ValueType::kBf16}) {
    if (SpecOf(known).substr(kTypeAt) == type)
      return PlainPointer(std::make_shared<RawCodec>(known));
  }
  return SpecError(spec,
                   (type.empty() ? std::string("no dtype given") : "dtype=" + std::string(type)) +
                       "; allowed are dtype=fp32, dtype=fp16, dtype=bf16");
}

constexpr std::string_view kKeys[] = {"dtype"};

}  // namespace

const CodecEntry& RawEntry() {
  static constexpr CodecEntry kEntry{
      .name = "raw",
      .usage = "raw:dtype=fp32|fp16|bf16",
      .keys = kKeys,
      .exact = true,
      .device_form = true,
      .make_plain = Make,
      .no_feedback = [](const CodecSpec&) -> std::string_view {
        return "raw leaves nothing to feed back; leave feedback out";
      },
      .lossless = [](const CodecSpec& spec) { return spec.Option("dtype") == "fp32"; },
  };
  return kEntry;
}

}  // namespace shoal::compression
