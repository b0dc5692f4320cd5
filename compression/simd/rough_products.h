// Products of a matrix with a thin factor for an encoder's analysis, as fast as they go: sums in
// any order, multiplications and additions fused where the processor can. Results differ in their
// last digits from one SIMD level to another, so nothing that two machines must agree on may
// depend on them; low_rank_kernels.h has the products that do.
//
// Matrices are row-major. `width`, the columns of a padded factor, is a multiple of kFactorPad. No
// argument is checked here. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_SIMD_ROUGH_PRODUCTS_H_
#define SHOAL_COMPRESSION_SIMD_ROUGH_PRODUCTS_H_

#include <cstddef>

namespace shoal::compression {

// p = m q: `m` rows x columns, `q` columns x width, `p` rows x width.
void RoughTimesFactor(const float* m, std::size_t rows, std::size_t columns, const float* q,
                      std::size_t width, float* p);
// q = m^T p.
void RoughTransposedTimesFactor(const float* m, std::size_t rows, std::size_t columns,
                                const float* p, std::size_t width, float* q);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_SIMD_ROUGH_PRODUCTS_H_
