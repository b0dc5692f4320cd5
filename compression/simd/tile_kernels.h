// The loops of `tiles`: the rotation and the range of every tile.
//
// As in kernels.h: the same bits at every SIMD level, no argument is checked. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_SIMD_TILE_KERNELS_H_
#define SHOAL_COMPRESSION_SIMD_TILE_KERNELS_H_

#include <cstddef>

namespace shoal::compression {

// y = H(x * factor) for every `tile` adjacent values (a power of two that divides n): for strides
// h = 1, 2, 4 .. tile / 2, pairs (a, b) at distance h become (a + b, a - b), one fp32 operation
// each. The Walsh-Hadamard transform; applied twice it gives tile * factor^2 * x. y may be x.
void RotateTiles(const float* x, std::size_t n, std::size_t tile, float factor, float* y);

// The smallest and the largest of every bucket, of finite values.
void BucketRanges(const float* x, std::size_t buckets, std::size_t bucket, float* low, float* high);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_SIMD_TILE_KERNELS_H_
