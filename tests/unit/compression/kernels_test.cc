#include "compression/kernels.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "tests/unit/compression/reference.h"

namespace shoal::compression {
namespace {

// Runs `check` with every SIMD level this machine has, one at a time.
template <typename Check>
void AtEveryLevel(Check check) {
  int levels = 0;
  std::int64_t left = hwy::SupportedTargets();
  while (left != 0) {
    const std::int64_t level = left & -left;
    left &= ~level;
    hwy::SetSupportedTargetsForTest(level);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    SCOPED_TRACE(hwy::TargetName(level));
    check();
    ++levels;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  EXPECT_GE(levels, 1);
}

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
    for (int bits = 2; bits <= 8; ++bits) {
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

TEST(Kernels, ScalesAreTheAbsmaxRoundedUp) {
  AtEveryLevel([] {
    for (const std::size_t bucket : {1, 3, 8, 100, 128}) {
      auto x = reference::Gaussian(5 * bucket, bucket);
      std::fill_n(x.begin(), bucket, 0x1p-101F);
      std::vector<std::uint16_t> scales(5);
      const std::uint32_t most = BucketScales(x.data(), 5, bucket, scales.data());
      EXPECT_EQ(most, AbsMaxBits(x.data(), x.size()));
      EXPECT_EQ(scales[0], 0);
      for (std::size_t b = 1; b < 5; ++b) {
        const float absmax = std::bit_cast<float>(AbsMaxBits(x.data() + b * bucket, bucket));
        const auto up = std::bit_cast<float>(std::uint32_t{scales[b]} << 16);
        const auto below = std::bit_cast<float>((std::uint32_t{scales[b]} - 1) << 16);
        EXPECT_LE(absmax, up);
        EXPECT_GT(absmax, below);
      }
    }
  });
}

TEST(Kernels, QuantiseTakesTheNearestLevelAndDequantiseItsFma) {
  AtEveryLevel([] {
    for (int bits = 2; bits <= 8; ++bits) {
      for (const std::size_t bucket : {1, 7, 64, 100, 128}) {
        const std::size_t n = 4 * bucket;
        const auto x = reference::Gaussian(n, static_cast<std::uint64_t>(bits) * 1000 + bucket);
        std::vector<std::uint16_t> scales(4);
        BucketScales(x.data(), 4, bucket, scales.data());
        std::vector<std::uint8_t> codes(n);
        QuantiseBuckets(x.data(), 4, bucket, bits, scales.data(), codes.data());
        std::vector<std::byte> scale_bytes(8);
        std::memcpy(scale_bytes.data(), scales.data(), 8);
        std::vector<float> back(n);
        DequantiseBuckets(codes.data(), 4, bucket, bits, scale_bytes.data(), back.data());
        for (std::size_t i = 0; i < n; ++i) {
          const double scale = reference::ScaleAt(scale_bytes, i / bucket);
          const float step = static_cast<float>(std::ldexp(scale, 1 - bits));
          const float offset = static_cast<float>(std::ldexp(scale, -bits) - scale);
          ASSERT_EQ(back[i], std::fma(static_cast<float>(codes[i]), step, offset));
          // No level is nearer; rounding of the product may swap two that are equally near.
          ASSERT_LE(std::fabs(back[i] - x[i]), std::ldexp(scale, -bits) * (1 + 1e-4)) << bits;
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
