#include "compression/codecs/low_rank/change_basis.h"

#include <algorithm>
#include <utility>

#include "compression/api/message_noise.h"
#include "compression/simd/low_rank_kernels.h"
#include "compression/simd/rough_products.h"
#include "compression/simd/vector_kernels.h"

namespace shoal::compression {
namespace {

// Of a column's energy, what makes it one of its own. Sums in fp32 are good to about 1e-7, so the
// first bound keeps what may still be noise, and the second pass sorts it out.
constexpr double kLeastLeft = 2e-6;
constexpr double kLeastLeftAgain = 1e-2;

std::size_t Padded(std::size_t n) { return (n + kFactorPad - 1) / kFactorPad * kFactorPad; }

std::vector<float> Times(std::span<const float> m, std::size_t columns, std::span<const double> q,
                         std::size_t q_columns, std::size_t width) {
  std::vector<float> padded(columns * width);
  for (std::size_t i = 0; i < columns; ++i) {
    for (std::size_t k = 0; k < std::min(width, q_columns); ++k) {
      padded[i * width + k] = static_cast<float>(q[i * q_columns + k]);
    }
  }
  const std::size_t rows = m.size() / columns;
  std::vector<float> product(rows * width);
  RoughTimesFactor(m.data(), rows, columns, padded.data(), width, product.data());
  return product;
}

SmallMatrix Gram(std::span<const float> m, std::size_t width) {
  std::vector<float> gram(width * width);
  RoughTransposedTimesFactor(m.data(), m.size() / width, width, m.data(), width, gram.data());
  return {gram.begin(), gram.end()};
}

std::vector<float> Orthonormal(std::span<const float> m, std::size_t width, double least) {
  return Times(m, width, OrthonormalisingFactor(Gram(m, width), width, least), width, width);
}

void ScaleRows(std::span<const float> factors, std::size_t width, std::span<float> m) {
  for (std::size_t row = 0; row < factors.size(); ++row) {
    if (factors[row] != 1) Scale(factors[row], width, m.data() + row * width);
  }
}

}  // namespace

std::vector<float> RandomSigns(const RandomKey& key, std::uint32_t stream, std::size_t count) {
  std::vector<float> signs(count);
  FillUniform(key, stream, 0, signs);
  for (float& sign : signs) sign = sign < 0.5F ? -1.0F : 1.0F;
  return signs;
}

ChangeSketch::ChangeSketch(const ScaledChange& change, std::size_t rank,
                           std::span<const float> signs)
    : shape_(change.shape),
      columns_(std::min<std::size_t>(
          {Padded(rank + kSketchMore), change.shape.tokens, change.shape.hidden})),
      width_(Padded(columns_)) {
  const std::size_t hidden = shape_.hidden;
  const std::vector<float> start = Orthonormal(RowSums(change, signs), width_, kLeastLeft);
  std::vector<float> p(shape_.tokens * width_);
  RoughTimesFactor(change.values.data(), shape_.tokens, hidden, start.data(), width_, p.data());
  ScaleRows(change.token_factors, width_, p);
  left_ = Orthonormal(Orthonormal(p, width_, kLeastLeft), width_, kLeastLeftAgain);
  std::copy(left_.begin(), left_.end(), p.begin());
  ScaleRows(change.token_factors, width_, p);
  right_.resize(hidden * width_);
  RoughTransposedTimesFactor(change.values.data(), shape_.tokens, hidden, p.data(), width_,
                             right_.data());
  Eigen eigen = SymmetricEigen(Gram(right_, width_), width_);
  turn_ = std::move(eigen.vectors);
  for (std::size_t k = 0; k < columns_; ++k) energies_.push_back(std::max(eigen.values[k], 0.0));
}

std::vector<float> ChangeSketch::RowSums(const ScaledChange& change,
                                         std::span<const float> signs) const {
  const std::size_t hidden = shape_.hidden;
  std::vector<float> sums(columns_ * hidden);
  for (std::size_t t = 0; t < shape_.tokens; ++t) {
    const float factor = change.token_factors.empty() ? 1 : change.token_factors[t];
    AddScaled(change.values.data() + t * hidden, signs[t] * factor, hidden,
              sums.data() + t % columns_ * hidden);
  }
  std::vector<float> turned(hidden * width_);
  for (std::size_t k = 0; k < columns_; ++k) {
    for (std::size_t i = 0; i < hidden; ++i) turned[i * width_ + k] = sums[k * hidden + i];
  }
  return turned;
}

ChangeBasis ChangeSketch::Leading(std::size_t rank) const {
  ChangeBasis basis;
  basis.width = Padded(rank);
  basis.left = Times(left_, width_, turn_, width_, basis.width);
  basis.right = Times(right_, width_, turn_, width_, basis.width);
  return basis;
}

}  // namespace shoal::compression
