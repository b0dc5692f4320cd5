#include "compression/simd/dither_kernels.h"

#include <Random123/philox.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

using Key = std::array<std::uint32_t, 2>;

std::vector<float> Normal(std::size_t n, std::uint64_t seed, float scale = 1.0F) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

std::vector<std::uint16_t> Words(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint16_t> words(n);
  for (auto& w : words) w = static_cast<std::uint16_t>(random());
  return words;
}

// The dither as it is defined.
double Dither(std::uint16_t word) {
  const double magnitude = ((word & 0x7fff) + 0.5) / 65536;
  return (word & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(DitherKernels, WordsAreRandom123sPhilox) {
  for (const Key& key : {Key{0, 0}, Key{0x12345678, 0x9abcdef0}, Key{0xffffffff, 0xffffffff}}) {
    for (const std::uint64_t token :
         {std::uint64_t{0}, std::uint64_t{77}, std::uint64_t{1} << 35}) {
      const std::uint32_t first = 3;
      const std::size_t groups = 5;
      std::vector<std::uint16_t> expected(groups * kDitherGroup);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const std::size_t at = i % kDitherGroup;
        const auto block =
            static_cast<std::uint32_t>((first + i / kDitherGroup) * 16 + at % 64 / 4);
        const auto random = r123::Philox4x32()({{block, static_cast<std::uint32_t>(token), 7,
                                                 static_cast<std::uint32_t>(token >> 32)}},
                                               {{key[0], key[1]}});
        const std::uint32_t word = random[2 * (at / 64) + at % 4 / 2];
        expected[i] = static_cast<std::uint16_t>(at % 2 == 0 ? word : word >> 16);
      }
      AtEveryLevel([&] {
        std::vector<std::uint16_t> words(groups * kDitherGroup);
        DitherWords(key, token, first, groups, words.data());
        ASSERT_EQ(words, expected);
      });
    }
  }
}

TEST(DitherKernels, SumOfSquaresHasOneOrder) {
  for (const std::size_t n : {0, 1, 15, 16, 17, 100, 128, 1600, 4099}) {
    const auto x = Normal(n, n, 1e10F);
    double sums[16] = {};
    for (std::size_t i = 0; i < n; ++i) sums[i % 16] += double{x[i]} * double{x[i]};
    for (int half = 8; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
    }
    AtEveryLevel([&] { ASSERT_EQ(SumOfSquares(x.data(), n), sums[0]) << n; });
  }
  for (const float wrong : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const std::size_t at : {0, 57, 99}) {
      auto x = Normal(100, 1);
      x[at] = -wrong;
      AtEveryLevel([&] { EXPECT_FALSE(std::isfinite(SumOfSquares(x.data(), x.size()))); });
    }
  }
}

TEST(DitherKernels, CodesAreTheNearestAndCellsSayWhichQuarter) {
  for (const float step : {1.0F, 0.03F, 1e-20F, 1e20F}) {
    for (const bool wide : {false, true}) {
      const std::size_t n = 5003;
      const auto x = Normal(n, 3, wide ? 40 * step : 6 * step);
      const auto words = Words(n, 4);
      const int most = wide ? kWideMost : kNarrowMost;
      AtEveryLevel([&] {
        std::vector<std::uint8_t> cells(n);
        const bool escapes =
            QuantiseDithered(x.data(), words.data(), n, 1 / step, wide, cells.data());
        bool any = false;
        for (std::size_t i = 0; i < n; ++i) {
          const double u = Dither(words[i]);
          const double sign = u < 0 ? -1 : 1;
          const double exact = sign * (double{x[i]} / step + u);
          const std::int32_t code = DitheredCode(x[i], words[i], 1 / step);
          ASSERT_LE(std::fabs(code - exact), 0.5 + 1e-4);
          const bool inside = code >= -most && code <= most;
          any = any || !inside;
          const int symbol = inside ? code + most + 1 : 0;
          const auto quarter = static_cast<int>(std::fabs(u) * 8);
          ASSERT_EQ(cells[i], wide ? symbol : quarter * 64 + symbol);
        }
        ASSERT_EQ(escapes, any);
      });
    }
  }
}

TEST(DitherKernels, ValuesAreWithinHalfAStepAndTheSameEverywhere) {
  for (const float step : {1.0F, 0.3F, 1e-25F, 1e20F}) {
    for (const bool wide : {false, true}) {
      const std::size_t n = 4001;
      const auto x = Normal(n, 5, wide ? 20 * step : 2 * step);
      const auto words = Words(n, 6);
      std::vector<std::uint8_t> cells(n);
      ASSERT_FALSE(QuantiseDithered(x.data(), words.data(), n, 1 / step, wide, cells.data()));
      AtEveryLevel([&] {
        std::vector<float> back(n);
        DequantiseDithered(cells.data(), words.data(), n, step, wide, back.data());
        for (std::size_t i = 0; i < n; ++i) {
          const std::int32_t code = DitheredCode(x[i], words[i], 1 / step);
          ASSERT_EQ(back[i], DitheredValue(code, words[i], step));
          // code - a is exact in fp32, so one rounding remains.
          const double u = Dither(words[i]);
          const double folded = (code - std::fabs(u)) * double{step};
          ASSERT_EQ(back[i], static_cast<float>(u < 0 ? -folded : folded));
          ASSERT_LE(std::fabs(back[i] - x[i]), step * 0.5001F);
        }
      });
    }
  }
}

}  // namespace
}  // namespace shoal::compression
