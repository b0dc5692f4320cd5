// What the sketch of a change finds, against singular values by Jacobi rotations.

#include "compression/codecs/low_rank/change_basis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "tests/unit/compression/matrix_reference.h"

namespace shoal::compression {
namespace {

using reference::Matrix;

std::vector<float> Signs(std::size_t n) {
  std::vector<float> signs = reference::Normal(n, 77);
  for (float& s : signs) s = s < 0 ? -1.0F : 1.0F;
  return signs;
}

double Sum(std::span<const double> values, std::size_t first, std::size_t count) {
  return std::accumulate(values.begin() + static_cast<std::ptrdiff_t>(first),
                         values.begin() + static_cast<std::ptrdiff_t>(first + count), 0.0);
}

// As changes fall off (docs/algorithms/low-rank-changes.md): slowly at the end.
std::vector<double> Spectrum(std::size_t n) {
  std::vector<double> squares(n);
  for (std::size_t k = 0; k < n; ++k) {
    squares[k] = std::exp(-0.45 * std::sqrt(20 * static_cast<double>(k)));
  }
  return squares;
}

// D - left right^T, of a change that was given with these.
double Left(std::span<const float> change, SampleShape shape, const ChangeBasis& basis,
            std::size_t rank) {
  double left = 0;
  for (std::size_t t = 0; t < shape.tokens; ++t) {
    for (std::size_t i = 0; i < shape.hidden; ++i) {
      double value = change[t * shape.hidden + i];
      for (std::size_t k = 0; k < rank; ++k) {
        value -= double{basis.left[t * basis.width + k]} * basis.right[i * basis.width + k];
      }
      left += value * value;
    }
  }
  return left;
}

TEST(ChangeBasis, KeepsNearlyAsMuchAsTheBestFactors) {
  for (const SampleShape shape : {SampleShape{96, 64}, SampleShape{64, 130}, SampleShape{20, 33},
                                  SampleShape{40, 9}, SampleShape{7, 90}}) {
    const std::size_t full = std::min(shape.tokens, shape.hidden);
    const auto change =
        reference::WithSpectrum(shape.tokens, shape.hidden, Spectrum(full), shape.tokens);
    const auto best = reference::SquaredSingularValues(Matrix(change, shape.tokens));
    const double all = Sum(best, 0, full);
    for (const std::size_t wanted : {1, 4, 16}) {
      const std::size_t rank = std::min(wanted, full);
      SCOPED_TRACE(testing::Message() << shape.tokens << "x" << shape.hidden << ", " << rank);
      const ChangeSketch sketch({change, shape, {}}, rank, Signs(shape.tokens));
      const double kept = Sum(sketch.energies(), 0, rank);
      EXPECT_GT(kept, 0.985 * Sum(best, 0, rank));
      EXPECT_LT(kept, 1.0001 * Sum(best, 0, rank));
      // What it says is what it has.
      const double left = Left(change, shape, sketch.Leading(rank), rank);
      EXPECT_NEAR(left, all - kept, 1e-4 * all);
    }
  }
}

TEST(ChangeBasis, DirectionsAreOrthogonalAndInOrder) {
  const SampleShape shape{50, 70};
  const auto change = reference::WithSpectrum(50, 70, Spectrum(50), 3);
  const ChangeSketch sketch({change, shape, {}}, 12, Signs(50));
  const ChangeBasis basis = sketch.Leading(12);
  for (std::size_t a = 0; a < 12; ++a) {
    EXPECT_GE(sketch.energies()[a == 0 ? 0 : a - 1], sketch.energies()[a]);
    for (std::size_t b = 0; b <= a; ++b) {
      double left = 0, right = 0;
      for (std::size_t t = 0; t < 50; ++t) {
        left += double{basis.left[t * basis.width + a]} * basis.left[t * basis.width + b];
      }
      for (std::size_t i = 0; i < 70; ++i) {
        right += double{basis.right[i * basis.width + a]} * basis.right[i * basis.width + b];
      }
      EXPECT_NEAR(left, a == b ? 1 : 0, 1e-5);
      EXPECT_NEAR(right, a == b ? sketch.energies()[a] : 0, 1e-5 * sketch.energies()[0]);
    }
  }
}

// Fewer directions than were asked for, and none.
TEST(ChangeBasis, ChangesOfLessThanTheRankAreExact) {
  const SampleShape shape{60, 45};
  const std::vector<double> two = {9, 0.01};
  const auto change = reference::WithSpectrum(60, 45, two, 5);
  const ChangeSketch sketch({change, shape, {}}, 16, Signs(60));
  EXPECT_NEAR(sketch.energies()[0], 9, 1e-4);
  EXPECT_NEAR(sketch.energies()[1], 0.01, 1e-4);
  EXPECT_LT(sketch.energies()[2], 1e-6);
  EXPECT_LT(Left(change, shape, sketch.Leading(2), 2), 1e-5);
  const std::vector<float> zeros(shape.values());
  const ChangeSketch nothing({zeros, shape, {}}, 4, Signs(60));
  for (const double energy : nothing.energies()) EXPECT_EQ(energy, 0);
}

TEST(ChangeBasis, TokenFactorsMultiplyRows) {
  const SampleShape shape{40, 30};
  auto change = reference::WithSpectrum(40, 30, Spectrum(30), 6);
  const auto plain = ChangeSketch({change, shape, {}}, 5, Signs(40)).energies();
  std::vector<float> factors(40, 1.0F);
  factors[3] = 0x1p-9F;
  factors[17] = 0x1p-2F;
  for (std::size_t t = 0; t < 40; ++t) {
    for (std::size_t i = 0; i < 30; ++i) change[t * 30 + i] /= factors[t];
  }
  const auto scaled = ChangeSketch({change, shape, factors}, 5, Signs(40)).energies();
  for (std::size_t k = 0; k < 5; ++k) EXPECT_NEAR(scaled[k], plain[k], 1e-4 * plain[0]);
}

}  // namespace
}  // namespace shoal::compression
