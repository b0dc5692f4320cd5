// The loops behind low-rank factors, compiled once per SIMD level and chosen at run time.
//
// Every function gives the same bits at every level: each result has one accumulator, to which
// products are added in the order that is stated, a multiplication and an addition of fp32 or fp64
// each, never contracted. Matrices are row-major. `width`, the columns of a padded factor, is a
// multiple of kFactorPad. No argument is checked here. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_SIMD_LOW_RANK_KERNELS_H_
#define SHOAL_COMPRESSION_SIMD_LOW_RANK_KERNELS_H_

#include <cstddef>

namespace shoal::compression {

inline constexpr std::size_t kFactorPad = 8;
// Columns of transposed factors are padded to a multiple of this.
inline constexpr std::size_t kColumnPad = 16;
// Terms that are added up before their sum is added to the total.
inline constexpr std::size_t kTermsBlock = 64;

// p = m q: `m` rows x columns, `q` columns x width, `p` rows x width. Terms in order of column.
void TimesFactor(const float* m, std::size_t rows, std::size_t columns, const float* q,
                 std::size_t width, float* p);
// q = m^T p. Terms in order of row.
void TransposedTimesFactor(const float* m, std::size_t rows, std::size_t columns, const float* p,
                           std::size_t width, float* q);

// A product p q^T. `p` is rows x rank, `qt` rank x stride, stride >= columns and a multiple of
// kColumnPad. A value is t * factor, where t = 0 + p0 q0 + p1 q1 + ..., and +0 where |t| < least.
struct FactorProduct {
  const float* p = nullptr;
  const float* qt = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t rank = 0;
  std::size_t stride = 0;
  float factor = 1;
  float least = 0;
};
// out = the product.
void WriteProduct(const FactorProduct& product, float* out);
// values = values - the product.
void SubtractProduct(const FactorProduct& product, float* values);

// Eight sums, of the terms whose index mod 8 is the sum's number, as (((s0 + s4) + (s2 + s6)) +
// ((s1 + s5) + (s3 + s7))).
double Dot(const double* a, const double* b, std::size_t n);
// a = a - factor * b.
void SubtractScaled(const double* b, double factor, std::size_t n, double* a);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_SIMD_LOW_RANK_KERNELS_H_
