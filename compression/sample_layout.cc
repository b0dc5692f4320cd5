#include "compression/sample_layout.h"

#include <bit>
#include <cmath>

#include "common/bytes.h"
#include "compression/half.h"
#include "compression/kernels.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kSideMax = 1U << 20;
constexpr std::uint8_t kFirstVisitFlag = 0x80;

std::string Text(std::string_view spec) { return "codec " + std::string(spec) + ": "; }

Status WrongField(std::string_view spec, std::string_view field, std::uint64_t got,
                  std::uint64_t want) {
  return InvalidArgument(Text(spec) + "payload header has " + std::string(field) + " " +
                         std::to_string(got) + ", expected " + std::to_string(want) +
                         "; both ends of a boundary must use the same codec, shape and m");
}

}  // namespace

void WritePayloadHeader(const PayloadHeader& header, std::byte* out) {
  const auto flags = static_cast<std::uint8_t>(static_cast<std::uint8_t>(header.type) |
                                               (header.first_visit ? kFirstVisitFlag : 0));
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
  if (exponent < 0 || exponent > (scaled ? kExponentMax : 0)) {
    return InvalidArgument(Text(spec) + "payload header has exponent " + std::to_string(exponent) +
                           ", allowed is 0 to " + std::to_string(scaled ? kExponentMax : 0) +
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
  if (magnitude_bits >= kHalfOverflowBits) {
    exponent = static_cast<int>((magnitude_bits - kHalfOverflowBits) >> 23) + 1;
  }
  if (exponent > kExponentMax) {
    return OutOfRange(Text(spec) + "decoded values need the exponent " + std::to_string(exponent) +
                      ", allowed is 0 to " + std::to_string(kExponentMax) +
                      "; drop m of this sample and send it in full");
  }
  return exponent;
}

Status CheckShape(SampleShape shape, std::size_t given, std::string_view spec) {
  const auto wrong = [](std::uint32_t side) { return side < 1 || side > kSideMax; };
  if (wrong(shape.tokens) || wrong(shape.hidden)) {
    return InvalidArgument(Text(spec) + "shape " + std::to_string(shape.tokens) + " x " +
                           std::to_string(shape.hidden) + " has a side outside 1 to 1048576");
  }
  if (given != shape.values()) {
    return InvalidArgument(Text(spec) + std::to_string(given) + " values given, the shape " +
                           std::to_string(shape.tokens) + " x " + std::to_string(shape.hidden) +
                           " has " + std::to_string(shape.values()));
  }
  return Status::Ok();
}

std::size_t MImageBytes(SampleShape shape) { return kMImageHeaderBytes + 2 * shape.values(); }

void WriteMImageHeader(int exponent, std::uint64_t values, std::byte* image) {
  image[0] = std::byte{kMImageVersion};
  image[1] = static_cast<std::byte>(exponent);
  StoreLittle<std::uint16_t>(image + 2, 0);
  StoreLittle<std::uint32_t>(image + 4, 0);
  StoreLittle<std::uint64_t>(image + 8, values);
}

int MImageExponent(std::span<const std::byte> image) {
  return LoadLittle<std::int8_t>(image.data() + 1);
}

Status CheckMImage(std::span<const std::byte> image, SampleShape shape) {
  const auto wrong = [](const std::string& what) {
    return InvalidArgument("m image: " + what + "; drop this m, the sample becomes a first visit");
  };
  if (image.size() != MImageBytes(shape)) {
    return wrong(std::to_string(image.size()) + " bytes, expected " +
                 std::to_string(MImageBytes(shape)));
  }
  const int version = std::to_integer<int>(image[0]);
  if (version != kMImageVersion) {
    return wrong("format version " + std::to_string(version) + ", known is " +
                 std::to_string(kMImageVersion));
  }
  const int exponent = MImageExponent(image);
  if (exponent < 0 || exponent > kExponentMax) {
    return wrong("exponent " + std::to_string(exponent) + ", allowed is 0 to " +
                 std::to_string(kExponentMax));
  }
  const std::byte* head = image.data();
  if (LoadLittle<std::uint16_t>(head + 2) != 0 || LoadLittle<std::uint32_t>(head + 4) != 0) {
    return wrong("reserved header bytes are not zero");
  }
  const auto values = LoadLittle<std::uint64_t>(head + 8);
  if (values != shape.values()) {
    return wrong(std::to_string(values) + " values, expected " + std::to_string(shape.values()));
  }
  return Status::Ok();
}

Status CheckMImageValues(std::span<const std::byte> image, SampleShape shape,
                         std::string_view spec) {
  if (Status status = CheckMImage(image, shape); !status.ok()) {
    return status.WithContext("codec " + std::string(spec));
  }
  if (AbsMaxBits16(MImageValues(image), shape.values()) >= kHalfInfinity) {
    return InvalidArgument(Text(spec) + "m image: a value is not finite; drop this m, the sample " +
                           "becomes a first visit");
  }
  return Status::Ok();
}

Result<Buffer> MakeMImage(std::span<float> values, SampleShape shape, std::string_view spec) {
  const std::uint32_t most = AbsMaxBits(values.data(), values.size());
  SHOAL_RETURN_IF_ERROR(CheckMagnitude(most, kMagnitudeMax, spec));
  SHOAL_ASSIGN_OR_RETURN(const int exponent, ExponentFor(most, spec));
  Buffer image(MImageBytes(shape));
  WriteMImageHeader(exponent, values.size(), image.data());
  std::byte* halves = image.data() + kMImageHeaderBytes;
  ToHalf(values.data(), PowerOfTwo(-exponent), values.size(), halves);
  FromHalf(halves, PowerOfTwo(exponent), values.size(), values.data());
  return image;
}

}  // namespace shoal::compression
