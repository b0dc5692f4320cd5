// MatrixShape: rows and columns of a matrix of fp32 values, row-major.

#ifndef SHOAL_COMPRESSION_API_MATRIX_SHAPE_H_
#define SHOAL_COMPRESSION_API_MATRIX_SHAPE_H_

#include <cstddef>

namespace shoal::compression {

struct MatrixShape {
  std::size_t rows = 0;
  std::size_t columns = 0;

  std::size_t values() const { return rows * columns; }
  bool operator==(const MatrixShape&) const = default;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_API_MATRIX_SHAPE_H_
