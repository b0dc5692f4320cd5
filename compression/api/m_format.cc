#include "compression/api/m_format.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/bytes.h"
#include "common/half.h"
#include "compression/api/sample_layout.h"
#include "compression/simd/kernels.h"
#include "compression/simd/level_rule.h"

namespace shoal::compression {
namespace {

constexpr int kHalfBits = 16;

LevelRule CodeRule(int bits) {
  return LevelRule(bits, Levels::kMidRise, ScaleRule::kAbsMax, Rounding::kNearest);
}

std::size_t PackedBytes(std::size_t n, int bits) {
  return (n + 7) / 8 * static_cast<std::size_t>(bits);
}

Status Wrong(const std::string& what) {
  return InvalidArgument("m image: " + what + "; drop this m, the sample becomes a first visit");
}

}  // namespace

std::size_t MFormat::Bytes(SampleShape shape) const {
  if (bits_ == kHalfBits) return kMImageHeaderBytes + 2 * shape.values();
  return kMImageHeaderBytes + 2 * std::size_t{shape.hidden} + PackedBytes(shape.values(), bits_);
}

void MFormat::WriteHeader(int exponent, SampleShape shape, std::byte* image) const {
  image[0] = std::byte{kMImageVersion};
  image[1] = static_cast<std::byte>(exponent);
  image[2] = static_cast<std::byte>(bits_);
  image[3] = std::byte{0};
  StoreLittle<std::uint32_t>(image + 4, 0);
  StoreLittle<std::uint64_t>(image + 8, shape.values());
}

int MFormat::Exponent(std::span<const std::byte> image) {
  return LoadLittle<std::int8_t>(image.data() + 1);
}

Status MFormat::Check(std::span<const std::byte> image, SampleShape shape) const {
  if (image.size() != Bytes(shape)) {
    return Wrong(std::to_string(image.size()) + " bytes, expected " + std::to_string(Bytes(shape)));
  }
  const std::byte* head = image.data();
  if (const int version = std::to_integer<int>(head[0]); version != kMImageVersion) {
    return Wrong("format version " + std::to_string(version) + ", known is " +
                 std::to_string(kMImageVersion));
  }
  const int least = bits_ == kHalfBits ? kHalfExponentMin : 0;
  const int most = bits_ == kHalfBits ? kExponentMax : 0;
  if (const int exponent = Exponent(image); exponent < least || exponent > most) {
    return Wrong("exponent " + std::to_string(exponent) + ", allowed is " + std::to_string(least) +
                 " to " + std::to_string(most));
  }
  if (const int bits = std::to_integer<int>(head[2]); bits != bits_) {
    return Wrong(std::to_string(bits) + " bits a value, expected " + std::to_string(bits_));
  }
  if (head[3] != std::byte{0} || LoadLittle<std::uint32_t>(head + 4) != 0) {
    return Wrong("reserved header bytes are not zero");
  }
  const auto values = LoadLittle<std::uint64_t>(head + 8);
  if (values == shape.values()) return Status::Ok();
  return Wrong(std::to_string(values) + " values, expected " + std::to_string(shape.values()));
}

Status MFormat::CheckAll(std::span<const std::byte> image, SampleShape shape,
                         std::string_view spec) const {
  const std::string name = "codec " + std::string(spec);
  if (Status status = Check(image, shape); !status.ok()) return status.WithContext(name);
  const std::byte* body = Halves(image);
  if (bits_ == kHalfBits) {
    if (AbsMaxBits16(body, shape.values()) < kHalfInfinity) return Status::Ok();
    return Wrong("a value is not finite").WithContext(name);
  }
  const LevelRule rule = CodeRule(bits_);
  for (std::size_t c = 0; c < shape.hidden; ++c) {
    if (!rule.Allowed(body + 2 * c)) {
      return Wrong("scale " + std::to_string(c) + " is out of range").WithContext(name);
    }
  }
  return Status::Ok();
}

void MFormat::Read(std::span<const std::byte> image, SampleShape shape,
                   std::span<float> values) const {
  const std::byte* body = Halves(image);
  if (bits_ == kHalfBits) {
    return FromHalf(body, PowerOfTwo(Exponent(image)), values.size(), values.data());
  }
  const LevelRule rule = CodeRule(bits_);
  std::vector<float> step(shape.hidden);
  std::vector<float> offset(shape.hidden);
  for (std::size_t c = 0; c < shape.hidden; ++c) {
    rule.DecoderConstants(body + 2 * c, &step[c], &offset[c]);
  }
  std::vector<std::uint8_t> codes(values.size() + 7);
  UnpackCodes(body + 2 * std::size_t{shape.hidden}, (values.size() + 7) / 8, bits_, codes.data());
  DequantiseColumns(codes.data(), shape.tokens, shape.hidden, step.data(), offset.data(),
                    values.data());
}

Result<Buffer> MFormat::Make(std::span<float> values, SampleShape shape,
                             std::string_view spec) const {
  return bits_ == kHalfBits ? MakeHalves(values, shape, spec) : MakeCodes(values, shape, spec);
}

Result<Buffer> MFormat::MakeHalves(std::span<float> values, SampleShape shape,
                                   std::string_view spec) const {
  const std::uint32_t most = AbsMaxBits(values.data(), values.size());
  SHOAL_RETURN_IF_ERROR(CheckMagnitude(most, kDeltaMax, spec));
  SHOAL_ASSIGN_OR_RETURN(const int exponent, ExponentFor(most, spec));
  Buffer image(Bytes(shape));
  WriteHeader(exponent, shape, image.data());
  std::byte* halves = image.data() + kMImageHeaderBytes;
  ToHalf(values.data(), PowerOfTwo(-exponent), values.size(), halves);
  FromHalf(halves, PowerOfTwo(exponent), values.size(), values.data());
  return image;
}

Result<Buffer> MFormat::MakeCodes(std::span<const float> values, SampleShape shape,
                                  std::string_view spec) const {
  const std::size_t hidden = shape.hidden;
  std::vector<std::uint32_t> most(hidden);
  ColumnMagnitudes(values.data(), shape.tokens, hidden, most.data());
  const std::uint32_t largest = *std::max_element(most.begin(), most.end());
  SHOAL_RETURN_IF_ERROR(CheckMagnitude(largest, kDeltaMax, spec));
  Buffer image(Bytes(shape));
  WriteHeader(0, shape, image.data());
  std::byte* scales = image.data() + kMImageHeaderBytes;
  const LevelRule rule = CodeRule(bits_);
  std::vector<float> inverse(hidden);
  std::vector<float> bias(hidden);
  for (std::size_t c = 0; c < hidden; ++c) {
    rule.Choose(values.data() + c, shape.tokens, hidden, most[c], scales + 2 * c);
    rule.EncoderConstants(scales + 2 * c, &inverse[c], &bias[c]);
  }
  std::vector<std::uint8_t> codes((values.size() + 7) / 8 * 8);
  QuantiseColumns(values.data(), shape.tokens, hidden, rule.top(), inverse.data(), bias.data(),
                  nullptr, codes.data());
  PackCodes(codes.data(), codes.size() / 8, bits_, scales + 2 * hidden);
  return image;
}

}  // namespace shoal::compression
