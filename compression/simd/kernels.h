// The loops behind the codecs, compiled once per SIMD level and chosen at run time.
//
// Every function gives the same bits at every level: only single fp32 operations (never contracted)
// and integer arithmetic are used. `std::byte*` arguments are little-endian 16-bit values without
// alignment. No argument is checked here; the codecs check. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_SIMD_KERNELS_H_
#define SHOAL_COMPRESSION_SIMD_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace shoal::compression {

// Buckets with a smaller absmax than 2^-100 count as zero and no scale exceeds 2^121, so that no
// step of the arithmetic meets a subnormal or an overflow.
inline constexpr std::uint16_t kScaleBitsMin = 27 << 7;
inline constexpr std::uint16_t kScaleBitsMax = 248 << 7;

// The largest |x| as fp32 bits; at least kFloatInfinity if any value is not finite.
std::uint32_t AbsMaxBits(const float* x, std::size_t n);
// The largest magnitude bits of n 16-bit floats.
std::uint16_t AbsMaxBits16(const std::byte* x, std::size_t n);

// Writes the largest magnitude bits of every bucket; returns that of all values.
std::uint32_t BucketMagnitudes(const float* x, std::size_t buckets, std::size_t bucket,
                               std::uint32_t* most);

// Codes of 8 bits at most: k = trunc(x * inverse + (bias + noise)), between 0 and `top`. The
// constants belong to a bucket each, or to a column each of a matrix of rows x columns values;
// `noise` is null (none) or one per value.
void QuantiseBuckets(const float* x, std::size_t buckets, std::size_t bucket, int top,
                     const float* inverse, const float* bias, const float* noise,
                     std::uint8_t* codes);
void QuantiseColumns(const float* x, std::size_t rows, std::size_t columns, int top,
                     const float* inverse, const float* bias, const float* noise,
                     std::uint8_t* codes);
// Level of code k: k * step + offset, a multiplication and an addition of fp32.
void DequantiseBuckets(const std::uint8_t* codes, std::size_t buckets, std::size_t bucket,
                       const float* step, const float* offset, float* x);
void DequantiseColumns(const std::uint8_t* codes, std::size_t rows, std::size_t columns,
                       const float* step, const float* offset, float* x);
// most[c] = the larger of most[c] and the largest magnitude bits of column c.
void ColumnMagnitudes(const float* x, std::size_t rows, std::size_t columns, std::uint32_t* most);

// Groups of 8 codes <-> groups of `bits` bytes; code j sits at bit j * bits of its group.
void PackCodes(const std::uint8_t* codes, std::size_t groups, int bits, std::byte* packed);
void UnpackCodes(const std::byte* packed, std::size_t groups, int bits, std::uint8_t* codes);

// delta = x - m * factor; returns AbsMaxBits(x).
std::uint32_t SubtractHalf(const float* x, const std::byte* m, float factor, std::size_t n,
                           float* delta);
// next = fp16((m * factor + delta) * next_factor) for finite sums below fp32's limits; returns
// AbsMaxBits of the sums.
std::uint32_t AddToHalf(const float* delta, const std::byte* m, float factor, float next_factor,
                        std::size_t n, std::byte* next);

// Byte i of `out` becomes byte 2 i of `in` with byte 2 i + 1 in front of it, both below 2^shift.
// n: bytes of `out`; shift 1 to 4.
void JoinBytes(const std::uint8_t* in, std::size_t n, int shift, std::uint8_t* out);
// The opposite; n: bytes of `in`. Returns all of them together (bitwise or).
std::uint8_t SplitBytes(const std::uint8_t* in, std::size_t n, int shift, std::uint8_t* out);

// The sum of squares of x, and of the differences x - y, in double: value i in sum i mod 8, but
// those of an incomplete last eight in sum 0, then the sums in order. device_stats.cc has the same
// order.
double Squares(const float* x, std::size_t n);
// Of x to about six digits, in less than half the time: in float, unless squares leave its range.
double RoughSquares(const float* x, std::size_t n);
double SquaredDifferences(const float* x, const float* y, std::size_t n);

// half = fp16(x * factor), and back: x = half * factor, of finite values. `factor` is a
// power of two.
void ToHalf(const float* x, float factor, std::size_t n, std::byte* half);
void FromHalf(const std::byte* half, float factor, std::size_t n, float* x);
void ToBf16(const float* x, std::size_t n, std::byte* half);
void FromBf16(const std::byte* half, std::size_t n, float* x);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_SIMD_KERNELS_H_
