// Slow, obvious matrices in double.

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_MATRIX_REFERENCE_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_MATRIX_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

namespace shoal::compression::reference {

struct Matrix {
  Matrix(std::size_t row_count, std::size_t column_count)
      : rows(row_count), columns(column_count), values(row_count * column_count) {}
  Matrix(std::span<const float> from, std::size_t row_count)
      : rows(row_count), columns(from.size() / row_count), values(from.begin(), from.end()) {}

  double& at(std::size_t row, std::size_t column) { return values[row * columns + column]; }
  double at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }

  std::size_t rows, columns;
  std::vector<double> values;
};

inline std::vector<float> Normal(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

inline Matrix Transposed(const Matrix& m) {
  Matrix t(m.columns, m.rows);
  for (std::size_t r = 0; r < m.rows; ++r) {
    for (std::size_t c = 0; c < m.columns; ++c) t.at(c, r) = m.at(r, c);
  }
  return t;
}

inline Matrix Product(const Matrix& a, const Matrix& b) {
  Matrix product(a.rows, b.columns);
  for (std::size_t r = 0; r < a.rows; ++r) {
    for (std::size_t c = 0; c < b.columns; ++c) {
      for (std::size_t k = 0; k < a.columns; ++k) product.at(r, c) += a.at(r, k) * b.at(k, c);
    }
  }
  return product;
}

// Gram-Schmidt; the columns are far from dependent.
inline Matrix Orthonormal(Matrix m) {
  for (std::size_t k = 0; k < m.columns; ++k) {
    for (std::size_t j = 0; j <= k; ++j) {
      double along = 0;
      for (std::size_t r = 0; r < m.rows; ++r) along += m.at(r, j) * m.at(r, k);
      for (std::size_t r = 0; r < m.rows; ++r) {
        m.at(r, k) = j < k ? m.at(r, k) - along * m.at(r, j) : m.at(r, k) / std::sqrt(along);
      }
    }
  }
  return m;
}

inline double Norm(std::span<const double> values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return std::sqrt(sum);
}

// Squares of the singular values, largest first, by one-sided Jacobi rotations of columns.
inline std::vector<double> SquaredSingularValues(Matrix m) {
  if (m.columns > m.rows) m = Transposed(m);
  for (int sweep = 0; sweep < 60; ++sweep) {
    double most = 0;
    for (std::size_t a = 0; a < m.columns; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        double aa = 0, bb = 0, ab = 0;
        for (std::size_t r = 0; r < m.rows; ++r) {
          aa += m.at(r, a) * m.at(r, a);
          bb += m.at(r, b) * m.at(r, b);
          ab += m.at(r, a) * m.at(r, b);
        }
        if (aa == 0 || bb == 0 || ab == 0) continue;
        most = std::fmax(most, std::fabs(ab) / std::sqrt(aa * bb));
        const double angle = 0.5 * std::atan2(2 * ab, aa - bb);
        for (std::size_t r = 0; r < m.rows; ++r) {
          const double x = m.at(r, a), y = m.at(r, b);
          m.at(r, a) = std::cos(angle) * x + std::sin(angle) * y;
          m.at(r, b) = std::cos(angle) * y - std::sin(angle) * x;
        }
      }
    }
    if (most < 1e-13) break;
  }
  std::vector<double> squares(m.columns);
  for (std::size_t c = 0; c < m.columns; ++c) {
    for (std::size_t r = 0; r < m.rows; ++r) squares[c] += m.at(r, c) * m.at(r, c);
  }
  std::sort(squares.begin(), squares.end(), std::greater<>());
  return squares;
}

// rows x columns values with these squared singular values, in random directions.
inline std::vector<float> WithSpectrum(std::size_t rows, std::size_t columns,
                                       std::span<const double> squares, std::uint64_t seed) {
  const std::size_t rank = squares.size();
  Matrix u = Orthonormal(Matrix(Normal(rows * rank, 2 * seed), rows));
  const Matrix v = Orthonormal(Matrix(Normal(columns * rank, 2 * seed + 1), columns));
  for (std::size_t i = 0; i < u.values.size(); ++i) u.values[i] *= std::sqrt(squares[i % rank]);
  const Matrix product = Product(u, Transposed(v));
  return {product.values.begin(), product.values.end()};
}

// ||got - factor * want|| / ||factor * want||.
inline double RelativeDistance(std::span<const float> got, const Matrix& want, double factor = 1) {
  double apart = 0, whole = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double value = factor * want.values[i];
    apart += (got[i] - value) * (got[i] - value);
    whole += value * value;
  }
  return std::sqrt(apart / whole);
}

}  // namespace shoal::compression::reference

#endif  // SHOAL_TESTS_UNIT_COMPRESSION_MATRIX_REFERENCE_H_
