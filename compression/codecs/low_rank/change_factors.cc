#include "compression/codecs/low_rank/change_factors.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "common/half.h"
#include "common/status.h"
#include "compression/codecs/low_rank/low_rank.h"
#include "compression/simd/kernels.h"
#include "compression/simd/low_rank_kernels.h"
#include "compression/simd/rough_products.h"

namespace shoal::compression {
namespace {

constexpr float kCodeMost = (1 << kFactorCodeBits) - 1;
// A column is sent if its energy exceeds what rounding adds to it by this factor: below it nearly
// all of its codes are 0.
constexpr double kWorthwhile = 2;

// The step of both factors times their sizes, squared: that of codes of `bits` bits for values of
// the mean size, eight times as wide as that (four standard deviations to either side).
double SquaredStep(std::span<const double> energies, SampleShape shape, int bits) {
  double kept = 0;
  for (const double energy : energies) kept += energy;
  const double sides = static_cast<double>(shape.tokens) + shape.hidden;
  const double mean = 2 * kept / (static_cast<double>(energies.size()) * sides);
  return mean * std::ldexp(1, 2 * (3 - bits));
}

float Largest(std::span<const float> m, std::size_t width, std::size_t column) {
  float most = 0;
  for (std::size_t i = column; i < m.size(); i += width) most = std::max(most, std::fabs(m[i]));
  return most;
}

// Exponents of the columns' steps: column k has the codes u sqrt(s_k / 2^a_k) on the left and
// v sqrt(s_k / 2^a_k) on the right. Fewer than there are energies where the sizes are too far
// apart.
std::vector<int> StepExponents(const ChangeBasis& basis, std::span<const double> energies,
                               double squared_step, int exponent) {
  std::vector<int> exponents;
  for (std::size_t k = 0; k < energies.size(); ++k) {
    const double size = std::sqrt(energies[k]);
    int a = std::clamp(static_cast<int>(std::lround(std::log2(squared_step / size))),
                       kProductExponentMin - exponent, kProductExponentMax - exponent);
    const double most = std::max(double{Largest(basis.left, basis.width, k)},
                                 Largest(basis.right, basis.width, k) / size);
    // Half of the codes' range: the right factor changes a little when it is fitted.
    while (most * std::sqrt(std::ldexp(size, -a)) > kCodeMost / 2) ++a;
    if (k > 0) a = std::max(a, exponents.back());
    if (k > 0 && a - exponents[0] > kColumnStepsMost) break;
    exponents.push_back(a);
  }
  return exponents;
}

// Adding 2^23 times 1.5 makes the fp32 adder round to whole numbers.
float Rounded(float x) {
  constexpr float kRounder = 0x1.8p23F;
  return std::clamp(x, -kCodeMost, kCodeMost) + kRounder - kRounder;
}

SmallMatrix Doubles(std::span<const float> m) { return {m.begin(), m.end()}; }

// The right factor that fits `codes` (tokens x width) best: right (left^T codes) (codes^T
// codes)^-1. The change outside of the basis has next to no part in it.
std::vector<float> FittedRight(const ChangeBasis& basis, std::span<const float> codes) {
  const std::size_t width = basis.width;
  std::vector<float> gram(width * width), shared(width * width);
  const std::size_t tokens = codes.size() / width;
  RoughTransposedTimesFactor(codes.data(), tokens, width, codes.data(), width, gram.data());
  RoughTransposedTimesFactor(codes.data(), tokens, width, basis.left.data(), width, shared.data());
  const SmallMatrix fit = SolveSymmetric(Doubles(gram), width, Doubles(shared));
  std::vector<float> turned(width * width);
  for (std::size_t k = 0; k < width; ++k) {
    for (std::size_t j = 0; j < width; ++j) {
      turned[j * width + k] = static_cast<float>(fit[k * width + j]);
    }
  }
  std::vector<float> right(basis.right.size());
  RoughTimesFactor(basis.right.data(), right.size() / width, width, turned.data(), width,
                   right.data());
  return right;
}

// codes[k][i] = the nearest whole number to m[i][k] * factors[k].
void TakeCodes(std::span<const float> m, std::size_t width, std::span<const float> factors,
               std::vector<std::int16_t>* codes) {
  const std::size_t rows = m.size() / width;
  codes->resize(factors.size() * rows);
  std::int16_t* const to = codes->data();
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t k = 0; k < factors.size(); ++k) {
      to[k * rows + i] = static_cast<std::int16_t>(Rounded(m[i * width + k] * factors[k]));
    }
  }
}

}  // namespace

ChangeFactors RoundFactors(const ChangeSketch& sketch, SampleShape shape, std::size_t rank,
                           int bits, int exponent) {
  ChangeFactors factors;
  auto energies = std::span(sketch.energies()).first(rank);
  while (!energies.empty() && energies.back() <= 0) energies = energies.first(energies.size() - 1);
  if (energies.empty()) return factors;
  const double squared_step = SquaredStep(energies, shape, bits);
  const double sides = static_cast<double>(shape.tokens) + shape.hidden;
  while (energies.size() > 1 && energies.back() < kWorthwhile * sides * squared_step / 12) {
    energies = energies.first(energies.size() - 1);
  }
  const ChangeBasis basis = sketch.Leading(energies.size());
  const std::vector<int> exponents = StepExponents(basis, energies, squared_step, exponent);
  factors.rank = exponents.size();
  std::vector<float> left_factors, right_factors;
  for (std::size_t k = 0; k < factors.rank; ++k) {
    const double part = std::ldexp(std::sqrt(energies[k]), -exponents[k]);
    left_factors.push_back(static_cast<float>(std::sqrt(part)));
    right_factors.push_back(static_cast<float>(std::ldexp(1, -exponents[k])));
    factors.steps.push_back(static_cast<std::uint8_t>(exponents[k] - exponents[0]));
  }
  TakeCodes(basis.left, basis.width, left_factors, &factors.left);
  std::vector<float> codes(basis.left.size());
  for (std::size_t k = 0; k < factors.rank; ++k) {
    for (std::size_t t = 0; t < shape.tokens; ++t) {
      codes[t * basis.width + k] = factors.left[k * shape.tokens + t];
    }
  }
  TakeCodes(FittedRight(basis, codes), basis.width, right_factors, &factors.right);
  factors.exponent = exponents[0] + exponent;
  return factors;
}

bool WriteChange(const ChangeFactors& factors, SampleShape shape, std::span<float> out) {
  SHOAL_CHECK(out.size() == shape.values());
  if (factors.rank == 0) {
    std::fill(out.begin(), out.end(), 0.0F);
    return true;
  }
  const std::size_t rank = factors.rank;
  const std::size_t stride = (shape.hidden + kColumnPad - 1) / kColumnPad * kColumnPad;
  std::vector<float> p(shape.tokens * rank), qt(rank * stride);
  double bound = 0;  // of the magnitudes of all sums
  for (std::size_t k = 0; k < rank; ++k) {
    const std::int16_t* const left = factors.left.data() + k * shape.tokens;
    const std::int16_t* const right = factors.right.data() + k * shape.hidden;
    float most_left = 0, most_right = 0;
    for (std::size_t t = 0; t < shape.tokens; ++t) {
      const int exponent = factors.steps[k] + factors.token_exponents[t];
      p[t * rank + k] = static_cast<float>(left[t]) * PowerOfTwo(exponent);
      most_left = std::max(most_left, std::fabs(p[t * rank + k]));
    }
    for (std::size_t i = 0; i < shape.hidden; ++i) {
      qt[k * stride + i] = static_cast<float>(right[i]);
      most_right = std::max(most_right, std::fabs(qt[k * stride + i]));
    }
    bound += double{most_left} * most_right;
  }
  FactorProduct product;
  product.p = p.data();
  product.qt = qt.data();
  product.rows = shape.tokens;
  product.columns = shape.hidden;
  product.rank = rank;
  product.stride = stride;
  product.factor = PowerOfTwo(factors.exponent);
  // What would become subnormal is nothing, on every machine.
  product.least = PowerOfTwo(-126 - std::min(factors.exponent, 0));
  WriteProduct(product, out.data());
  if (std::ldexp(bound, factors.exponent) < 0x1p127) return true;
  return FiniteBits(AbsMaxBits(out.data(), out.size()));
}

}  // namespace shoal::compression
