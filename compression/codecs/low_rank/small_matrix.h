// Matrices of a few hundred rows in fp64: what a factorisation computes between its passes over a
// sample (change_basis.h).
//
// Row-major, n x n. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_LOW_RANK_SMALL_MATRIX_H_
#define SHOAL_COMPRESSION_CODECS_LOW_RANK_SMALL_MATRIX_H_

#include <cstddef>
#include <span>
#include <vector>

namespace shoal::compression {

using SmallMatrix = std::vector<double>;

// The upper-triangular r with which the columns of P r are orthonormal, of gram = P^T P (Cholesky
// QR). A column of P of whose energy the ones before it leave no more than `least` has nothing new:
// its column of r is zeros.
SmallMatrix OrthonormalisingFactor(std::span<const double> gram, std::size_t n, double least);

// Eigenvalues of a symmetric matrix, largest first, and their eigenvectors as the columns of
// `vectors`, of norm 1. Householder tridiagonalisation and implicit QL (Bowdler, Martin, Reinsch
// and Wilkinson, "The QR and QL algorithms for symmetric matrices", Numerische Mathematik 11,
// 1968).
struct Eigen {
  std::vector<double> values;
  SmallMatrix vectors;
};
Eigen SymmetricEigen(SmallMatrix matrix, std::size_t n);

// x of gram x = right, `gram` symmetric and positive; `right` is n x n. A direction of which gram
// has nothing gets zeros.
SmallMatrix SolveSymmetric(std::span<const double> gram, std::size_t n,
                           std::span<const double> right);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_LOW_RANK_SMALL_MATRIX_H_
