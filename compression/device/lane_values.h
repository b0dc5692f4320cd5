// What one lane of a GPU's warp does with a group of 8 adjacent values: loads, stores, fp16, noise.
//
// Compiled by nvcc for the device and by the C++ compiler for tests, which compare it with the CPU
// codecs bit for bit. Every fp32 operation is one rounded operation: nvcc compiles this without
// contraction (-fmad=false), with IEEE division and without flushing subnormals. Where the device
// has an instruction (fp16 conversion, wide loads), it gives the bits of the plain code.
// Internal to compression/. Pure.

#ifndef SHOAL_COMPRESSION_DEVICE_LANE_VALUES_H_
#define SHOAL_COMPRESSION_DEVICE_LANE_VALUES_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/half.h"
#include "compression/api/m_format.h"
#include "compression/api/sample_layout.h"
#include "compression/device/jobs/device_sample.h"

#ifdef __CUDACC__
#define SHOAL_LANE __host__ __device__ __forceinline__
#else
#define SHOAL_LANE inline
#endif
#ifdef __CUDA_ARCH__
#define SHOAL_PRAGMA(text) _Pragma(#text)
#define SHOAL_UNROLL _Pragma("unroll")
#define SHOAL_UNROLL_BY(times) SHOAL_PRAGMA(unroll times)
#else
#define SHOAL_UNROLL
#define SHOAL_UNROLL_BY(times)
#endif

namespace shoal::compression {

inline constexpr int kLaneGroup = 8;  // values

// Of the values of a sample, those of the group at `position`.
SHOAL_LANE int GroupCount(std::uint32_t values, std::uint32_t position) {
  return values - position < kLaneGroup ? static_cast<int>(values - position) : kLaneGroup;
}

// An aligned T.
template <typename T>
SHOAL_LANE T LoadAligned(const std::byte* from) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const T*>(from);
#else
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
#endif
}
template <typename T>
SHOAL_LANE void StoreAligned(std::byte* to, T value) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<T*>(to) = value;
#else
  std::memcpy(to, &value, sizeof(T));
#endif
}

SHOAL_LANE bool Aligned16(const void* at) {
  return (reinterpret_cast<std::uintptr_t>(at) & 15) == 0;
}

// `count` values, zeros behind them.
SHOAL_LANE void LoadFloats(const float* from, int count, float (&to)[kLaneGroup]) {
#ifdef __CUDA_ARCH__
  if (count == kLaneGroup && Aligned16(from)) {
    const float4 a = reinterpret_cast<const float4*>(from)[0];
    const float4 b = reinterpret_cast<const float4*>(from)[1];
    to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w;
    to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
    return;
  }
#endif
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) to[j] = j < count ? from[j] : 0.0F;
}

SHOAL_LANE void StoreFloats(const float (&from)[kLaneGroup], int count, float* to) {
#ifdef __CUDA_ARCH__
  if (count == kLaneGroup && Aligned16(to)) {
    reinterpret_cast<float4*>(to)[0] = make_float4(from[0], from[1], from[2], from[3]);
    reinterpret_cast<float4*>(to)[1] = make_float4(from[4], from[5], from[6], from[7]);
    return;
  }
#endif
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    if (j < count) to[j] = from[j];
  }
}

// Eight 16-bit values as they lie in memory.
struct EightHalves {
  std::uint32_t words[kLaneGroup / 2] = {};

  SHOAL_LANE std::uint16_t Get(int j) const {
    return static_cast<std::uint16_t>(words[j / 2] >> (16 * (j % 2)));
  }
  SHOAL_LANE void Set(int j, std::uint16_t bits) {  // once per j
    words[j / 2] |= std::uint32_t{bits} << (16 * (j % 2));
  }
};

SHOAL_LANE EightHalves LoadEightHalves(const std::byte* from, int count) {
  EightHalves halves;
#ifdef __CUDA_ARCH__
  if (count == kLaneGroup && Aligned16(from)) {
    const uint4 all = *reinterpret_cast<const uint4*>(from);
    halves.words[0] = all.x, halves.words[1] = all.y;
    halves.words[2] = all.z, halves.words[3] = all.w;
    return halves;
  }
#endif
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    if (j < count) halves.Set(j, LoadAligned<std::uint16_t>(from + 2 * j));
  }
  return halves;
}

SHOAL_LANE void StoreEightHalves(const EightHalves& halves, int count, std::byte* to) {
#ifdef __CUDA_ARCH__
  if (count == kLaneGroup && Aligned16(to)) {
    *reinterpret_cast<uint4*>(to) =
        make_uint4(halves.words[0], halves.words[1], halves.words[2], halves.words[3]);
    return;
  }
#endif
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    if (j < count) StoreAligned<std::uint16_t>(to + 2 * j, halves.Get(j));
  }
}

// FloatToHalf and HalfToFloat, of values that are not NaN.
SHOAL_LANE std::uint16_t LaneToHalf(float value) {
#ifdef __CUDA_ARCH__
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  return FloatToHalf(value);
#endif
}
SHOAL_LANE float LaneFromHalf(std::uint16_t bits) {
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  return HalfToFloat(bits);
#endif
}

SHOAL_LANE void Raise(std::uint32_t& most, std::uint32_t value) {
  most = value > most ? value : most;
}
SHOAL_LANE std::uint32_t OnesOf(std::uint64_t bits) {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint32_t>(__popcll(bits));
#else
  return static_cast<std::uint32_t>(std::popcount(bits));
#endif
}
SHOAL_LANE std::uint32_t MagnitudeBits(float value) {
  return std::bit_cast<std::uint32_t>(value) & kAbsMask;
}

// ---- m images (m_format.h) -------------------------------------------------------------------

SHOAL_LANE int ImageExponent(const std::byte* image) {
  return static_cast<std::int8_t>(LoadAligned<std::uint8_t>(image + 1));
}
SHOAL_LANE std::uint64_t ImageStart(int exponent, int bits) {
  return std::uint64_t{kMImageVersion} | static_cast<std::uint64_t>(exponent & 0xff) << 8 |
         static_cast<std::uint64_t>(bits) << 16;
}
SHOAL_LANE void WriteImageHeader(int exponent, std::uint32_t values, int bits, std::byte* image) {
  StoreAligned<std::uint64_t>(image, ImageStart(exponent, bits));
  StoreAligned<std::uint64_t>(image + 8, values);
}
// As MFormat::Check.
SHOAL_LANE bool ImageHeaderFits(const std::byte* image, std::uint32_t values, int bits) {
  const int exponent = ImageExponent(image);
  return exponent >= (bits == 16 ? kHalfExponentMin : 0) &&
         exponent <= (bits == 16 ? kExponentMax : 0) &&
         LoadAligned<std::uint64_t>(image) == ImageStart(exponent, bits) &&
         LoadAligned<std::uint64_t>(image + 8) == values;
}
SHOAL_LANE std::size_t HalfOffset(std::uint32_t position) {
  return kMImageHeaderBytes + 2 * std::size_t{position};
}

// ---- noise (message_noise.h) -----------------------------------------------------------------

// Philox 4x32-10.
SHOAL_LANE void PhiloxAt(const std::uint32_t (&key)[2], std::uint32_t c0, std::uint32_t c1,
                         std::uint32_t c2, std::uint32_t c3, std::uint32_t (&out)[4]) {
  std::uint32_t k0 = key[0], k1 = key[1];
  SHOAL_UNROLL
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c0;
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(b);
    c2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(a);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}
// At counter (block low, block high, 0, 0).
SHOAL_LANE void PhiloxBlock(const std::uint32_t (&key)[2], std::uint64_t block,
                            std::uint32_t (&out)[4]) {
  PhiloxAt(key, static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0,
           out);
}

// Numbers first ... first + 7 of FillUniform in stream 0.
SHOAL_LANE void GroupNoise(const std::uint32_t (&key)[2], std::uint64_t first,
                           float (&noise)[kLaneGroup]) {
  const std::uint64_t block = first / 4;
  const std::uint64_t skip = first % 4;
  std::uint32_t words[3][4] = {};
  PhiloxBlock(key, block, words[0]);
  PhiloxBlock(key, block + 1, words[1]);
  if (skip != 0) PhiloxBlock(key, block + 2, words[2]);
  // Selections instead of an index, so that the words stay in registers.
  std::uint32_t once[kLaneGroup + 2];
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup + 2; ++j) {
    once[j] = skip % 2 != 0 ? words[(j + 1) / 4][(j + 1) % 4] : words[j / 4][j % 4];
  }
  SHOAL_UNROLL
  for (int j = 0; j < kLaneGroup; ++j) {
    noise[j] = static_cast<float>((skip >= 2 ? once[j + 2] : once[j]) >> 8) * 0x1p-24F;
  }
}

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DEVICE_LANE_VALUES_H_
