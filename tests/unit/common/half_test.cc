#include "common/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/unit/compression/reference.h"

namespace shoal {
namespace {

namespace reference = compression::reference;

std::uint32_t Bits(float value) { return std::bit_cast<std::uint32_t>(value); }
float FromBits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

std::uint16_t ReferenceBf16(float value) {
  if (std::isnan(value)) return static_cast<std::uint16_t>(std::signbit(value) ? 0xffc0 : 0x7fc0);
  // In double no step of the rounding overflows; 2^128 and more is infinity.
  const double rounded = reference::RoundTo(value, 8, -133);
  const float as_float = std::fabs(rounded) >= 0x1p128
                             ? std::copysign(std::numeric_limits<float>::infinity(), value)
                             : static_cast<float>(rounded);
  return static_cast<std::uint16_t>(Bits(as_float) >> 16);
}

TEST(Half, EveryHalfToFloat) {
  for (std::uint32_t h = 0; h <= 0xffff; ++h) {
    const auto half = static_cast<std::uint16_t>(h);
    const double want = reference::HalfValue(half);
    const float got = HalfToFloat(half);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << h;
      continue;
    }
    ASSERT_EQ(Bits(got), Bits(static_cast<float>(want))) << h;
    ASSERT_EQ(FloatToHalf(got), half) << h;
  }
}

TEST(Half, RoundsToNearestEvenAroundEveryHalfAndEveryMiddle) {
  for (std::uint32_t h = 0; h < 0x7c00; ++h) {
    const double here = reference::HalfValue(static_cast<std::uint16_t>(h));
    const double next =
        h == 0x7bff ? 65536.0 : reference::HalfValue(static_cast<std::uint16_t>(h + 1));
    for (const double edge : {here, (here + next) / 2}) {
      const std::uint32_t bits = Bits(static_cast<float>(edge));
      for (int away = -2; away <= 2; ++away) {
        if (away < 0 && bits < 2) continue;
        const float x = FromBits(bits + static_cast<std::uint32_t>(away));
        ASSERT_EQ(FloatToHalf(x), reference::HalfOf(x)) << x;
        ASSERT_EQ(FloatToHalf(-x), reference::HalfOf(-x)) << -x;
      }
    }
  }
}

TEST(Half, FloatsOfEveryMagnitudeRoundAsTheReference) {
  for (std::uint64_t bits = 0; bits <= 0xffffffffU; bits += 4099) {
    const float x = FromBits(static_cast<std::uint32_t>(bits));
    ASSERT_EQ(FloatToHalf(x), reference::HalfOf(x)) << bits;
    ASSERT_EQ(FloatToBf16(x), ReferenceBf16(x)) << bits;
  }
}

TEST(Half, SpecialFloats) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(FloatToHalf(infinity), 0x7c00);
  EXPECT_EQ(FloatToHalf(-infinity), 0xfc00);
  EXPECT_EQ(FloatToHalf(FromBits(0x7f800001)), 0x7e00);
  EXPECT_EQ(FloatToHalf(65519.996F), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0F), 0x7c00);
  EXPECT_EQ(FloatToHalf(FromBits(1)), 0);
  EXPECT_EQ(FloatToHalf(-0.0F), 0x8000);
  EXPECT_EQ(FloatToBf16(FromBits(0x7f800001)), 0x7fc0);
  EXPECT_EQ(FloatToBf16(infinity), 0x7f80);
  EXPECT_EQ(FloatToBf16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(Bf16, EveryValueIsExactAndRoundsUpToItself) {
  for (std::uint32_t b = 0; b < 0x7f80; ++b) {
    const auto value = static_cast<std::uint16_t>(b);
    ASSERT_EQ(FloatToBf16(Bf16ToFloat(value)), value);
    ASSERT_EQ(FloatToBf16Up(Bf16ToFloat(value)), value);
    // Anything above goes to the next value, however little it is above.
    ASSERT_EQ(FloatToBf16Up(FromBits((b << 16) + 1)), b + 1);
    ASSERT_EQ(FloatToBf16Up(FromBits((b << 16) + 0xffff)), b + 1);
    // The middle goes to the even one.
    ASSERT_EQ(FloatToBf16(FromBits((b << 16) + 0x7fff)), b);
    ASSERT_EQ(FloatToBf16(FromBits((b << 16) + 0x8000)), b + (b & 1));
    ASSERT_EQ(FloatToBf16(FromBits((b << 16) + 0x8001)), b + 1);
  }
}

TEST(PowerOfTwo, IsExact) {
  for (int e = -126; e <= 127; ++e) EXPECT_EQ(PowerOfTwo(e), std::ldexp(1.0F, e));
}

}  // namespace
}  // namespace shoal
