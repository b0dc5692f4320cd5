#include "compression/simd/vector_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "tests/unit/compression/reference.h"
#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

using Values = std::vector<float>;
using Signs = std::vector<std::byte>;

constexpr std::size_t kCounts[] = {1, 7, 8, 31, 63, 64, 65, 129, 200, 1000};

std::vector<std::uint32_t> Bits(const Values& x) {
  std::vector<std::uint32_t> bits;
  for (const float v : x) bits.push_back(std::bit_cast<std::uint32_t>(v));
  return bits;
}

// With zeros of both signs.
Values WithZeros(std::size_t n, std::uint64_t seed) {
  Values x = reference::Gaussian(n, seed);
  for (std::size_t i = 0; i < n; i += 5) x[i] = i % 2 == 0 ? 0.0F : -0.0F;
  return x;
}

Signs SignsOf(const Values& x) {
  Signs signs((x.size() + 7) / 8);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] >= 0) signs[i / 8] |= static_cast<std::byte>(1 << i % 8);
  }
  return signs;
}

double SquaresOf(const Values& x) {
  double sums[8] = {}, sum = 0;
  const std::size_t whole = x.size() / 8 * 8;
  for (std::size_t i = 0; i < whole; ++i) sums[i % 8] += double{x[i]} * double{x[i]};
  for (const double one : sums) sum += one;
  for (std::size_t i = whole; i < x.size(); ++i) sum += double{x[i]} * double{x[i]};
  return sum;
}

TEST(VectorKernels, SumsAreOneOperationEach) {
  for (const std::size_t n : kCounts) {
    const Values x = WithZeros(n, n), y = WithZeros(n, n + 1);
    Values sum(n), scaled(n), onto(n), less(n), both(n);
    for (std::size_t i = 0; i < n; ++i) {
      sum[i] = x[i] + y[i];
      scaled[i] = x[i] * 0.3F;
      onto[i] = y[i] + scaled[i];
      both[i] = scaled[i] + y[i];
      less[i] = x[i] - y[i];
    }
    AtEveryLevel([&] {
      Values out(n);
      AddVectors(x.data(), y.data(), n, out.data());
      EXPECT_EQ(Bits(out), Bits(sum));
      out = y;
      AddOnto(x.data(), n, out.data());
      EXPECT_EQ(Bits(out), Bits(sum));
      out = x;
      Scale(0.3F, n, out.data());
      EXPECT_EQ(Bits(out), Bits(scaled));
      out = y;
      AddScaled(x.data(), 0.3F, n, out.data());
      EXPECT_EQ(Bits(out), Bits(onto));
      ScaledSum(x.data(), 0.3F, y.data(), n, out.data());
      EXPECT_EQ(Bits(out), Bits(both));
      out = x;
      Subtract(y.data(), n, out.data());
      EXPECT_EQ(Bits(out), Bits(less));
      EXPECT_EQ(OrderedSquares(x.data(), n), SquaresOf(x));
      EXPECT_EQ(AddVectorsSquared(x.data(), y.data(), n, out.data()), SquaresOf(sum));
      EXPECT_EQ(Bits(out), Bits(sum));
    });
  }
}

TEST(VectorKernels, SignsAreOneBitEach) {
  for (const std::size_t n : kCounts) {
    const Values x = WithZeros(n, n), y = WithZeros(n, n + 1);
    const Signs signs = SignsOf(x);
    Values said(n), rest(n), sum(n);
    for (std::size_t i = 0; i < n; ++i) {
      said[i] = x[i] >= 0 ? 1.7F : -1.7F;
      rest[i] = x[i] - said[i];
      sum[i] = y[i] + said[i];
    }
    AtEveryLevel([&] {
      // Exactly the space that is promised: the sanitizer sees a byte too many.
      Signs packed(signs.size(), std::byte{0xff});
      PackSignBits(x.data(), n, packed.data());
      EXPECT_EQ(packed, signs);
      Values out(n);
      SetSigned(signs.data(), n, 1.7F, out.data());
      EXPECT_EQ(Bits(out), Bits(said));
      out = y;
      AddSigned(signs.data(), n, 1.7F, out.data());
      EXPECT_EQ(Bits(out), Bits(sum));
      for (const bool decodes : {false, true}) {
        Values left = x, decoded(n);
        packed.assign(signs.size(), std::byte{0xff});
        TakeSigned(left.data(), n, 1.7F, packed.data(), decodes ? decoded.data() : nullptr);
        EXPECT_EQ(packed, signs);
        EXPECT_EQ(Bits(left), Bits(rest));
        EXPECT_EQ(Bits(decoded), Bits(decodes ? said : Values(n)));
      }
    });
  }
}

}  // namespace
}  // namespace shoal::compression
