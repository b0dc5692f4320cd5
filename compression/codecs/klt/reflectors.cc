#include "compression/codecs/klt/reflectors.h"

#include <algorithm>
#include <cmath>

#include "compression/simd/low_rank_kernels.h"

namespace shoal::compression {
namespace {

// Rows that are turned at a time.
constexpr std::size_t kRows = 64;

std::size_t Padded(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

using Vector = std::vector<double>;

Vector VectorOf(const ReflectorCodes& codes, std::size_t k) {
  Vector v(codes.hidden);
  v[k] = 1;
  for (std::size_t h = k + 1; h < codes.hidden; ++h) {
    v[h] = std::ldexp(codes.codes[k * codes.hidden + h], -codes.exponent);
  }
  return v;
}

}  // namespace

std::size_t ReflectorCodeCount(std::size_t rank, std::size_t hidden) {
  return rank * (hidden - 1) - (rank == 0 ? 0 : rank * (rank - 1) / 2);
}

Reflectors::Reflectors(const ReflectorCodes& codes)
    : rank_(codes.rank),
      hidden_(codes.hidden),
      width_(Padded(rank_, kFactorPad)),
      stride_(Padded(hidden_, kColumnPad)),
      y_(hidden_ * width_),
      w_(hidden_ * width_),
      yt_(width_ * stride_),
      wt_(width_ * stride_) {
  std::vector<Vector> vectors;
  Vector norms;
  for (std::size_t k = 0; k < rank_; ++k) {
    const Vector& v = vectors.emplace_back(VectorOf(codes, k));
    norms.push_back(Dot(v.data(), v.data(), hidden_));
    Vector w = v;
    for (std::size_t i = k; i-- > 0;) {
      const Vector& u = vectors[i];
      SubtractScaled(u.data(), 2 * Dot(u.data(), w.data(), hidden_) / norms[i], hidden_, w.data());
    }
    const double factor = 2 / norms[k];
    for (std::size_t h = 0; h < hidden_; ++h) {
      y_[h * width_ + k] = yt_[k * stride_ + h] = static_cast<float>(v[h]);
      w_[h * width_ + k] = wt_[k * stride_ + h] = static_cast<float>(w[h] * factor);
    }
  }
}

void Reflectors::Turn(std::span<const float> x, std::span<float> y) const {
  std::copy(x.begin(), x.end(), y.begin());
  std::vector<float> products(kRows * width_);
  for (std::size_t at = 0; at < x.size(); at += kRows * hidden_) {
    const std::size_t rows = std::min(kRows, (x.size() - at) / hidden_);
    TimesFactor(x.data() + at, rows, hidden_, w_.data(), width_, products.data());
    SubtractProduct({products.data(), yt_.data(), rows, hidden_, width_, stride_}, y.data() + at);
  }
}

void Reflectors::TurnBack(std::span<float> y) const {
  std::vector<float> products(kRows * width_);
  for (std::size_t at = 0; at < y.size(); at += kRows * hidden_) {
    const std::size_t rows = std::min(kRows, (y.size() - at) / hidden_);
    TimesFactor(y.data() + at, rows, hidden_, y_.data(), width_, products.data());
    SubtractProduct({products.data(), wt_.data(), rows, hidden_, width_, stride_}, y.data() + at);
  }
}

}  // namespace shoal::compression
