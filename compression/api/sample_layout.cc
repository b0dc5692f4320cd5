#include "compression/api/sample_layout.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/bytes.h"
#include "common/half.h"
#include "compression/simd/kernels.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kSideMax = 1U << 20;
constexpr std::size_t kSamplesMax = 1U << 16;
constexpr std::uint64_t kValuesMax = std::uint64_t{1} << 40;

std::string Text(std::string_view spec) { return "codec " + std::string(spec) + ": "; }

Status WrongField(std::string_view spec, std::string_view field, std::uint64_t got,
                  std::uint64_t want) {
  return InvalidArgument(Text(spec) + "payload header has " + std::string(field) + " " +
                         std::to_string(got) + ", expected " + std::to_string(want) +
                         "; both ends of a boundary must use the same codec, shape and m");
}

}  // namespace

void WritePayloadHeader(const PayloadHeader& header, std::byte* out) {
  const auto flags =
      static_cast<std::uint8_t>(static_cast<std::uint8_t>(header.type) | (header.variant << 4));
  out[0] = static_cast<std::byte>(header.codec);
  out[1] = std::byte{kPayloadLayoutVersion};
  out[2] = std::byte{header.bits};
  out[3] = std::byte{flags};
  StoreLittle<std::uint32_t>(out + 4, header.bucket);
  out[7] = static_cast<std::byte>(header.exponent);
  StoreLittle<std::uint64_t>(out + 8, header.values);
}

Result<int> CheckPayload(std::span<const std::byte> payload, const PayloadHeader& want,
                         std::size_t bytes, std::string_view spec) {
  if (payload.size() != bytes) {
    return InvalidArgument(Text(spec) + "payload of " + std::to_string(payload.size()) +
                           " bytes, expected " + std::to_string(bytes) +
                           "; both ends of a boundary must use the same codec, shape and m");
  }
  return CheckHeader(payload, want, spec);
}

Result<int> CheckHeader(std::span<const std::byte> payload, const PayloadHeader& want,
                        std::string_view spec) {
  if (payload.size() < kPayloadHeaderBytes) {
    return InvalidArgument(Text(spec) + "payload of " + std::to_string(payload.size()) +
                           " bytes is too short for a header; drop the message and ask for it "
                           "again");
  }
  std::byte expected[kPayloadHeaderBytes];
  WritePayloadHeader(want, expected);
  static constexpr std::string_view kNames[] = {"codec id", "layout version", "bits", "flags"};
  for (std::size_t i = 0; i < 4; ++i) {
    if (payload[i] != expected[i]) {
      return WrongField(spec, kNames[i], std::to_integer<std::uint64_t>(payload[i]),
                        std::to_integer<std::uint64_t>(expected[i]));
    }
  }
  const std::uint32_t bucket = LoadLittle<std::uint32_t>(payload.data() + 4) & 0xffffff;
  if (bucket != want.bucket) return WrongField(spec, "bucket", bucket, want.bucket);
  const auto values = LoadLittle<std::uint64_t>(payload.data() + 8);
  if (values != want.values) return WrongField(spec, "value count", values, want.values);
  const int exponent = LoadLittle<std::int8_t>(payload.data() + 7);
  const bool scaled = want.codec == CodecId::kRaw && want.type == ValueType::kFp16;
  const int least = scaled ? kHalfExponentMin : 0, most = scaled ? kExponentMax : 0;
  if (exponent < least || exponent > most) {
    return InvalidArgument(Text(spec) + "payload header has exponent " + std::to_string(exponent) +
                           ", allowed is " + std::to_string(least) + " to " + std::to_string(most) +
                           "; drop the message and ask for it again");
  }
  return exponent;
}

Status CheckMagnitude(std::uint32_t magnitude_bits, float most, std::string_view spec) {
  if (!FiniteBits(magnitude_bits)) {
    return InvalidArgument(Text(spec) +
                           "a value is not finite; nothing is sent, lower the learning rate or "
                           "look for the layer that overflows");
  }
  if (magnitude_bits > std::bit_cast<std::uint32_t>(most)) {
    return InvalidArgument(Text(spec) + "a value exceeds 2^" + std::to_string(std::ilogb(most)) +
                           " in magnitude; nothing is sent, lower the learning rate or look for "
                           "the layer that overflows");
  }
  return Status::Ok();
}

Result<int> ExponentFor(std::uint32_t magnitude_bits, std::string_view spec) {
  // 65520 * 2^e rounds to infinity at exponent e; compare magnitudes as integers.
  int exponent = 0;
  if (magnitude_bits != 0 && magnitude_bits < std::bit_cast<std::uint32_t>(kHalfSmall)) {
    return std::max(static_cast<int>(magnitude_bits >> 23) - 127, kHalfExponentMin);
  }
  if (magnitude_bits >= kHalfOverflowBits) {
    exponent = static_cast<int>((magnitude_bits - kHalfOverflowBits) >> 23) + 1;
  }
  if (exponent > kExponentMax) {
    return OutOfRange(Text(spec) + "decoded values need the exponent " + std::to_string(exponent) +
                      ", allowed is at most " + std::to_string(kExponentMax) +
                      "; drop m of this sample and send it in full");
  }
  return exponent;
}

Status CheckSamples(SampleShape shape, std::span<const std::size_t> given, bool empty_allowed,
                    std::string_view spec) {
  const auto wrong = [](std::uint32_t side) { return side < 1 || side > kSideMax; };
  if (wrong(shape.tokens) || wrong(shape.hidden)) {
    return InvalidArgument(Text(spec) + "shape " + std::to_string(shape.tokens) + " x " +
                           std::to_string(shape.hidden) + " has a side outside 1 to 1048576");
  }
  if (given.empty() || given.size() > kSamplesMax || given.size() * shape.values() > kValuesMax) {
    return InvalidArgument(Text(spec) + std::to_string(given.size()) + " samples of " +
                           std::to_string(shape.values()) +
                           " values; a message has 1 to 65536 samples and 2^40 values at most");
  }
  for (const std::size_t values : given) {
    if (values == shape.values() || (empty_allowed && values == 0)) continue;
    return InvalidArgument(Text(spec) + std::to_string(values) + " values given, the shape " +
                           std::to_string(shape.tokens) + " x " + std::to_string(shape.hidden) +
                           " has " + std::to_string(shape.values()));
  }
  return Status::Ok();
}

}  // namespace shoal::compression
