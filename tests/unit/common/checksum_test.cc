#include "common/checksum.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace shoal {
namespace {

struct Golden {
  std::size_t size;
  std::uint64_t plain;
  std::uint64_t seeded;
};

constexpr std::uint64_t kSeed = 0x0123456789abcdef;

// XXH3-64 of the first `size` bytes of (131 i + 7) mod 256, without and with the seed, from
// another binding of xxHash. The sizes lie on both sides of the borders between its code paths.
constexpr Golden kGolden[] = {
    {0, 0x2d06800538d394c2, 0xcc1ca35a1b089c5c},    {1, 0x4c5cca45d0f4811f, 0x6dcb95d31de5966b},
    {3, 0x6e3e2670e61106ac, 0x911f06f10ddb4cd2},    {4, 0x5c4c63133443d03f, 0xac127d990d6a1500},
    {8, 0xf9fd4dd0b04d78f5, 0x9c622ca7116e701f},    {9, 0x7c20df9712c26edf, 0x6ccff5be3cc44ec4},
    {16, 0x86abf6baccea0858, 0x81ebfa79d47aa6f2},   {17, 0xb58bf5dc5022d071, 0xfd2e9d73f8cca2d4},
    {128, 0x10d17f72c0ccba41, 0x357be72a285cd85e},  {129, 0x1648bdc3db49d1a2, 0x1376e00df4c705f0},
    {240, 0xb6cfaf343fab81e6, 0xd43296f42088f6c4},  {241, 0x956cae592c67279e, 0x4cbae25b11e4b16b},
    {1024, 0x70bd377d9574f4bb, 0x9239f56d73396e44}, {4096, 0x9ddd66c14af0daff, 0xf1d98cb07b72d15c},
};

std::vector<std::byte> Pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(131 * i + 7);
  return bytes;
}

TEST(ChecksumTest, GoldenVectors) {
  for (const Golden& golden : kGolden) {
    const std::vector<std::byte> bytes = Pattern(golden.size);
    EXPECT_EQ(Checksum64(bytes), golden.plain) << golden.size;
    EXPECT_EQ(Checksum64(bytes, kSeed), golden.seeded) << golden.size;
  }
}

TEST(ChecksumTest, DoesNotDependOnAlignment) {
  std::vector<std::byte> shifted(4096 + 64);
  const std::vector<std::byte> bytes = Pattern(4096);
  for (std::size_t shift : {1, 7, 63}) {
    std::copy(bytes.begin(), bytes.end(), shifted.begin() + static_cast<std::ptrdiff_t>(shift));
    EXPECT_EQ(Checksum64(std::span(shifted).subspan(shift, 4096)), 0x9ddd66c14af0daffu);
  }
}

TEST(ChecksumTest, SeesEverySingleBitAndTheOrder) {
  std::vector<std::byte> bytes = Pattern(300);
  const std::uint64_t before = Checksum64(bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(Checksum64(bytes), before);
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  const std::vector<std::byte> other = Pattern(7);
  EXPECT_NE(Checksum64(other, Checksum64(bytes)), Checksum64(bytes, Checksum64(other)));
}

}  // namespace
}  // namespace shoal
