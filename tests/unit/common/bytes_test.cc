#include "common/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace shoal {
namespace {

template <typename T>
class BytesTest : public testing::Test {};

using Unsigned = testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(BytesTest, Unsigned);

// Reference: digit by digit in base 256.
TYPED_TEST(BytesTest, MatchesArithmetic) {
  using T = TypeParam;
  for (T value : {T{0}, T{1}, T(0x80), T(0x0123456789abcdefull), std::numeric_limits<T>::max()}) {
    std::array<std::byte, sizeof(T) + 1> bytes;  // one more: an unaligned address
    StoreLittle(bytes.data() + 1, value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      EXPECT_EQ(std::to_integer<unsigned>(bytes[1 + i]),
                static_cast<unsigned>((std::uint64_t{value} >> (8 * i)) & 0xff));
    }
    EXPECT_EQ(LoadLittle<T>(bytes.data() + 1), value);
    StoreBig(bytes.data() + 1, value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      EXPECT_EQ(std::to_integer<unsigned>(bytes[sizeof(T) - i]),
                static_cast<unsigned>((std::uint64_t{value} >> (8 * i)) & 0xff));
    }
    EXPECT_EQ(LoadBig<T>(bytes.data() + 1), value);
  }
}

// Keys of the stores sort as their numbers do: that is what big endian is for.
TYPED_TEST(BytesTest, BigEndianSortsAsNumbers) {
  using T = TypeParam;
  std::vector<T> ascending = {
      0, 1, 0x7f, 0x80, std::numeric_limits<T>::max() / 2, std::numeric_limits<T>::max()};
  for (std::size_t i = 1; i < ascending.size(); ++i) {
    if (ascending[i - 1] >= ascending[i]) continue;  // small types lack the later ones
    std::array<std::byte, sizeof(T)> a, b;
    StoreBig(a.data(), ascending[i - 1]);
    StoreBig(b.data(), ascending[i]);
    EXPECT_LT(a, b);
  }
}

TEST(SignedBytesTest, LittleEndianKeepsTheSign) {
  std::array<std::byte, 4> bytes;
  StoreLittle<std::int32_t>(bytes.data(), -2);
  EXPECT_EQ(bytes[0], std::byte{0xfe});
  EXPECT_EQ(bytes[3], std::byte{0xff});
  EXPECT_EQ(LoadLittle<std::int32_t>(bytes.data()), -2);
}

}  // namespace
}  // namespace shoal
