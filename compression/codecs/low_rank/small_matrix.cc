#include "compression/codecs/low_rank/small_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

namespace shoal::compression {
namespace {

// A correlation matrix = l l^T. Rows and columns of which no more than `least` is left are those of
// the identity, and not live.
struct Cholesky {
  SmallMatrix l;
  std::vector<double> sizes;  // roots of the diagonal before it became one of ones
  std::vector<std::uint8_t> live;
};

Cholesky Factor(std::span<const double> gram, std::size_t n, double least) {
  Cholesky made{SmallMatrix(n * n), std::vector<double>(n), std::vector<std::uint8_t>(n)};
  for (std::size_t i = 0; i < n; ++i) made.sizes[i] = std::sqrt(std::max(gram[i * n + i], 0.0));
  for (std::size_t i = 0; i < n; ++i) {
    double* const row = made.l.data() + i * n;
    double left = made.sizes[i] > 0 ? 1 : 0;
    for (std::size_t j = 0; j < i && left > 0; ++j) {
      if (!made.live[j]) continue;
      const double* const other = made.l.data() + j * n;
      double sum = gram[i * n + j] / (made.sizes[i] * made.sizes[j]);
      for (std::size_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      row[j] = sum / other[j];
      left -= row[j] * row[j];
    }
    made.live[i] = left > least;
    if (!made.live[i]) std::fill_n(row, i, 0.0);
    row[i] = made.live[i] ? std::sqrt(left) : 1;
  }
  return made;
}

// The matrix as z^T (tridiagonal) z: its diagonal, what stands below it in elements 1 .. n - 1, and
// z in the place of the matrix.
class Tridiagonal {
 public:
  Tridiagonal(SmallMatrix* matrix, std::size_t n)
      : z_(*matrix), n_(n), diagonal(n), below(n), size_(n) {
    for (std::size_t i = n; i-- > 1;) Reduce(i);
    size_[0] = 0;
    for (std::size_t i = 0; i < n; ++i) Accumulate(i);
  }

 private:
  double& At(std::size_t row, std::size_t column) { return z_[row * n_ + column]; }
  void Reduce(std::size_t i);
  void Accumulate(std::size_t i);

  SmallMatrix& z_;
  const std::size_t n_;

 public:
  std::vector<double> diagonal, below;

 private:
  std::vector<double> size_;  // of the reflection of a row; 0: there was none
};

// A reflection that leaves of row i, left of the diagonal, one element.
void Tridiagonal::Reduce(std::size_t i) {
  double* const u = &At(i, 0);
  double scale = 0;
  for (std::size_t k = 0; k < i; ++k) scale += std::fabs(u[k]);
  below[i] = u[i - 1];
  size_[i] = 0;
  if (i == 1 || scale == 0) return;
  double h = 0;
  for (std::size_t k = 0; k < i; ++k) {
    u[k] /= scale;
    h += u[k] * u[k];
  }
  const double f = u[i - 1];
  const double g = f >= 0 ? -std::sqrt(h) : std::sqrt(h);
  below[i] = scale * g;
  h -= f * g;
  u[i - 1] = f - g;
  size_[i] = h;
  // p = matrix u / h, of which the lower triangle is kept.
  double* const p = below.data();
  std::fill_n(p, i, 0.0);
  for (std::size_t j = 0; j < i; ++j) {
    const double* const row = &At(j, 0);
    double sum = row[j] * u[j];
    for (std::size_t k = 0; k < j; ++k) {
      sum += row[k] * u[k];
      p[k] += row[k] * u[j];
    }
    p[j] += sum;
  }
  double along = 0;
  for (std::size_t j = 0; j < i; ++j) {
    p[j] /= h;
    along += p[j] * u[j];
  }
  const double half = along / (h + h);
  for (std::size_t j = 0; j < i; ++j) p[j] -= half * u[j];
  for (std::size_t j = 0; j < i; ++j) {
    double* const row = &At(j, 0);
    for (std::size_t k = 0; k <= j; ++k) row[k] -= u[j] * p[k] + p[j] * u[k];
  }
}

// Applies reflection i to the part of z that is complete, rows 0 .. i - 1.
void Tridiagonal::Accumulate(std::size_t i) {
  const double* const u = &At(i, 0);
  if (size_[i] != 0) {
    std::vector<double> along(i);
    for (std::size_t k = 0; k < i; ++k) {
      for (std::size_t j = 0; j < i; ++j) along[j] += u[k] * At(k, j);
    }
    for (std::size_t k = 0; k < i; ++k) {
      const double by = u[k] / size_[i];
      for (std::size_t j = 0; j < i; ++j) At(k, j) -= by * along[j];
    }
  }
  diagonal[i] = At(i, i);
  At(i, i) = 1;
  for (std::size_t j = 0; j < i; ++j) At(j, i) = At(i, j) = 0;
}

// The rotations of one QL step on elements l .. m, in the order in which they are made; they change
// the rows `i` and `i + 1` of `rows`.
void QlStep(std::size_t l, std::size_t m, std::vector<double>* diagonal, std::vector<double>* below,
            SmallMatrix* rows, std::size_t n) {
  auto& d = *diagonal;
  auto& e = *below;
  double g = (d[l + 1] - d[l]) / (2 * e[l]);
  double r = std::hypot(g, 1.0);
  g = d[m] - d[l] + e[l] / (g + std::copysign(r, g));
  double s = 1, c = 1, p = 0;
  for (std::size_t i = m; i-- > l;) {
    const double f = s * e[i];
    const double b = c * e[i];
    e[i + 1] = r = std::hypot(f, g);
    if (r == 0) {
      d[i + 1] -= p;
      e[m] = 0;
      return;
    }
    s = f / r;
    c = g / r;
    g = d[i + 1] - p;
    r = (d[i] - g) * s + 2 * c * b;
    p = s * r;
    d[i + 1] = g + p;
    g = c * r - b;
    double* const low = rows->data() + i * n;
    double* const high = low + n;
    for (std::size_t k = 0; k < n; ++k) {
      const double x = high[k];
      high[k] = s * low[k] + c * x;
      low[k] = c * low[k] - s * x;
    }
  }
  d[l] -= p;
  e[l] = g;
  e[m] = 0;
}

}  // namespace

SmallMatrix OrthonormalisingFactor(std::span<const double> gram, std::size_t n, double least) {
  const Cholesky of = Factor(gram, n, least);
  // Column j of l^-T, upwards from its diagonal.
  SmallMatrix inverse(n * n);
  for (std::size_t j = 0; j < n; ++j) {
    if (!of.live[j]) continue;
    // Row j of l^-1, which is column j of l^-T.
    std::vector<double> row(j + 1);
    for (std::size_t i = j + 1; i-- > 0;) {
      double sum = i == j ? 1 : 0;
      for (std::size_t k = i + 1; k <= j; ++k) sum -= row[k] * of.l[k * n + i];
      row[i] = sum / of.l[i * n + i];
    }
    for (std::size_t i = 0; i <= j; ++i) {
      if (of.live[i]) inverse[i * n + j] = row[i] / of.sizes[i];
    }
  }
  return inverse;
}

Eigen SymmetricEigen(SmallMatrix matrix, std::size_t n) {
  constexpr int kStepsMost = 60;  // for one value; two or three are usual
  Tridiagonal form(&matrix, n);
  auto& d = form.diagonal;
  std::vector<double> e(form.below.begin() + 1, form.below.end());
  e.push_back(0);
  // Rotations change columns; as rows they are in one piece.
  SmallMatrix rows(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < n; ++k) rows[k * n + i] = matrix[i * n + k];
  }
  for (std::size_t l = 0; l < n; ++l) {
    for (int step = 0; step < kStepsMost; ++step) {
      std::size_t m = l;
      while (m + 1 < n && std::fabs(e[m]) > std::numeric_limits<double>::epsilon() *
                                                (std::fabs(d[m]) + std::fabs(d[m + 1]))) {
        ++m;
      }
      if (m == l) break;
      QlStep(l, m, &d, &e, &rows, n);
    }
  }
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return d[a] > d[b]; });
  Eigen made;
  made.vectors.resize(n * n);
  for (std::size_t k = 0; k < n; ++k) {
    made.values.push_back(d[order[k]]);
    for (std::size_t i = 0; i < n; ++i) made.vectors[i * n + k] = rows[order[k] * n + i];
  }
  return made;
}

SmallMatrix SolveSymmetric(std::span<const double> gram, std::size_t n,
                           std::span<const double> right) {
  constexpr double kLeast = 1e-10;
  const Cholesky of = Factor(gram, n, kLeast);
  SmallMatrix x(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    double* const row = x.data() + i * n;
    if (!of.live[i]) continue;
    for (std::size_t c = 0; c < n; ++c) row[c] = right[i * n + c] / of.sizes[i];
    for (std::size_t k = 0; k < i; ++k) {
      const double by = of.l[i * n + k];
      for (std::size_t c = 0; c < n; ++c) row[c] -= by * x[k * n + c];
    }
    for (std::size_t c = 0; c < n; ++c) row[c] /= of.l[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    double* const row = x.data() + i * n;
    for (std::size_t k = i + 1; k < n; ++k) {
      const double by = of.l[k * n + i];
      for (std::size_t c = 0; c < n; ++c) row[c] -= by * x[k * n + c];
    }
    for (std::size_t c = 0; c < n; ++c) row[c] /= of.l[i * n + i];
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (!of.live[i]) continue;
    for (std::size_t c = 0; c < n; ++c) x[i * n + c] /= of.sizes[i];
  }
  return x;
}

}  // namespace shoal::compression
