#include "compression/codecs/low_rank/low_rank.h"

#include <algorithm>
#include <cmath>

#include "common/half.h"
#include "common/status.h"
#include "compression/api/message_noise.h"
#include "compression/simd/kernels.h"

namespace shoal::compression {
namespace {

constexpr std::uint32_t kFactorStream = 8;
// Draws of a replacement are further streams, one per attempt.
constexpr std::uint32_t kAttempts = 4;
// Of a column's squared norm, what must be left of it.
constexpr double kLeastLeft = 0x1p-44;
constexpr float kLeastNormal = 0x1p-126F;

std::size_t RoundUp(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }

// `factor` times a power of two, each row padded with zeros.
std::vector<float> Padded(std::span<const float> factor, std::size_t rank, float by) {
  const std::size_t width = RoundUp(rank, kFactorPad);
  std::vector<float> padded(factor.size() / rank * width);
  for (std::size_t row = 0; row * rank < factor.size(); ++row) {
    for (std::size_t k = 0; k < rank; ++k) padded[row * width + k] = factor[row * rank + k] * by;
  }
  return padded;
}

void Unpad(std::span<const float> padded, std::size_t rank, std::span<float> factor) {
  const std::size_t width = RoundUp(rank, kFactorPad);
  for (std::size_t row = 0; row * rank < factor.size(); ++row) {
    std::copy_n(padded.data() + row * width, rank, factor.data() + row * rank);
  }
}

// The columns of a factor in fp64, each in one piece.
class Columns {
 public:
  Columns(std::span<const float> factor, std::size_t rows, std::size_t rank)
      : rows_(rows), rank_(rank), values_(rows * rank), live_(rank) {
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t k = 0; k < rank; ++k) {
        const float x = factor[i * rank + k];
        Column(k)[i] = std::abs(x) < kLeastNormal ? 0.0 : double{x};
      }
    }
  }

  // Makes column k orthonormal to those before it; false if nothing is left of it.
  bool Orthonormalise(std::size_t k) {
    double* column = Column(k);
    const double before = Dot(column, column, rows_);
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t j = 0; j < k; ++j) {
        if (live_[j]) SubtractScaled(Column(j), Dot(Column(j), column, rows_), rows_, column);
      }
    }
    const double left = Dot(column, column, rows_);
    live_[k] = left > kLeastLeft * before;
    if (!live_[k]) return false;
    const double norm = std::sqrt(left);
    for (std::size_t i = 0; i < rows_; ++i) column[i] /= norm;
    return true;
  }

  bool Replace(std::size_t k, const RandomKey& key) {
    std::vector<float> drawn(rows_);
    for (std::uint32_t attempt = 1; attempt <= kAttempts; ++attempt) {
      FillUniform(key, kFactorStream + attempt, k * rows_, drawn);
      for (std::size_t i = 0; i < rows_; ++i) Column(k)[i] = 2 * double{drawn[i]} - 1;
      if (Orthonormalise(k)) return true;
    }
    return false;
  }

  void Clear(std::size_t k) { std::fill_n(Column(k), rows_, 0.0); }

  void Write(std::span<float> factor) {
    for (std::size_t i = 0; i < rows_; ++i) {
      for (std::size_t k = 0; k < rank_; ++k) {
        const auto x = static_cast<float>(Column(k)[i]);
        factor[i * rank_ + k] = std::abs(x) < kLeastNormal ? 0.0F : x;
      }
    }
  }

 private:
  double* Column(std::size_t k) { return values_.data() + k * rows_; }

  std::size_t rows_;
  std::size_t rank_;
  std::vector<double> values_;
  std::vector<bool> live_;
};

}  // namespace

std::size_t RankFor(MatrixShape shape, std::size_t rank) {
  return std::min({rank, shape.rows, shape.columns});
}

bool WorthFactors(MatrixShape shape, std::size_t rank) {
  return shape.values() > 2 * RankFor(shape, rank) * (shape.rows + shape.columns);
}

std::vector<float> RandomFactor(const RandomKey& key, std::size_t rows, std::size_t rank) {
  std::vector<float> factor(rows * rank);
  FillUniform(key, kFactorStream, 0, factor);
  for (float& x : factor) x = 2 * x - 1;
  return factor;
}

void OrthonormaliseColumns(std::span<float> factor, std::size_t rows, std::size_t rank,
                           const RandomKey* replacements) {
  SHOAL_CHECK(factor.size() == rows * rank && rank <= rows);
  Columns columns(factor, rows, rank);
  for (std::size_t k = 0; k < rank; ++k) {
    if (columns.Orthonormalise(k)) continue;
    if (replacements == nullptr || !columns.Replace(k, *replacements)) columns.Clear(k);
  }
  columns.Write(factor);
}

void ProjectRows(std::span<const float> matrix, MatrixShape shape, std::span<const float> q,
                 std::size_t rank, float factor, std::span<float> p) {
  SHOAL_CHECK(matrix.size() == shape.values() && q.size() == shape.columns * rank &&
              p.size() == shape.rows * rank);
  const auto padded = Padded(q, rank, factor);
  const std::size_t width = RoundUp(rank, kFactorPad);
  std::vector<float> product(shape.rows * width);
  TimesFactor(matrix.data(), shape.rows, shape.columns, padded.data(), width, product.data());
  Unpad(product, rank, p);
}

void ProjectColumns(std::span<const float> matrix, MatrixShape shape, std::span<const float> p,
                    std::size_t rank, float factor, std::span<float> q) {
  SHOAL_CHECK(matrix.size() == shape.values() && p.size() == shape.rows * rank &&
              q.size() == shape.columns * rank);
  const auto padded = Padded(p, rank, factor);
  const std::size_t width = RoundUp(rank, kFactorPad);
  std::vector<float> product(shape.columns * width);
  TransposedTimesFactor(matrix.data(), shape.rows, shape.columns, padded.data(), width,
                        product.data());
  Unpad(product, rank, q);
}

int ScaleFactor(std::span<float> factor, int exponent_min) {
  constexpr int kLargest = 14;
  constexpr int kZeroBelow = -100;
  const int largest = static_cast<int>(AbsMaxBits(factor.data(), factor.size()) >> 23) - 127;
  if (largest < kZeroBelow) {
    std::fill(factor.begin(), factor.end(), 0.0F);
    return std::max(0, exponent_min);
  }
  const int exponent = std::max(largest - kLargest, exponent_min);
  const float by = PowerOfTwo(-exponent);
  for (float& x : factor) {
    const float scaled = x * by;
    x = std::abs(scaled) < kFactorLeast ? 0.0F : scaled;
  }
  return exponent;
}

int ScaleFactors(std::span<float> p, std::span<float> q) {
  const int of_p = ScaleFactor(p, kProductExponentMin);
  const int of_q = ScaleFactor(q, kProductExponentMin - of_p);
  return of_p + of_q;
}

LowRankProduct::LowRankProduct(std::span<const float> q, std::size_t columns, std::size_t rank,
                               int exponent)
    : columns_(columns),
      rank_(rank),
      exponent_(exponent),
      stride_(RoundUp(columns, kColumnPad)),
      transposed_(rank * stride_) {
  SHOAL_CHECK(q.size() == columns * rank);
  SHOAL_CHECK(exponent >= kProductExponentMin && exponent <= kProductExponentMax);
  for (std::size_t c = 0; c < columns; ++c) {
    for (std::size_t k = 0; k < rank; ++k) transposed_[k * stride_ + c] = q[c * rank + k];
  }
}

FactorProduct LowRankProduct::Described(std::span<const float> p, std::size_t values) const {
  FactorProduct product;
  product.p = p.data();
  product.qt = transposed_.data();
  product.rows = values / columns_;
  product.columns = columns_;
  product.rank = rank_;
  product.stride = stride_;
  product.factor = PowerOfTwo(exponent_);
  // What would become subnormal is nothing, on every machine.
  product.least = PowerOfTwo(-126 - std::min(exponent_, 0));
  SHOAL_CHECK(values == product.rows * columns_ && p.size() == product.rows * rank_);
  return product;
}

void LowRankProduct::Write(std::span<const float> p, std::span<float> out) const {
  WriteProduct(Described(p, out.size()), out.data());
}

void LowRankProduct::Subtract(std::span<const float> p, std::span<float> values) const {
  SubtractProduct(Described(p, values.size()), values.data());
}

}  // namespace shoal::compression
