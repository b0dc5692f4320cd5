#include "compression/codecs/low_rank/small_matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/unit/compression/matrix_reference.h"

namespace shoal::compression {
namespace {

using reference::Matrix;
using reference::Product;
using reference::Transposed;

constexpr std::size_t kSizes[] = {1, 2, 3, 5, 8, 24, 72};

Matrix Square(const SmallMatrix& values, std::size_t n) {
  Matrix m(n, n);
  m.values = values;
  return m;
}

// Of `rank` vectors of sizes that fall to 2^-octaves.
SmallMatrix Gram(std::size_t n, std::size_t rank, double octaves) {
  Matrix m(reference::Normal(n * rank, n), n);
  for (std::size_t i = 0; i < m.values.size(); ++i) {
    m.values[i] *= std::exp2(-octaves * static_cast<double>(i % rank) / static_cast<double>(rank));
  }
  return Product(m, Transposed(m)).values;
}

double FromIdentity(const Matrix& m) {
  double worst = 0;
  for (std::size_t r = 0; r < m.rows; ++r) {
    for (std::size_t c = 0; c < m.columns; ++c) {
      worst = std::fmax(worst, std::fabs(m.at(r, c) - (r == c ? 1 : 0)));
    }
  }
  return worst;
}

TEST(SmallMatrix, EigenvectorsMakeTheMatrixDiagonal) {
  for (const std::size_t n : kSizes) {
    for (const std::size_t rank : {n, (n + 1) / 2}) {
      SCOPED_TRACE(testing::Message() << n << " of rank " << rank);
      const SmallMatrix gram = Gram(n, rank, 10);
      const Eigen eigen = SymmetricEigen(gram, n);
      const Matrix vectors = Square(eigen.vectors, n);
      EXPECT_LT(FromIdentity(Product(Transposed(vectors), vectors)), 1e-12);
      const Matrix turned = Product(Transposed(vectors), Product(Square(gram, n), vectors));
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_GE(eigen.values[i == 0 ? 0 : i - 1], eigen.values[i]);
        for (std::size_t j = 0; j < n; ++j) {
          EXPECT_NEAR(turned.at(i, j), i == j ? eigen.values[i] : 0, 1e-11 * eigen.values[0]);
        }
      }
      for (std::size_t i = rank; i < n; ++i) EXPECT_LT(eigen.values[i], 1e-12 * eigen.values[0]);
    }
  }
}

TEST(SmallMatrix, EigenvaluesOfZerosAndOfADiagonal) {
  EXPECT_EQ(SymmetricEigen(SmallMatrix(9), 3).values, (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(SymmetricEigen({1, 0, 0, 0, 3, 0, 0, 0, 2}, 3).values, (std::vector<double>{3, 2, 1}));
}

TEST(SmallMatrix, ColumnsBecomeOrthonormalAndThoseWithNothingNewZeros) {
  for (const std::size_t n : kSizes) {
    SmallMatrix gram = Gram(n, n, 3);
    if (n > 2) {
      // Column 1 is twice column 0, the last one is nothing.
      for (std::size_t i = 0; i < n; ++i) gram[i * n + 1] = 2 * gram[i * n];
      for (std::size_t i = 0; i < n; ++i) gram[n + i] = 2 * gram[i];
      gram[n + 1] = 4 * gram[0];
      for (std::size_t i = 0; i < n; ++i) gram[i * n + n - 1] = gram[(n - 1) * n + i] = 0;
    }
    const Matrix r = Square(OrthonormalisingFactor(gram, n, 1e-9), n);
    const Matrix made = Product(Transposed(r), Product(Square(gram, n), r));
    for (std::size_t i = 0; i < n; ++i) {
      const bool dropped = n > 2 && (i == 1 || i == n - 1);
      for (std::size_t j = 0; j < n; ++j) {
        EXPECT_NEAR(made.at(i, j), i == j && !dropped ? 1 : 0, 1e-6) << n;
        EXPECT_TRUE(i <= j || r.at(i, j) == 0) << "upper-triangular";
        EXPECT_TRUE(!dropped || r.at(j, i) == 0);
      }
    }
  }
}

TEST(SmallMatrix, SystemsAreSolved) {
  for (const std::size_t n : kSizes) {
    const SmallMatrix gram = Gram(n, 2 * n, 2);
    const auto normal = reference::Normal(n * n, 5);
    const SmallMatrix right(normal.begin(), normal.end());
    const Matrix back = Product(Square(gram, n), Square(SolveSymmetric(gram, n, right), n));
    for (std::size_t i = 0; i < n * n; ++i) EXPECT_NEAR(back.values[i], right[i], 1e-9);
  }
  // What the matrix has nothing of stays out.
  EXPECT_EQ(SolveSymmetric(SmallMatrix{4, 0, 0, 0}, 2, SmallMatrix{8, 4, 1, 1}),
            (SmallMatrix{2, 1, 0, 0}));
}

}  // namespace
}  // namespace shoal::compression
