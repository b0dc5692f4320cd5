// Reflectors against products of reflections in double, and the bits of docs/WIRE.md.

#include "compression/codecs/klt/reflectors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "compression/codecs/klt/klt_section.h"
#include "tests/unit/compression/matrix_reference.h"
#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

ReflectorCodes RandomCodes(std::size_t rank, std::uint32_t hidden, std::uint64_t seed) {
  ReflectorCodes codes{rank, hidden, 4, std::vector<std::int8_t>(rank * hidden)};
  std::mt19937_64 random(seed);
  for (auto& code : codes.codes)
    code = static_cast<std::int8_t>(static_cast<int>(random() % 19) - 9);
  return codes;
}

// H_0 H_1 ... one after the other: I - 2 v v^T / v^T v each.
reference::Matrix SlowMatrix(const ReflectorCodes& codes) {
  reference::Matrix q(codes.hidden, codes.hidden);
  for (std::size_t h = 0; h < codes.hidden; ++h) q.at(h, h) = 1;
  for (std::size_t k = 0; k < codes.rank; ++k) {
    std::vector<double> v(codes.hidden);
    v[k] = 1;
    for (std::size_t h = k + 1; h < codes.hidden; ++h) {
      v[h] = codes.codes[k * codes.hidden + h] / 16.0;
    }
    const double norm = reference::Norm(v);
    for (std::size_t r = 0; r < codes.hidden; ++r) {
      double along = 0;
      for (std::size_t h = 0; h < codes.hidden; ++h) along += q.at(r, h) * v[h];
      for (std::size_t h = 0; h < codes.hidden; ++h) q.at(r, h) -= 2 * along * v[h] / norm / norm;
    }
  }
  return q;
}

TEST(ReflectorsTest, TurnAsTheProductOfTheReflectionsAndBack) {
  for (const auto& [rank, hidden] : {std::pair(1U, 2U), std::pair(3U, 20U), std::pair(9U, 70U),
                                     std::pair(40U, 133U), std::pair(63U, 64U)}) {
    const ReflectorCodes codes = RandomCodes(rank, hidden, hidden);
    const Reflectors turn(codes);
    EXPECT_EQ(turn.rank(), rank);
    const std::vector<float> x = reference::Normal(std::size_t{130} * hidden, rank);
    std::vector<float> y(x.size());
    turn.Turn(x, y);
    const reference::Matrix slow = SlowMatrix(codes);
    EXPECT_LT(reference::RelativeDistance(y, reference::Product({x, 130}, slow)), 2e-6) << hidden;
    turn.TurnBack(y);
    EXPECT_LT(reference::RelativeDistance(y, {x, 130}), 4e-6) << hidden;
  }
}

TEST(ReflectorsTest, TurnsHaveTheSameBitsAtEverySimdLevel) {
  const Reflectors turn(RandomCodes(21, 150, 3));
  const std::vector<float> y = reference::Normal(std::size_t{67} * 150, 8);
  std::vector<float> first, first_turned;
  AtEveryLevel([&] {
    std::vector<float> x = y, turned(y.size());
    turn.Turn(y, turned);
    turn.TurnBack(x);
    if (first.empty()) first = x;
    if (first_turned.empty()) first_turned = turned;
    EXPECT_EQ(x, first);
    EXPECT_EQ(turned, first_turned);
  });
}

// The values were computed from docs/WIRE.md alone, in another language.
TEST(ReflectorsTest, TurnBackIsTheArithmeticOfTheDocument) {
  constexpr std::size_t kRank = 3, kHidden = 70;
  ReflectorCodes codes{kRank, kHidden, 4, std::vector<std::int8_t>(kRank * kHidden)};
  std::vector<float> y(kHidden);
  for (std::size_t h = 0; h < kHidden; ++h) {
    for (std::size_t k = 0; k < kRank; ++k) {
      const auto code = static_cast<int>((k * 37 + h * 11) % 31) - 15;
      codes.codes[k * kHidden + h] = static_cast<std::int8_t>(code);
    }
    y[h] = static_cast<float>(static_cast<int>(h * 29 % 41) - 20) / 8;
  }
  const Reflectors turn(codes);
  turn.TurnBack(y);
  const std::vector<float> first = {-0x1.0bc8e8p+2F, 0x1.655548p+1F, -0x1.06a944p+0F,
                                    -0x1.fcc77ap-1F, 0x1.b16836p+0F, 0x1.0ca43p+0F};
  const std::vector<float> last = {0x1.e2d06cp-1F, 0x1.3290cp-2F, -0x1.4a101cp+0F, 0x1.65bbd8p+0F};
  EXPECT_EQ(std::vector(y.begin(), y.begin() + 6), first);
  EXPECT_EQ(std::vector(y.end() - 4, y.end()), last);
}

// Foreign codes may be anything: alike, or of any length.
TEST(ReflectorsTest, AnyCodesGiveAnOrthogonalMatrix) {
  ReflectorCodes codes{60, 64, 0, std::vector<std::int8_t>(60 * 64, 127)};
  for (int form = 0; form < 3; ++form) {
    const Reflectors turn(codes);
    const std::vector<float> x = reference::Normal(std::size_t{20} * 64, 5);
    std::vector<float> y(x.size());
    turn.Turn(x, y);
    turn.TurnBack(y);
    EXPECT_LT(reference::RelativeDistance(y, {x, 20}), 1e-3) << form;
    codes.exponent = form == 0 ? 7 : 3;
    if (form == 1) std::fill(codes.codes.begin(), codes.codes.end(), std::int8_t{-127});
  }
}

TEST(ReflectorsTest, CodesTravelAndWhatIsBrokenIsRefused) {
  for (const std::size_t rank : {1U, 5U, 11U}) {
    ReflectorCodes codes = RandomCodes(rank, 12, rank);
    for (std::size_t k = 0; k < rank; ++k) std::fill_n(codes.codes.begin() + k * 12, k + 1, 0);
    std::vector<std::byte> bytes(ReflectorBytesMax(rank, 12));
    bytes.resize(WriteReflectors(codes, bytes));
    const auto read = ReadReflectors(bytes, 11, 12, "x");
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(read->rank, rank);
    EXPECT_EQ(read->exponent, 4);
    EXPECT_EQ(read->codes, codes.codes);
    EXPECT_FALSE(ReadReflectors(bytes, rank - 1, 12, "x").ok());
    EXPECT_FALSE(ReadReflectors(bytes, 11, static_cast<std::uint32_t>(rank), "x").ok());
    EXPECT_FALSE(ReadReflectors(std::span(bytes).first(3), 11, 12, "x").ok());
    for (const auto& [at, value] : {std::pair(2U, 8), std::pair(3U, 0), std::pair(3U, 9)}) {
      auto broken = bytes;
      broken[at] = static_cast<std::byte>(value);
      EXPECT_FALSE(ReadReflectors(broken, 11, 12, "x").ok()) << at << " " << value;
    }
  }
  EXPECT_EQ(WriteReflectors({0, 12, 0, {}}, {}), 0u);
  const auto none = ReadReflectors({}, 11, 12, "x");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->rank, 0u);
}

}  // namespace
}  // namespace shoal::compression
