// fp16 and bf16 as fp32 and back, every value of them.

#include "storage/models/float_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "common/bytes.h"

namespace shoal::storage {
namespace {

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
  (void)WriteFloats(dtype, {&value, 1}, bytes);
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(bytes[0]) |
                                    std::to_integer<unsigned>(bytes[1]) << 8);
}

class Halves : public testing::TestWithParam<std::pair<DType, int>> {};

TEST_P(Halves, ReadExactly) {
  const auto [dtype, exponent_bits] = GetParam();
  const auto halves = AllHalves();
  std::vector<float> values(halves.size());
  ReadFloats(dtype, std::as_bytes(std::span(halves)), values);
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

TEST(FloatBytes, BeyondFp16BecomesInfinity) {
  EXPECT_EQ(Rounded(65519.996F, DType::kF16), 0x7bff);
  EXPECT_EQ(Rounded(65520.0F, DType::kF16), 0x7c00);
  EXPECT_EQ(Rounded(-1e38F, DType::kF16), 0xfc00);
  EXPECT_EQ(Rounded(std::nanf(""), DType::kF16) & 0x7fff, 0x7e00);
  EXPECT_EQ(Rounded(std::numeric_limits<float>::max(), DType::kBF16), 0x7f80);
  EXPECT_GT(Rounded(std::bit_cast<float>(0x7f800001U), DType::kBF16), 0x7f80);
}

TEST(FloatBytes, UnalignedBytesWillDo) {
  const std::vector<float> values = {1, 2, 3, 4};
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    std::vector<std::byte> bytes(4 * DTypeBytes(dtype) + 1);
    const auto odd = std::span(bytes).subspan(1);
    EXPECT_EQ(WriteFloats(dtype, values, odd), std::nullopt);
    std::vector<float> read(4);
    ReadFloats(dtype, odd, read);
    EXPECT_EQ(read, values);
  }
}

TEST(FloatBytes, ValuesThatBecomeInfinityAreTold) {
  std::vector<std::byte> bytes(6);
  EXPECT_EQ(WriteFloats(DType::kF16, std::vector<float>{1, 70000, 80000}, bytes), 70000.0F);
  EXPECT_EQ(WriteFloats(DType::kBF16, std::vector<float>{1, 70000, 80000}, bytes), std::nullopt);
}

// Against isfinite of what ReadFloats makes of it, wherever the value stands.
TEST(FloatBytes, TheFirstValueThatIsNotFinite) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const std::size_t size = DTypeBytes(dtype);
    std::vector<std::byte> one(size);
    for (const std::uint16_t high : AllHalves()) {
      std::fill(one.begin(), one.end(), std::byte{0});
      StoreLittle<std::uint16_t>(one.data() + size - 2, high);
      float value = 0;
      ReadFloats(dtype, one, {&value, 1});
      ASSERT_EQ(FirstNotFinite(dtype, one).has_value(), !std::isfinite(value)) << high;
    }
    std::vector<std::byte> bytes(size * 9000 + 1);
    const auto odd = std::span(bytes).subspan(1);
    EXPECT_EQ(FirstNotFinite(dtype, odd), std::nullopt);
    for (const std::size_t at : {std::size_t{8999}, std::size_t{4096}, std::size_t{4095}}) {
      const float infinity = -std::numeric_limits<float>::infinity();
      (void)WriteFloats(dtype, {&infinity, 1}, odd.subspan(at * size, size));
      EXPECT_EQ(FirstNotFinite(dtype, odd), at);
    }
    EXPECT_EQ(FirstNotFinite(dtype, {}), std::nullopt);
  }
}

}  // namespace
}  // namespace shoal::storage
