// Slow, obvious matrices in double.

#ifndef SHOAL_TESTS_UNIT_COMPRESSION_MATRIX_REFERENCE_H_
#define SHOAL_TESTS_UNIT_COMPRESSION_MATRIX_REFERENCE_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
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
