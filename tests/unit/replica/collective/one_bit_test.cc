#include "replica/collective/one_bit.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace shoal::collective {
namespace {

using Words = std::vector<std::uint64_t>;

Words RandomWords(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  Words words(count);
  for (std::uint64_t& word : words) word = random();
  return words;
}

// From an independent Philox 4x32-10.
TEST(MergeNoiseTest, DrawsOfTheFirstVersion) {
  const MergeNoise noise(0x0123456789abcdef, 0x100000002, 3, 0x10205);
  const auto first = noise.Pair(0, 0), later = noise.Pair(1ull << 40, 15);
  EXPECT_EQ(first[0], 0xa32bab9692007e11u);
  EXPECT_EQ(first[1], 0xfc6b7d1d7e1f7318u);
  EXPECT_EQ(later[0], 0xe782595f7bf09a11u);
  EXPECT_EQ(later[1], 0x9203b2cd3d9de344u);
}

TEST(MergeNoiseTest, EveryPartOfTheKeyCounts) {
  const auto draw = [](std::uint64_t seed, std::uint64_t round, std::uint32_t slice,
                       std::uint32_t number, std::uint64_t word) {
    return MergeNoise(seed, round, slice, number).Pair(word, 0)[0];
  };
  const std::vector<std::uint64_t> draws = {
      draw(1, 1, 1, 1, 1), draw(2, 1, 1, 1, 1),          draw(1, 2, 1, 1, 1),
      draw(1, 1, 2, 1, 1), draw(1, 1, 1, 2, 1),          draw(1, 1, 1, 1, 2),
      draw(1, 1, 1, 1, 0), draw(1ull << 32, 1, 1, 1, 1), draw(1, 1ull << 32, 1, 1, 1),
      draw(1, 1, 0, 1, 1), draw(1, 1, 1, 1, 1ull << 32)};
  for (std::size_t a = 0; a < draws.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) EXPECT_NE(draws[a], draws[b]) << a << " " << b;
  }
}

TEST(TakeThresholdTest, IsTheNearestToTheShare) {
  EXPECT_EQ(TakeThreshold(1, 1), 1ull << 31);
  EXPECT_EQ(TakeThreshold(2, 1), 1431655765u);  // 2^32 / 3 = 1431655765.33
  EXPECT_EQ(TakeThreshold(1, 2), 2863311531u);
  EXPECT_EQ(TakeThreshold(0, 5), 1ull << 32);
  EXPECT_EQ(TakeThreshold(5, 0), 0u);
  for (std::uint32_t rx = 1; rx < 64; ++rx) {
    for (std::uint32_t lo = 1; lo < 64; ++lo) {
      EXPECT_NEAR(static_cast<double>(TakeThreshold(rx, lo)) / 0x1p32,
                  static_cast<double>(lo) / (rx + lo), 0x1p-33);
    }
  }
}

// The merge as the paper has it, value by value, from 32-bit numbers.
Words MergeBitByBit(const Words& received, const Words& own, std::uint32_t received_members,
                    std::uint32_t own_members, const MergeNoise& noise, std::uint64_t first_word) {
  Words out(own.size());
  for (std::size_t i = 0; i < own.size() * 64; ++i) {
    const std::size_t w = i / 64, j = i % 64;
    std::uint64_t number = 0;
    for (std::size_t level = 0; level < 32; ++level) {
      number = number * 2 + (noise.Pair(first_word + w, level / 2)[level % 2] >> j & 1);
    }
    const bool take = number < TakeThreshold(received_members, own_members);
    const bool rx = (received[w] >> j & 1) != 0, lo = (own[w] >> j & 1) != 0;
    const bool transient = lo ? take : !take;  // the paper's v: 1 with 1/m or (m-1)/m
    const bool bit = (rx && lo) || ((rx != lo) && transient);
    out[w] |= static_cast<std::uint64_t>(bit) << j;
  }
  return out;
}

TEST(MergeSignsTest, EqualsTheMergeBitByBit) {
  for (const auto& [rx, lo] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {1, 1}, {2, 1}, {3, 1}, {4, 1}, {6, 1}, {63, 1}, {3, 3}, {4, 2}, {1, 5}, {60, 3}}) {
    const Words received = RandomWords(300, rx), own = RandomWords(300, 100 + lo);
    const MergeNoise noise(5, 6, 7, rx * 100 + lo);
    Words merged = own;
    MergeSigns(received, rx, lo, noise, 1000, merged);
    EXPECT_EQ(merged, MergeBitByBit(received, own, rx, lo, noise, 1000)) << rx << " + " << lo;
  }
}

TEST(MergeSignsTest, WithoutMembersOnOneSideTheOtherIsTaken) {
  const Words received = RandomWords(9, 1), own = RandomWords(9, 2);
  const MergeNoise noise(1, 2, 3, 4);
  Words merged = own;
  MergeSigns(received, 0, 1, noise, 0, merged);
  EXPECT_EQ(merged, own);
  MergeSigns(received, 0, 0, noise, 0, merged);
  EXPECT_EQ(merged, own);
  MergeSigns(received, 2, 0, noise, 0, merged);
  EXPECT_EQ(merged, received);
}

TEST(MergeSignsTest, EqualBitsPassAndDifferentOnesAreDrawnAtTheShare) {
  constexpr std::size_t kWords = 4000;  // 256000 draws
  for (std::uint32_t m = 2; m <= 9; ++m) {
    const MergeNoise noise(11, m, 0, 0);
    Words ones(kWords, ~0ull);
    MergeSigns(Words(kWords, ~0ull), m - 1, 1, noise, 0, ones);
    EXPECT_EQ(ones, Words(kWords, ~0ull));
    Words local(kWords, ~0ull);
    MergeSigns(Words(kWords, 0), m - 1, 1, noise, 0, local);
    double taken = 0;
    for (const std::uint64_t word : local) taken += std::popcount(word);
    const double n = kWords * 64.0, p = 1.0 / m;
    EXPECT_LT(std::abs(taken - n * p) / std::sqrt(n * p * (1 - p)), 4.5) << "m = " << m;
  }
}

// Average of 1000 (first member +, three others -) over a ring of four; `fresh`: bits per hop.
double RingOfFour(bool fresh) {
  constexpr std::size_t kWords = 4000;
  Words bits(kWords, ~0ull);
  for (std::uint32_t hop = 1; hop < 4; ++hop) {
    Words own(kWords, 0);
    MergeSigns(bits, hop, 1, MergeNoise(3, 1, 0, fresh ? hop : 0), 0, own);
    bits = own;
  }
  double ones = 0;
  for (const std::uint64_t word : bits) ones += std::popcount(word);
  return ones / (kWords * 64.0);
}

TEST(MergeSignsTest, TheSameBitsAtEveryHopAreBiased) {
  EXPECT_NEAR(RingOfFour(true), 0.25, 0.005);
  EXPECT_NEAR(RingOfFour(false), 0.5, 0.005);  // the mistake that the key prevents
}

}  // namespace
}  // namespace shoal::collective
