// fp16 and bf16 as fp32 and back, every value of them.

#include "model/quantized/float_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace shoal::model {
namespace {

using storage::DType;

// By the definition: sign, exponent, fraction.
double Reference(std::uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) == 0 ? 1 : -1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  const int whole = exponent == 0 ? 0 : 1 << fraction_bits;
  return sign * std::ldexp(whole + fraction, std::max(exponent, 1) - bias - fraction_bits);
}

std::vector<std::uint16_t> AllHalves() {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  return halves;
}

std::uint16_t Rounded(float value, DType dtype) {
  std::byte bytes[2];
  WriteFloats({&value, 1}, dtype, 0, bytes);
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(bytes[0]) |
                                    std::to_integer<unsigned>(bytes[1]) << 8);
}

class Halves : public testing::TestWithParam<std::pair<DType, int>> {};

TEST_P(Halves, ReadExactly) {
  const auto [dtype, exponent_bits] = GetParam();
  const auto halves = AllHalves();
  std::vector<float> values(halves.size());
  ReadFloats(std::as_bytes(std::span(halves)), dtype, 0, values);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const double exact = Reference(halves[i], exponent_bits);
    if (std::isnan(exact)) {
      ASSERT_TRUE(std::isnan(values[i])) << i;
      continue;
    }
    ASSERT_EQ(values[i], exact) << i;
    ASSERT_EQ(std::signbit(values[i]), i >= 0x8000) << i;
    ASSERT_EQ(Rounded(values[i], dtype), halves[i]) << i;
  }
}

// Between two neighbours: the nearer one, and of equally near ones the even one.
TEST_P(Halves, RoundToNearestEven) {
  const auto [dtype, exponent_bits] = GetParam();
  const std::uint16_t infinity = dtype == DType::kF16 ? 0x7c00 : 0x7f80;
  for (std::uint16_t low = 0; low + 1 < infinity; ++low) {
    const std::uint16_t high = low + 1, even = low % 2 == 0 ? low : high;
    const auto middle =
        static_cast<float>((Reference(low, exponent_bits) + Reference(high, exponent_bits)) / 2);
    ASSERT_EQ(Rounded(middle, dtype), even) << low;
    ASSERT_EQ(Rounded(std::nextafter(middle, 0.0F), dtype), low) << low;
    ASSERT_EQ(Rounded(-std::nextafter(middle, std::numeric_limits<float>::infinity()), dtype),
              0x8000 | high)
        << low;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Halves,
                         testing::Values(std::pair(DType::kF16, 5), std::pair(DType::kBF16, 8)),
                         [](const auto& one) { return one.index == 0 ? "fp16" : "bf16"; });

TEST(FloatValues, BeyondFp16BecomesInfinity) {
  EXPECT_EQ(Rounded(65519.996F, DType::kF16), 0x7bff);
  EXPECT_EQ(Rounded(65520.0F, DType::kF16), 0x7c00);
  EXPECT_EQ(Rounded(-1e38F, DType::kF16), 0xfc00);
  EXPECT_EQ(Rounded(std::nanf(""), DType::kF16) & 0x7fff, 0x7e00);
  EXPECT_EQ(Rounded(std::numeric_limits<float>::max(), DType::kBF16), 0x7f80);
  EXPECT_GT(Rounded(std::bit_cast<float>(0x7f800001U), DType::kBF16), 0x7f80);
}

TEST(FloatValues, APartIsReadAndWrittenInItsPlace) {
  const std::vector<float> values = {1, 2, 3, 4};
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    std::vector<std::byte> bytes(4 * storage::DTypeBytes(dtype));
    WriteFloats(values, dtype, 0, bytes);
    WriteFloats(std::vector<float>{7, 8}, dtype, 1, bytes);
    std::vector<float> read(3);
    ReadFloats(bytes, dtype, 1, read);
    EXPECT_EQ(read, (std::vector<float>{7, 8, 4}));
  }
}

}  // namespace
}  // namespace shoal::model
