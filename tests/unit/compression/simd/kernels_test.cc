#include "compression/simd/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "tests/unit/compression/reference.h"
#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

constexpr std::size_t kCounts[] = {1, 7, 8, 31, 64, 129, 1000};

std::vector<std::byte> RandomHalves(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> halves(2 * n + 1);
  for (std::size_t i = 0; i < n; ++i) {
    const auto half = static_cast<std::uint16_t>(random() % 0x7c00 | (random() & 0x8000));
    // One byte off, so that nothing relies on alignment.
    std::memcpy(halves.data() + 1 + 2 * i, &half, 2);
  }
  return halves;
}

TEST(Kernels, SquaresHaveOneOrder) {
  for (const std::size_t n : kCounts) {
    const auto x = reference::Gaussian(n, n), y = reference::Gaussian(n, n + 1);
    double squares[8] = {}, differences[8] = {};
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t at = i < n / 8 * 8 ? i % 8 : 0;
      squares[at] += double{x[i]} * double{x[i]};
      differences[at] += (double{x[i]} - double{y[i]}) * (double{x[i]} - double{y[i]});
    }
    double square = 0, difference = 0;
    for (const double sum : squares) square += sum;
    for (const double sum : differences) difference += sum;
    AtEveryLevel([&] {
      EXPECT_EQ(Squares(x.data(), n), square) << n;
      EXPECT_EQ(SquaredDifferences(x.data(), y.data(), n), difference) << n;
    });
  }
}

TEST(Kernels, AbsMaxFindsTheLargestAndWhatIsNotFinite) {
  AtEveryLevel([] {
    for (const std::size_t n : kCounts) {
      auto x = reference::Gaussian(n, n);
      float most = 0;
      for (const float v : x) most = std::max(most, std::fabs(v));
      EXPECT_EQ(AbsMaxBits(x.data(), n), std::bit_cast<std::uint32_t>(most));
      x[n / 2] = -std::numeric_limits<float>::quiet_NaN();
      EXPECT_GE(AbsMaxBits(x.data(), n), 0x7f800000U);
      auto halves = RandomHalves(n, n);
      halves[2 * (n - 1) + 1] = std::byte{0};
      halves[2 * (n - 1) + 2] = std::byte{0xfc};
      EXPECT_EQ(AbsMaxBits16(halves.data() + 1, n), 0x7c00);
    }
  });
}

TEST(Kernels, PackAndUnpackAgreeWithOneBitAtATime) {
  AtEveryLevel([] {
    std::mt19937_64 random(3);
    for (int bits = 1; bits <= 8; ++bits) {
      for (const std::size_t groups : {1, 2, 3, 4, 5, 63, 64, 65, 67, 200}) {
        std::vector<std::uint8_t> codes(groups * 8);
        for (auto& code : codes) code = static_cast<std::uint8_t>(random() & ((1U << bits) - 1));
        // Exactly the space that is promised: the sanitizer sees a byte too many.
        std::vector<std::byte> packed(groups * static_cast<std::size_t>(bits));
        PackCodes(codes.data(), groups, bits, packed.data());
        for (std::size_t i = 0; i < codes.size(); ++i) {
          ASSERT_EQ(reference::CodeAt(packed, bits, i), codes[i]) << bits << " " << i;
        }
        std::vector<std::uint8_t> back(codes.size());
        UnpackCodes(packed.data(), groups, bits, back.data());
        ASSERT_EQ(back, codes) << bits << " " << groups;
      }
    }
  });
}

TEST(Kernels, MagnitudesAreTheLargestOfBucketsAndColumns) {
  AtEveryLevel([] {
    for (const std::size_t side : {1, 3, 8, 100, 128}) {
      const auto x = reference::Gaussian(5 * side, side);
      std::vector<std::uint32_t> buckets(5);
      EXPECT_EQ(BucketMagnitudes(x.data(), 5, side, buckets.data()),
                AbsMaxBits(x.data(), x.size()));
      std::vector<std::uint32_t> columns(side);
      ColumnMagnitudes(x.data(), 5, side, columns.data());
      for (std::size_t r = 0; r < 5; ++r) {
        EXPECT_EQ(buckets[r], AbsMaxBits(x.data() + r * side, side));
      }
      for (std::size_t c = 0; c < side; ++c) {
        float most = 0;
        for (std::size_t r = 0; r < 5; ++r) most = std::max(most, std::fabs(x[r * side + c]));
        EXPECT_EQ(std::bit_cast<float>(columns[c]), most);
      }
    }
  });
}

// The kernel's arithmetic, one value at a time.
std::uint8_t ReferenceCode(float x, float inverse, float bias, int top) {
  const float at = x * inverse + bias;
  if (at < 0) return 0;
  return static_cast<std::uint8_t>(std::min(static_cast<int>(at), top));
}

TEST(Kernels, CodesAndLevelsOfBucketsAndColumnsAreTheReference) {
  AtEveryLevel([] {
    for (const std::size_t side : {1, 7, 64, 100, 129}) {
      constexpr std::size_t kRows = 4;
      const std::size_t n = kRows * side;
      const auto x = reference::Gaussian(n, side);
      const auto noise = reference::Gaussian(n, side + 1);
      const auto inverse = reference::Gaussian(std::max(side, kRows), side + 2);
      const auto bias = reference::Gaussian(std::max(side, kRows), side + 3, 4.0F);
      std::vector<std::uint8_t> codes(n);
      std::vector<float> levels(n);
      for (const int top : {1, 3, 6, 255}) {
        for (const float* add : {static_cast<const float*>(nullptr), noise.data()}) {
          QuantiseBuckets(x.data(), kRows, side, top, inverse.data(), bias.data(), add,
                          codes.data());
          DequantiseBuckets(codes.data(), kRows, side, inverse.data(), bias.data(), levels.data());
          for (std::size_t i = 0; i < n; ++i) {
            const std::size_t b = i / side;
            const float plus = add == nullptr ? bias[b] : bias[b] + add[i];
            ASSERT_EQ(codes[i], ReferenceCode(x[i], inverse[b], plus, top));
            ASSERT_EQ(levels[i], static_cast<float>(codes[i]) * inverse[b] + bias[b]);
          }
          QuantiseColumns(x.data(), kRows, side, top, inverse.data(), bias.data(), add,
                          codes.data());
          DequantiseColumns(codes.data(), kRows, side, inverse.data(), bias.data(), levels.data());
          for (std::size_t i = 0; i < n; ++i) {
            const std::size_t c = i % side;
            const float plus = add == nullptr ? bias[c] : bias[c] + add[i];
            ASSERT_EQ(codes[i], ReferenceCode(x[i], inverse[c], plus, top));
            ASSERT_EQ(levels[i], static_cast<float>(codes[i]) * inverse[c] + bias[c]);
          }
        }
      }
    }
  });
}

TEST(Kernels, HalfArithmeticIsTheReferenceOneValueAtATime) {
  const auto at = [](const std::byte* from, std::size_t i) {
    std::uint16_t half = 0;
    std::memcpy(&half, from + 2 * i, 2);
    return half;
  };
  AtEveryLevel([&] {
    for (const std::size_t n : kCounts) {
      for (const int exponent : {0, 3, 104}) {
        const auto factor = static_cast<float>(std::ldexp(1, exponent));
        const auto x = reference::Gaussian(n, n, factor);
        const auto bytes = RandomHalves(n, n + 1);
        const std::byte* halves = bytes.data() + 1;
        std::vector<float> base(n), delta(n);
        std::vector<std::byte> plain(2 * n + 1), next(2 * n + 1);
        FromHalf(halves, factor, n, base.data());
        const std::uint32_t before = SubtractHalf(x.data(), halves, factor, n, delta.data());
        EXPECT_EQ(before, AbsMaxBits(x.data(), n));
        ToHalf(x.data(), 1 / factor, n, plain.data() + 1);
        const std::uint32_t most =
            AddToHalf(x.data(), halves, factor, 1 / factor, n, next.data() + 1);
        float largest = 0;
        const auto scaled = [&](float value) {
          return reference::HalfOf(std::ldexp(static_cast<double>(value), -exponent));
        };
        for (std::size_t i = 0; i < n; ++i) {
          const float sum = base[i] + x[i];
          largest = std::max(largest, std::fabs(sum));
          ASSERT_EQ(base[i], std::ldexp(reference::HalfValue(at(halves, i)), exponent));
          ASSERT_EQ(delta[i], x[i] - base[i]);
          ASSERT_EQ(at(plain.data() + 1, i), scaled(x[i]));
          ASSERT_EQ(at(next.data() + 1, i), scaled(sum));
        }
        EXPECT_EQ(most, std::bit_cast<std::uint32_t>(largest));
      }
    }
  });
}

// The conversion instructions against the reference, at every half and around every middle.
TEST(Kernels, EveryRoundingIsTheSameAtEveryLevel) {
  std::vector<float> x;
  for (std::uint32_t h = 0; h < 0x7c00; ++h) {
    const double here = reference::HalfValue(static_cast<std::uint16_t>(h));
    const double next =
        h == 0x7bff ? 65536.0 : reference::HalfValue(static_cast<std::uint16_t>(h + 1));
    const auto middle = std::bit_cast<std::uint32_t>(static_cast<float>((here + next) / 2));
    for (std::uint32_t near = middle - 1; near <= middle + 1; ++near) {
      x.push_back(std::bit_cast<float>(near));
      x.push_back(-x.back());
    }
    x.push_back(static_cast<float>(here));
  }
  AtEveryLevel([&] {
    std::vector<std::byte> halves(2 * x.size());
    ToHalf(x.data(), 1.0F, x.size(), halves.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, halves.data() + 2 * i, 2);
      ASSERT_EQ(half, reference::HalfOf(x[i])) << x[i];
    }
  });
}

TEST(Kernels, Bf16GoesThereAndBack) {
  AtEveryLevel([] {
    for (const std::size_t n : kCounts) {
      const auto x = reference::Gaussian(n, n);
      std::vector<std::byte> stored(2 * n);
      std::vector<float> back(n);
      ToBf16(x.data(), n, stored.data());
      FromBf16(stored.data(), n, back.data());
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(back[i], static_cast<float>(reference::RoundTo(x[i], 8, -133)));
      }
    }
  });
}

}  // namespace
}  // namespace shoal::compression
