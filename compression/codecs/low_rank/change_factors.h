// A sample's change as two factors of whole numbers: value (t, h) is the sum over columns k of
// left[k][t] right[k][h] 2^steps[k], times 2^(exponent + token exponent).
//
// How finely a column is rounded follows its size. With D = sum of s_k u_k v_k^T, an error of u_k
// weighs s_k in D, so that all columns of both s_k u_k and s_k v_k get the same step: that costs
// the fewest bits for its error (reverse water-filling), and columns that come to nothing are
// left out. The right factor is fitted to the rounded left one. The arithmetic of the sum is
// specified (docs/WIRE.md, "Low-rank changes"); how the numbers are chosen is not.
// Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_LOW_RANK_CHANGE_FACTORS_H_
#define SHOAL_COMPRESSION_CODECS_LOW_RANK_CHANGE_FACTORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compression/api/codec.h"
#include "compression/codecs/low_rank/change_basis.h"

namespace shoal::compression {

inline constexpr int kFactorCodeBits = 15;  // |code| < 2^15
inline constexpr int kColumnStepsMost = 24;
inline constexpr int kTokenExponentBits = 4;
inline constexpr int kTokenExponentMost = (1 << kTokenExponentBits) - 1;

struct ChangeFactors {
  std::size_t rank = 0;                       // 0: no change
  int exponent = 0;                           // kProductExponentMin to kProductExponentMax
  std::vector<std::uint8_t> steps;            // growing from 0, at most kColumnStepsMost
  std::vector<std::uint8_t> token_exponents;  // of all tokens
  std::vector<std::int16_t> left;             // rank x tokens
  std::vector<std::int16_t> right;            // rank x hidden
};

// Rounds the first `rank` directions of a sketch so that the error is about that of codes of `bits`
// bits: 2^(5 - 2 bits) / 3 of their energy. The sketch is that of the change times 2^-exponent.
ChangeFactors RoundFactors(const ChangeSketch& sketch, SampleShape shape, std::size_t rank,
                           int bits, int exponent);

// Writes the change of which these are the factors, in the specified order of sums. False if a
// value is not finite, which only foreign factors give.
[[nodiscard]] bool WriteChange(const ChangeFactors& factors, SampleShape shape,
                               std::span<float> out);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_LOW_RANK_CHANGE_FACTORS_H_
