// Slow, obvious references: one value at a time, in double, bit by bit. They share no code with
// compression/.

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_REFERENCE_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_REFERENCE_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace shoal::compression::reference {

inline double HalfValue(std::uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) {
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

// Rounds to `digits` significant bits with the least exponent `lowest` (of the last place).
inline double RoundTo(double value, int digits, int lowest) {
  if (value == 0.0) return value;
  const int place = std::max(std::ilogb(value) - (digits - 1), lowest);
  return std::ldexp(std::nearbyint(std::ldexp(value, -place)), place);
}

inline std::uint16_t HalfOf(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double rounded = RoundTo(std::fabs(value), 11, -24);
  if (rounded > 65504.0) return sign | 0x7c00;
  if (rounded < std::ldexp(1, -14)) {
    return static_cast<std::uint16_t>(sign | static_cast<int>(std::ldexp(rounded, 24)));
  }
  const int exponent = std::ilogb(rounded);
  const int mantissa = static_cast<int>(std::ldexp(rounded, 10 - exponent)) - 1024;
  return static_cast<std::uint16_t>(sign | ((exponent + 15) << 10) | mantissa);
}

// Value i's code, read bit by bit.
inline unsigned CodeAt(std::span<const std::byte> codes, int bits, std::size_t i) {
  unsigned code = 0;
  for (int b = 0; b < bits; ++b) {
    const std::size_t at = i / 8 * bits * 8 + i % 8 * bits + b;
    code |= (std::to_integer<unsigned>(codes[at / 8]) >> (at % 8) & 1U) << b;
  }
  return code;
}

inline double ScaleAt(std::span<const std::byte> body, std::size_t bucket_index) {
  const auto low = std::to_integer<std::uint32_t>(body[2 * bucket_index]);
  const auto high = std::to_integer<std::uint32_t>(body[2 * bucket_index + 1]);
  return std::bit_cast<float>(low << 16 | high << 24);
}

// The levels that `body` (scales, then codes) stands for: one fma in fp32 each.
inline std::vector<float> Levels(std::span<const std::byte> body, std::size_t n, std::size_t bucket,
                                 int bits) {
  std::vector<float> levels(n);
  const auto codes = body.subspan(n / bucket * 2);
  for (std::size_t i = 0; i < n; ++i) {
    const double scale = ScaleAt(body, i / bucket);
    const float step = static_cast<float>(std::ldexp(scale, 1 - bits));
    const float offset = static_cast<float>(std::ldexp(scale, -bits) - scale);
    levels[i] = std::fma(static_cast<float>(CodeAt(codes, bits, i)), step, offset);
  }
  return levels;
}

struct Image {
  int exponent = 0;
  std::vector<std::uint16_t> halves;
  bool operator==(const Image&) const = default;
};

inline Image ImageOf(std::span<const float> values) {
  Image image;
  const auto fits = [&] {
    for (const float v : values) {
      if (std::isinf(HalfValue(HalfOf(std::ldexp(static_cast<double>(v), -image.exponent))))) {
        return false;
      }
    }
    return true;
  };
  while (!fits()) ++image.exponent;
  for (const float v : values) {
    image.halves.push_back(HalfOf(std::ldexp(static_cast<double>(v), -image.exponent)));
  }
  return image;
}

inline Image ReadImage(std::span<const std::byte> bytes) {
  Image image;
  image.exponent = static_cast<std::int8_t>(bytes[1]);
  for (std::size_t at = 16; at < bytes.size(); at += 2) {
    image.halves.push_back(static_cast<std::uint16_t>(
        std::to_integer<unsigned>(bytes[at]) | std::to_integer<unsigned>(bytes[at + 1]) << 8));
  }
  return image;
}

inline float ImageValue(const Image& image, std::size_t i) {
  return static_cast<float>(std::ldexp(HalfValue(image.halves[i]), image.exponent));
}

// m' = m + levels, one fp32 addition each, stored as an image.
inline Image NextImage(const Image& m, std::span<const float> levels) {
  std::vector<float> sums(levels.size());
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const float base = ImageValue(m, i);
    sums[i] = base + levels[i];
  }
  return ImageOf(sums);
}

// Activation-like values: Gaussian, one in 16 far out.
inline std::vector<float> Gaussian(std::size_t n, std::uint64_t seed, float scale = 1.0F) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(random) * scale * (random() % 16 == 0 ? 8.0F : 1.0F);
  return values;
}

}  // namespace shoal::compression::reference

#endif  // SHOAL_TESTS_UNIT_COMPRESSION_REFERENCE_H_
