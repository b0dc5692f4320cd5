// Low-rank factors of a matrix by one step of the power method, begun from the last ones: P = M Q,
// orthonormal columns for P, Q = M^T P, and M is about P Q^T (Vogels et al., "PowerSGD: Practical
// Low-Rank Gradient Compression for Distributed Optimization", NeurIPS 2019, algorithm 1).
//
// Matrices are row-major fp32; factors are `rows x rank` without padding. All functions give the
// same bits at every SIMD level and on every machine, so that replicas which hold the same mean
// factors agree on the rest. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_LOW_RANK_LOW_RANK_H_
#define SHOAL_COMPRESSION_CODECS_LOW_RANK_LOW_RANK_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compression/api/codec.h"
#include "compression/api/matrix_shape.h"
#include "compression/simd/low_rank_kernels.h"

namespace shoal::compression {

inline constexpr std::uint32_t kRankMax = 256;
// Magnitudes up to 2^96 leave every sum of these functions below fp32's limit.
inline constexpr float kLowRankMagnitudeMax = 0x1p96F;

// The rank that `rank` comes to: at most either side.
std::size_t RankFor(MatrixShape shape, std::size_t rank);

// Whether factors are worth their error: less than half of the matrix's values.
bool WorthFactors(MatrixShape shape, std::size_t rank);

// `rows x rank` numbers within [-1, 1) drawn by counter (message_noise.h) under `key`: the same for
// all who know the key.
std::vector<float> RandomFactor(const RandomKey& key, std::size_t rows, std::size_t rank);

// Makes the columns of `factor` (rows x rank, rank <= rows, finite) orthonormal: modified
// Gram-Schmidt, every projection taken away twice, in fp64. A column of which less than 2^-22 is
// left has nothing that the ones before it do not have. It becomes zeros, for then it also costs
// nothing; or, with `replacements`, a direction drawn by counter that is orthogonal to the others:
// a Q with a zero column would never look in a new direction again. Subnormal values count as 0.
void OrthonormaliseColumns(std::span<float> factor, std::size_t rows, std::size_t rank,
                           const RandomKey* replacements);

// p = M q * factor: q is columns x rank, p rows x rank.
void ProjectRows(std::span<const float> matrix, MatrixShape shape, std::span<const float> q,
                 std::size_t rank, float factor, std::span<float> p);
// q = M^T p * factor.
void ProjectColumns(std::span<const float> matrix, MatrixShape shape, std::span<const float> p,
                    std::size_t rank, float factor, std::span<float> q);

// Brings the largest magnitude to [2^14, 2^15) by a power of two, or lower where its exponent would
// be less than `exponent_min`, and makes values below 2^-40 zeros. Returns the exponent e: what a
// value was is now value * 2^e. A factor below 2^-100 becomes zeros.
int ScaleFactor(std::span<float> factor, int exponent_min);
// Both factors, so that no product and no sum of products meets a subnormal. Returns the exponent
// of the product: what p q^T was is now p q^T * 2^e.
int ScaleFactors(std::span<float> p, std::span<float> q);
inline constexpr int kProductExponentMin = -126;
inline constexpr int kProductExponentMax = 104;
inline constexpr float kFactorLeast = 0x1p-40F;
inline constexpr float kFactorMost = 0x1p16F;

// p q^T * 2^exponent, in the order that docs/WIRE.md ("lowrank") gives. Factors: ScaleFactors,
// or foreign ones of zeros and magnitudes from kFactorLeast to kFactorMost.
class LowRankProduct {
 public:
  LowRankProduct(std::span<const float> q, std::size_t columns, std::size_t rank, int exponent);

  // out = p q^T * 2^exponent, `p` being out.size() / columns rows of the left factor.
  void Write(std::span<const float> p, std::span<float> out) const;
  // values = values - p q^T * 2^exponent.
  void Subtract(std::span<const float> p, std::span<float> values) const;

 private:
  FactorProduct Described(std::span<const float> p, std::size_t values) const;

  std::size_t columns_;
  std::size_t rank_;
  int exponent_;
  std::size_t stride_;
  std::vector<float> transposed_;  // rank x stride
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_LOW_RANK_LOW_RANK_H_
