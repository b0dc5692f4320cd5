// The loops of dithered quantisation, compiled once per SIMD level and chosen at run time.
//
// A dither word w has a sign (bit 15: s = -1 if set) and a magnitude a = ((w & 0x7fff) + 1/2) /
// 2^16 in (0, 1/2); the dither is u = s a, uniform in (-1/2, 1/2). A value x becomes the code q =
// round(x / step + u), and decodes to (q - u) step. Kept is the folded code s q: given a, its
// distribution is the same for either sign, where x has a symmetric one.
// Every function gives the same bits at every level. Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_SIMD_DITHER_KERNELS_H_
#define SHOAL_COMPRESSION_SIMD_DITHER_KERNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "compression/simd/dither_code.h"

namespace shoal::compression {

// Writes the words of groups first .. first + groups - 1 of a token, 16 bits a value. Block b of a
// token is Philox 4x32-10 at counter (b, token low, 7, token high). Value 64 p + 4 b + k of a group
// takes half of word 2 p + k / 2 of the group's block b: the low half if k is even.
void DitherWords(const std::array<std::uint32_t, 2>& key, std::uint64_t token, std::uint32_t first,
                 std::size_t groups, std::uint16_t* words);

// The sum of squares: sixteen sums in double, value i in sum i mod 16, then added in pairs. Not
// finite exactly if a value is not.
double SumOfSquares(const float* x, std::size_t n);

// sums[i] += (x[i] * scale)^2, in fp32.
void AddScaledSquares(const float* x, float scale, std::size_t n, float* sums);

// How folded codes become symbols of a byte: symbol = code + most + 1 for -most <= code <= most,
// 0 (an escape) for others. A narrow cell has bits 13 and 14 of the dither word, the leading bits
// of the magnitude, above six bits of symbol; a wide cell is the symbol.
// Codes beyond +-2^22 are not possible: the caller chooses the step so. Returns whether a cell is
// an escape.
bool QuantiseDithered(const float* x, const std::uint16_t* words, std::size_t n, float inverse_step,
                      bool wide, std::uint8_t* cells);
// The folded code of one value, by the same arithmetic.
std::int32_t DitheredCode(float x, std::uint16_t word, float inverse_step);

// Values of symbols (narrow: the low six bits of `cells`). An escape gives nothing of use.
void DequantiseDithered(const std::uint8_t* cells, const std::uint16_t* words, std::size_t n,
                        float step, bool wide, float* x);
// The value of one folded code: s ((code - a) step), each operation rounded to fp32.
float DitheredValue(std::int32_t code, std::uint16_t word, float step);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_SIMD_DITHER_KERNELS_H_
