#include "compression/codecs/low_rank/low_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "tests/unit/compression/matrix_reference.h"
#include "tests/unit/compression/reference.h"
#include "tests/unit/compression/simd_levels.h"

namespace shoal::compression {
namespace {

using reference::Matrix;
using reference::Product;
using reference::RelativeDistance;
using reference::Transposed;

constexpr MatrixShape kShapes[] = {{1, 1},  {1, 17},  {9, 1},    {3, 5},
                                   {8, 16}, {17, 33}, {64, 100}, {130, 67}};
constexpr std::size_t kRanks[] = {1, 3, 8, 16, 21};

std::vector<float> Gaussian(std::size_t n, std::uint64_t seed) {
  return reference::Gaussian(n, seed);
}

TEST(LowRank, ProductsAgreeWithThoseInDouble) {
  for (const MatrixShape shape : kShapes) {
    const auto m = Gaussian(shape.values(), shape.values());
    for (const std::size_t rank : kRanks) {
      SCOPED_TRACE(testing::Message() << shape.rows << "x" << shape.columns << " rank " << rank);
      const auto q = Gaussian(shape.columns * rank, 2);
      const auto p = Gaussian(shape.rows * rank, 3);
      std::vector<float> mq(shape.rows * rank), mtp(shape.columns * rank);
      ProjectRows(m, shape, q, rank, 0.5F, mq);
      ProjectColumns(m, shape, p, rank, 2.0F, mtp);
      const Matrix exact(m, shape.rows);
      EXPECT_LT(RelativeDistance(mq, Product(exact, Matrix(q, shape.columns)), 0.5), 1e-6);
      EXPECT_LT(RelativeDistance(mtp, Product(Transposed(exact), Matrix(p, shape.rows)), 2), 1e-6);
      std::vector<float> out(shape.values());
      LowRankProduct(q, shape.columns, rank, -3).Write(p, out);
      const Matrix whole = Product(Matrix(p, shape.rows), Transposed(Matrix(q, shape.columns)));
      EXPECT_LT(RelativeDistance(out, whole, 0.125), 1e-6);
      std::vector<float> rest = m;
      LowRankProduct(q, shape.columns, rank, -3).Subtract(p, rest);
      for (std::size_t i = 0; i < m.size(); ++i) ASSERT_EQ(rest[i], m[i] - out[i]) << i;
    }
  }
}

// One value at a time, in the order of docs/WIRE.md.
TEST(LowRank, ReconstructionHasTheSpecifiedBitsAtEveryLevel) {
  AtEveryLevel([] {
    for (const MatrixShape shape : kShapes) {
      for (const std::size_t rank : kRanks) {
        auto p = Gaussian(shape.rows * rank, 5);
        auto q = Gaussian(shape.columns * rank, 6);
        const int exponent = std::max(ScaleFactors(p, q) - 100, kProductExponentMin);
        std::vector<float> out(shape.values());
        LowRankProduct(q, shape.columns, rank, exponent).Write(p, out);
        for (std::size_t i = 0; i < shape.values(); ++i) {
          float t = 0;
          for (std::size_t k = 0; k < rank; ++k) {
            const float term = p[i / shape.columns * rank + k] * q[i % shape.columns * rank + k];
            t += term;
          }
          const float scaled = std::ldexp(t, exponent);
          ASSERT_EQ(out[i], std::abs(scaled) < 0x1p-126F ? 0.0F : scaled) << i;
        }
      }
    }
  });
}

TEST(LowRank, ProjectionsHaveTheSameBitsAtEveryLevel) {
  const MatrixShape shape{150, 139};
  constexpr std::size_t kRank = 21;
  const auto m = Gaussian(shape.values(), 1);
  const auto q = Gaussian(shape.columns * kRank, 2);
  std::vector<float> first_p, first_q;
  AtEveryLevel([&] {
    std::vector<float> p(shape.rows * kRank), back(shape.columns * kRank);
    ProjectRows(m, shape, q, kRank, 1, p);
    OrthonormaliseColumns(p, shape.rows, kRank, nullptr);
    ProjectColumns(m, shape, p, kRank, 1, back);
    if (first_p.empty()) first_p = p;
    if (first_q.empty()) first_q = back;
    EXPECT_EQ(p, first_p);
    EXPECT_EQ(back, first_q);
  });
}

double LargestProduct(const std::vector<float>& factor, std::size_t rows, std::size_t rank,
                      bool norms_too) {
  double worst = 0;
  for (std::size_t a = 0; a < rank; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      double sum = 0;
      for (std::size_t i = 0; i < rows; ++i) {
        sum += double{factor[i * rank + a]} * factor[i * rank + b];
      }
      if (a != b) worst = std::max(worst, std::abs(sum));
      if (a == b && norms_too) worst = std::max(worst, std::abs(sum - 1));
    }
  }
  return worst;
}

TEST(LowRank, ColumnsBecomeOrthonormalHoweverCloseOrSmallTheyAre) {
  constexpr std::size_t kRows = 200, kRank = 12;
  for (const float size : {1.0F, 0x1p-80F, 0x1p100F}) {
    auto factor = Gaussian(kRows * kRank, 9);
    for (std::size_t i = 0; i < kRows; ++i) {
      float* row = factor.data() + i * kRank;
      // Columns that differ by a ten-thousandth, and sizes over twelve decades.
      for (std::size_t k = 1; k < kRank; ++k) row[k] = row[0] + 1e-4F * row[k];
      for (std::size_t k = 0; k < kRank; ++k) row[k] *= size * std::ldexp(1.0F, -int(k) * 3);
    }
    const auto before = factor;
    OrthonormaliseColumns(factor, kRows, kRank, nullptr);
    EXPECT_LT(LargestProduct(factor, kRows, kRank, true), 1e-6);
    // The first column keeps its direction, and the second one's is in the span of the two.
    double along = 0, norm = 0;
    for (std::size_t i = 0; i < kRows; ++i) {
      along += double{factor[i * kRank]} * before[i * kRank] / size;
      norm += std::pow(before[i * kRank] / size, 2);
    }
    EXPECT_NEAR(along / std::sqrt(norm), 1, 1e-6);
  }
}

TEST(LowRank, ColumnsWithNothingNewBecomeZerosOrNewDirections) {
  constexpr std::size_t kRows = 50, kRank = 6;
  auto factor = Gaussian(kRows * kRank, 4);
  for (std::size_t i = 0; i < kRows; ++i) {
    float* row = factor.data() + i * kRank;
    row[1] = row[0] * 0.5F;  // depends on the first
    row[3] = 0;              // nothing
    row[4] = 0x1p-140F;      // subnormal
  }
  auto zeroed = factor;
  OrthonormaliseColumns(zeroed, kRows, kRank, nullptr);
  for (std::size_t i = 0; i < kRows; ++i) {
    for (const std::size_t k : {1, 3, 4}) ASSERT_EQ(zeroed[i * kRank + k], 0.0F);
    ASSERT_NE(zeroed[i * kRank + 5], 0.0F);
  }
  EXPECT_LT(LargestProduct(zeroed, kRows, kRank, false), 1e-6);
  RandomKey key;
  key.seed = 7;
  auto replaced = factor;
  OrthonormaliseColumns(replaced, kRows, kRank, &key);
  EXPECT_LT(LargestProduct(replaced, kRows, kRank, true), 1e-6);
  auto again = factor;
  OrthonormaliseColumns(again, kRows, kRank, &key);
  EXPECT_EQ(again, replaced);
  key.step = 1;
  OrthonormaliseColumns(factor, kRows, kRank, &key);
  EXPECT_NE(factor, replaced);
}

TEST(LowRank, ZerosGiveZerosAndFullRankIsReached) {
  std::vector<float> zeros(30);
  OrthonormaliseColumns(zeros, 10, 3, nullptr);
  EXPECT_EQ(zeros, std::vector<float>(30));
  // As many columns as rows, all replaced.
  RandomKey key;
  std::vector<float> square(36);
  OrthonormaliseColumns(square, 6, 6, &key);
  EXPECT_LT(LargestProduct(square, 6, 6, true), 1e-6);
}

TEST(LowRank, RandomFactorsFollowFromTheirKey) {
  RandomKey key;
  key.seed = 3;
  const auto factor = RandomFactor(key, 500, 8);
  EXPECT_EQ(RandomFactor(key, 500, 8), factor);
  double sum = 0, squares = 0;
  for (const float x : factor) {
    ASSERT_LE(std::abs(x), 1);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 4000, 0, 0.04);
  EXPECT_NEAR(squares / 4000, 1.0 / 3, 0.03);
  key.seed = 4;
  EXPECT_NE(RandomFactor(key, 500, 8), factor);
}

TEST(LowRank, ScaledFactorsStandForTheSameProduct) {
  std::vector<float> p{0.5F, -0.25F, 0x1p-70F, 0}, q{3, 0x1p-30F};
  EXPECT_EQ(ScaleFactors(p, q), -15 - 13);
  EXPECT_EQ(p, (std::vector<float>{0x1p14F, -0x1p13F, 0, 0}));
  EXPECT_EQ(q, (std::vector<float>{3 * 0x1p13F, 0x1p-17F}));
  // Nothing below the least exponent: what is left is smaller.
  std::vector<float> small_p{1}, small_q{0x1p-100F};
  EXPECT_EQ(ScaleFactors(small_p, small_q), -14 - 112);
  EXPECT_EQ(small_q[0], 0x1p12F);
  std::vector<float> zero{0x1p-101F}, one{1};
  EXPECT_EQ(ScaleFactors(one, zero), -14);
  EXPECT_EQ(zero[0], 0);
}

// One power step from the factor of the last one approaches the best approximation.
TEST(LowRank, PowerStepsApproachTheLargestSingularValues) {
  const MatrixShape shape{40, 30};
  constexpr std::size_t kRank = 3;
  // Orthonormal directions with the sizes 8, 4, 2, 1, 1/2, ...
  auto u = Gaussian(40 * 10, 1), v = Gaussian(30 * 10, 2);
  OrthonormaliseColumns(u, 40, 10, nullptr);
  OrthonormaliseColumns(v, 30, 10, nullptr);
  std::vector<float> m(shape.values());
  double beyond = 0;
  for (int k = 0; k < 10; ++k) {
    const double size = std::ldexp(8, -k);
    if (k >= 3) beyond += size * size;
    for (std::size_t i = 0; i < m.size(); ++i) {
      m[i] += static_cast<float>(size * u[i / 30 * 10 + k] * v[i % 30 * 10 + k]);
    }
  }
  std::vector<float> q = RandomFactor({}, 30, kRank), p(40 * kRank);
  const RandomKey key;
  double left = 0;
  for (int step = 0; step < 8; ++step) {
    OrthonormaliseColumns(q, 30, kRank, &key);
    ProjectRows(m, shape, q, kRank, 1, p);
    OrthonormaliseColumns(p, 40, kRank, nullptr);
    ProjectColumns(m, shape, p, kRank, 1, q);
    auto rest = m;
    LowRankProduct(q, 30, kRank, 0).Subtract(p, rest);
    left = 0;
    for (const float x : rest) left += double{x} * x;
    EXPECT_GE(left, beyond * 0.999);
  }
  EXPECT_LT(left, beyond * 1.001);
}

}  // namespace
}  // namespace shoal::compression
