// fp16 and bf16 against fp32, bit-exact: pure integer and fp32 arithmetic that gives the same bits
// on every machine and that compilers turn into SIMD code inside loops.
//
// None of these functions takes or makes an fp32 subnormal on the way to a non-zero result, so a
// thread that flushes subnormals to zero gets the same bits. Thread: any.

#ifndef SHOAL_COMMON_HALF_H_
#define SHOAL_COMMON_HALF_H_

#include <bit>
#include <cstdint>

namespace shoal {

inline constexpr std::uint32_t kAbsMask = 0x7fffffff;
inline constexpr std::uint32_t kFloatInfinity = 0x7f800000;
inline constexpr std::uint16_t kHalfInfinity = 0x7c00;
// 65520, the smallest fp32 value that rounds beyond fp16's largest, 65504.
inline constexpr std::uint32_t kHalfOverflowBits = 0x477ff000;

constexpr bool FiniteBits(std::uint32_t bits) { return (bits & kAbsMask) < kFloatInfinity; }

// fp32 -> fp16, round to nearest, ties to even; 65520 and more become infinity; a NaN becomes the
// quiet NaN 0x7e00 with the sign kept.
constexpr std::uint16_t FloatToHalf(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & kAbsMask;
  // Normal result: move the exponent bias from 127 to 15, add half a unit (ties to even), cut.
  const std::uint32_t normal = (magnitude - (112U << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // Subnormal result: adding 0.5 makes the fp32 adder round at fp16's smallest unit, 2^-24.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
  const std::uint32_t small = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U;
  std::uint32_t half = magnitude < (113U << 23) ? small : normal;
  half = magnitude >= kHalfOverflowBits ? 0x7c00U : half;
  half = magnitude > kFloatInfinity ? 0x7e00U : half;
  return static_cast<std::uint16_t>(sign | half);
}

// fp16 -> fp32, exact.
constexpr float HalfToFloat(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t shifted = static_cast<std::uint32_t>(half & 0x7fff) << 13;
  const std::uint32_t exponent = shifted & (31U << 23);
  const std::uint32_t normal = shifted + (112U << 23);
  // Subnormal: as a normal number with exponent 2^-14, then take the implicit one away again.
  const float small = std::bit_cast<float>(shifted + (113U << 23)) - 0x1p-14F;
  std::uint32_t bits = exponent == 0 ? std::bit_cast<std::uint32_t>(small) : normal;
  bits = exponent == (31U << 23) ? normal + (112U << 23) : bits;
  return std::bit_cast<float>(sign | bits);
}

// fp32 -> bf16, round to nearest, ties to even; a NaN becomes the quiet NaN 0x7fc0 with its sign.
constexpr std::uint16_t FloatToBf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const std::uint32_t nan = ((bits >> 16) & 0x8000) | 0x7fc0;
  return static_cast<std::uint16_t>((bits & kAbsMask) > kFloatInfinity ? nan : rounded);
}

// The smallest bf16 that is not below `value`, which must be 0 or positive and not NaN.
constexpr std::uint16_t FloatToBf16Up(float value) {
  return static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(value) + 0xffff) >> 16);
}

// bf16 -> fp32, exact.
constexpr float Bf16ToFloat(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

// 2^exponent for -126 <= exponent <= 127.
constexpr float PowerOfTwo(int exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

}  // namespace shoal

#endif  // SHOAL_COMMON_HALF_H_
