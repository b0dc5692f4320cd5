// The loops behind the codecs, compiled once per SIMD level and chosen at run time.
//
// Every function gives the same bits at every level: only single fp32 operations (never contracted)
// and integer arithmetic are used. `std::byte*` arguments are little-endian 16-bit values without
// alignment. No argument is checked here; the codecs check. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_KERNELS_H_
#define SHOAL_COMPRESSION_KERNELS_H_

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

// Writes one bf16 scale per bucket, its absmax rounded up; returns AbsMaxBits of all values.
std::uint32_t BucketScales(const float* x, std::size_t buckets, std::size_t bucket,
                           std::uint16_t* scales);

// Mid-rise codes: k = trunc(x * (2^(bits-1) / scale) + 2^(bits-1)), at most 2^bits - 1.
void QuantiseBuckets(const float* x, std::size_t buckets, std::size_t bucket, int bits,
                     const std::uint16_t* scales, std::uint8_t* codes);
// Level of code k: fma(k, step, offset), step = scale * 2^(1-bits), offset = step / 2 - scale.
void DequantiseBuckets(const std::uint8_t* codes, std::size_t buckets, std::size_t bucket, int bits,
                       const std::byte* scales, float* x);

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

// half = fp16(x * factor), and back: x = half * factor, of finite values. `factor` is a
// power of two.
void ToHalf(const float* x, float factor, std::size_t n, std::byte* half);
void FromHalf(const std::byte* half, float factor, std::size_t n, float* x);
void ToBf16(const float* x, std::size_t n, std::byte* half);
void FromBf16(const std::byte* half, std::size_t n, float* x);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_KERNELS_H_
