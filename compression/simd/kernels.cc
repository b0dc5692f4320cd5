// Most loops are plain C++ that the compiler vectorises; Highway compiles this file once per SIMD
// level, dispatches, and gives the fp16 conversion instructions where there are any. Multiplication
// and addition stay apart (-ffp-contract=off).
//
// The level of a code is specified as one fma. A code has at most 8 significant bits and a bf16
// scale has 8, so code * step and the sum with the offset are exact in fp32: mul and add give the
// bits of the fma, also on machines without one.

#include "compression/simd/kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/bytes.h"
#include "common/half.h"
#include "common/status.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/simd/kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace shoal::compression {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

inline std::int32_t Magnitude(float x) {
  return static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(x) & kAbsMask);
}

std::uint32_t AbsMaxBitsImpl(const float* x, std::size_t n) {
  std::int32_t most = 0;
  for (std::size_t i = 0; i < n; ++i) most = std::max(most, Magnitude(x[i]));
  return static_cast<std::uint32_t>(most);
}

std::uint16_t AbsMaxBits16Impl(const std::byte* x, std::size_t n) {
  std::uint16_t most = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const auto bits = static_cast<std::uint16_t>(LoadLittle<std::uint16_t>(x + 2 * i) & 0x7fff);
    most = std::max(most, bits);
  }
  return most;
}

std::uint32_t BucketMagnitudesImpl(const float* x, std::size_t buckets, std::size_t bucket,
                                   std::uint32_t* most) {
  std::uint32_t largest = 0;
  for (std::size_t b = 0; b < buckets; ++b) {
    most[b] = AbsMaxBitsImpl(x + b * bucket, bucket);
    largest = std::max(largest, most[b]);
  }
  return largest;
}

void ColumnMagnitudesImpl(const float* x, std::size_t rows, std::size_t columns,
                          std::uint32_t* most) {
  for (std::size_t r = 0; r < rows; ++r) {
    const float* from = x + r * columns;
    for (std::size_t c = 0; c < columns; ++c) {
      most[c] = std::max(most[c], static_cast<std::uint32_t>(Magnitude(from[c])));
    }
  }
}

inline std::uint8_t Code(float x, float inverse, float bias, std::int32_t top) {
  const std::int32_t code = static_cast<std::int32_t>(x * inverse + bias);
  return static_cast<std::uint8_t>(std::max(std::min(code, top), std::int32_t{0}));
}

inline float Level(std::uint8_t code, float step, float offset) {
  return static_cast<float>(static_cast<std::int32_t>(code)) * step + offset;
}

void QuantiseBucketsImpl(const float* x, std::size_t buckets, std::size_t bucket, int top,
                         const float* inverse, const float* bias, const float* noise,
                         std::uint8_t* codes) {
  for (std::size_t b = 0; b < buckets; ++b) {
    const float by = inverse[b];
    const float plus = bias[b];
    const float* from = x + b * bucket;
    std::uint8_t* to = codes + b * bucket;
    if (noise == nullptr) {
      for (std::size_t i = 0; i < bucket; ++i) to[i] = Code(from[i], by, plus, top);
      continue;
    }
    const float* add = noise + b * bucket;
    for (std::size_t i = 0; i < bucket; ++i) to[i] = Code(from[i], by, plus + add[i], top);
  }
}

void QuantiseColumnsImpl(const float* x, std::size_t rows, std::size_t columns, int top,
                         const float* inverse, const float* bias, const float* noise,
                         std::uint8_t* codes) {
  for (std::size_t r = 0; r < rows; ++r) {
    const float* from = x + r * columns;
    std::uint8_t* to = codes + r * columns;
    if (noise == nullptr) {
      for (std::size_t c = 0; c < columns; ++c) to[c] = Code(from[c], inverse[c], bias[c], top);
      continue;
    }
    const float* add = noise + r * columns;
    for (std::size_t c = 0; c < columns; ++c) {
      to[c] = Code(from[c], inverse[c], bias[c] + add[c], top);
    }
  }
}

void DequantiseBucketsImpl(const std::uint8_t* codes, std::size_t buckets, std::size_t bucket,
                           const float* step, const float* offset, float* x) {
  for (std::size_t b = 0; b < buckets; ++b) {
    const float by = step[b];
    const float plus = offset[b];
    const std::uint8_t* from = codes + b * bucket;
    float* to = x + b * bucket;
    for (std::size_t i = 0; i < bucket; ++i) to[i] = Level(from[i], by, plus);
  }
}

void DequantiseColumnsImpl(const std::uint8_t* codes, std::size_t rows, std::size_t columns,
                           const float* step, const float* offset, float* x) {
  for (std::size_t r = 0; r < rows; ++r) {
    const std::uint8_t* from = codes + r * columns;
    float* to = x + r * columns;
    for (std::size_t c = 0; c < columns; ++c) to[c] = Level(from[c], step[c], offset[c]);
  }
}

// Eight codes, one per byte, to 8 * kBits adjacent bits: neighbours merge three times.
template <int kBits>
inline std::uint64_t Merge(std::uint64_t v) {
  v = (v & 0x00ff00ff00ff00ffU) | ((v & 0xff00ff00ff00ff00U) >> (8 - kBits));
  v = (v & 0x0000ffff0000ffffU) | ((v & 0xffff0000ffff0000U) >> (16 - 2 * kBits));
  return (v & 0x00000000ffffffffU) | ((v & 0xffffffff00000000U) >> (32 - 4 * kBits));
}

// The inverse of Merge; bits of `v` above 8 * kBits are ignored.
template <int kBits>
inline std::uint64_t Spread(std::uint64_t v) {
  constexpr std::uint64_t kOne = (1U << kBits) - 1;
  constexpr std::uint64_t kTwo = (std::uint64_t{1} << (2 * kBits)) - 1;
  constexpr std::uint64_t kFour = (std::uint64_t{1} << (4 * kBits)) - 1;
  v = (v & kFour) | (((v >> (4 * kBits)) & kFour) << 32);
  v = (v & (kTwo * 0x0000000100000001U)) |
      ((v & ((kTwo << (2 * kBits)) * 0x0000000100000001U)) << (16 - 2 * kBits));
  return (v & (kOne * 0x0001000100010001U)) |
         ((v & ((kOne << kBits) * 0x0001000100010001U)) << (8 - kBits));
}

constexpr std::size_t kGroupsAtOnce = 64;
// Groups at the end of a run behind which 8 bytes would reach beyond it.
template <int kBits>
constexpr std::size_t kNarrow = (8 - 1) / kBits;

template <int kBits>
void Pack(const std::uint8_t* codes, std::size_t groups, std::byte* packed) {
  std::uint64_t merged[kGroupsAtOnce];
  while (groups > 0) {
    const std::size_t now = std::min(groups, kGroupsAtOnce);
    std::memcpy(merged, codes, now * 8);
    for (std::size_t g = 0; g < now; ++g) merged[g] = Merge<kBits>(merged[g]);
    // A store of 8 bytes is one instruction; the bytes too many are overwritten by the next groups.
    const std::size_t wide = now > kNarrow<kBits> ? now - kNarrow<kBits> : 0;
    for (std::size_t g = 0; g < wide; ++g) std::memcpy(packed + g * kBits, &merged[g], 8);
    for (std::size_t g = wide; g < now; ++g) std::memcpy(packed + g * kBits, &merged[g], kBits);
    codes += now * 8;
    packed += now * kBits;
    groups -= now;
  }
}

template <int kBits>
void Unpack(const std::byte* packed, std::size_t groups, std::uint8_t* codes) {
  std::uint64_t spread[kGroupsAtOnce];
  while (groups > 0) {
    const std::size_t now = std::min(groups, kGroupsAtOnce);
    const std::size_t wide = now > kNarrow<kBits> ? now - kNarrow<kBits> : 0;
    for (std::size_t g = 0; g < wide; ++g) std::memcpy(&spread[g], packed + g * kBits, 8);
    for (std::size_t g = wide; g < now; ++g) {
      spread[g] = 0;
      std::memcpy(&spread[g], packed + g * kBits, kBits);
    }
    for (std::size_t g = 0; g < now; ++g) spread[g] = Spread<kBits>(spread[g]);
    std::memcpy(codes, spread, now * 8);
    codes += now * 8;
    packed += now * kBits;
    groups -= now;
  }
}

void PackCodesImpl(const std::uint8_t* codes, std::size_t groups, int bits, std::byte* packed) {
  switch (bits) {
    case 1: return Pack<1>(codes, groups, packed);
    case 2: return Pack<2>(codes, groups, packed);
    case 3: return Pack<3>(codes, groups, packed);
    case 4: return Pack<4>(codes, groups, packed);
    case 5: return Pack<5>(codes, groups, packed);
    case 6: return Pack<6>(codes, groups, packed);
    case 7: return Pack<7>(codes, groups, packed);
    case 8: std::memcpy(packed, codes, groups * 8); return;
    default: SHOAL_CHECK(false);
  }
}

void UnpackCodesImpl(const std::byte* packed, std::size_t groups, int bits, std::uint8_t* codes) {
  switch (bits) {
    case 1: return Unpack<1>(packed, groups, codes);
    case 2: return Unpack<2>(packed, groups, codes);
    case 3: return Unpack<3>(packed, groups, codes);
    case 4: return Unpack<4>(packed, groups, codes);
    case 5: return Unpack<5>(packed, groups, codes);
    case 6: return Unpack<6>(packed, groups, codes);
    case 7: return Unpack<7>(packed, groups, codes);
    case 8: std::memcpy(codes, packed, groups * 8); return;
    default: SHOAL_CHECK(false);
  }
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define SHOAL_HAS_F16C 1
#else
#define SHOAL_HAS_F16C 0
#endif

#if SHOAL_HAS_F16C
// The conversion instructions round as FloatToHalf and HalfToFloat do, NaNs aside.
using Floats = hn::ScalableTag<float>;
using Halves = hn::Rebind<hwy::float16_t, Floats>;
using Integers = hn::RebindToSigned<Floats>;

inline hn::Vec<Floats> LoadHalves(const std::byte* from) {
  const auto halves = hn::LoadU(Halves(), reinterpret_cast<const hwy::float16_t*>(from));
  return hn::PromoteTo(Floats(), halves);
}

inline void StoreHalves(hn::Vec<Floats> values, std::byte* to) {
  hn::StoreU(hn::DemoteTo(Halves(), values), Halves(), reinterpret_cast<hwy::float16_t*>(to));
}

inline hn::Vec<Integers> LargerMagnitude(hn::Vec<Integers> most, hn::Vec<Floats> values) {
  return hn::Max(most, hn::BitCast(Integers(), hn::Abs(values)));
}
#endif

std::uint32_t SubtractHalfImpl(const float* x, const std::byte* m, float factor, std::size_t n,
                               float* delta) {
  std::int32_t most = 0;
  std::size_t i = 0;
#if SHOAL_HAS_F16C
  const Floats d;
  const auto factors = hn::Set(d, factor);
  auto mosts = hn::Zero(Integers());
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto values = hn::LoadU(d, x + i);
    mosts = LargerMagnitude(mosts, values);
    hn::StoreU(hn::Sub(values, hn::Mul(LoadHalves(m + 2 * i), factors)), d, delta + i);
  }
  most = hn::GetLane(hn::MaxOfLanes(Integers(), mosts));
#endif
  for (; i < n; ++i) {
    most = std::max(most, Magnitude(x[i]));
    delta[i] = x[i] - HalfToFloat(LoadLittle<std::uint16_t>(m + 2 * i)) * factor;
  }
  return static_cast<std::uint32_t>(most);
}

std::uint32_t AddToHalfImpl(const float* delta, const std::byte* m, float factor, float next_factor,
                            std::size_t n, std::byte* next) {
  std::int32_t most = 0;
  std::size_t i = 0;
#if SHOAL_HAS_F16C
  const Floats d;
  const auto factors = hn::Set(d, factor);
  const auto next_factors = hn::Set(d, next_factor);
  auto mosts = hn::Zero(Integers());
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto base = hn::Mul(LoadHalves(m + 2 * i), factors);
    const auto sum = hn::Add(base, hn::LoadU(d, delta + i));
    mosts = LargerMagnitude(mosts, sum);
    StoreHalves(hn::Mul(sum, next_factors), next + 2 * i);
  }
  most = hn::GetLane(hn::MaxOfLanes(Integers(), mosts));
#endif
  for (; i < n; ++i) {
    const float base = HalfToFloat(LoadLittle<std::uint16_t>(m + 2 * i)) * factor;
    const float sum = base + delta[i];
    most = std::max(most, Magnitude(sum));
    StoreLittle(next + 2 * i, FloatToHalf(sum * next_factor));
  }
  return static_cast<std::uint32_t>(most);
}

void ToHalfImpl(const float* x, float factor, std::size_t n, std::byte* half) {
  std::size_t i = 0;
#if SHOAL_HAS_F16C
  const Floats d;
  const auto factors = hn::Set(d, factor);
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    StoreHalves(hn::Mul(hn::LoadU(d, x + i), factors), half + 2 * i);
  }
#endif
  for (; i < n; ++i) StoreLittle(half + 2 * i, FloatToHalf(x[i] * factor));
}

void FromHalfImpl(const std::byte* half, float factor, std::size_t n, float* x) {
  std::size_t i = 0;
#if SHOAL_HAS_F16C
  const Floats d;
  const auto factors = hn::Set(d, factor);
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(LoadHalves(half + 2 * i), factors), d, x + i);
  }
#endif
  for (; i < n; ++i) x[i] = HalfToFloat(LoadLittle<std::uint16_t>(half + 2 * i)) * factor;
}
#undef SHOAL_HAS_F16C

void ToBf16Impl(const float* x, std::size_t n, std::byte* half) {
  for (std::size_t i = 0; i < n; ++i) StoreLittle(half + 2 * i, FloatToBf16(x[i]));
}

void FromBf16Impl(const std::byte* half, std::size_t n, float* x) {
  for (std::size_t i = 0; i < n; ++i) x[i] = Bf16ToFloat(LoadLittle<std::uint16_t>(half + 2 * i));
}

// Of x, or where `kDifference` of x - y: eight sums, so that none waits for another.
template <bool kDifference>
double SquaresOf(const float* x, const float* y, std::size_t n) {
  double sums[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (std::size_t j = 0; j < 8; ++j) {
      const double v = kDifference ? double{x[i + j]} - double{y[i + j]} : double{x[i + j]};
      sums[j] += v * v;
    }
  }
  for (; i < n; ++i) {
    const double v = kDifference ? double{x[i]} - double{y[i]} : double{x[i]};
    sums[0] += v * v;
  }
  double sum = 0;
  for (const double one : sums) sum += one;
  return sum;
}

// As 16-bit words: SIMD has no shifts of bytes.
void JoinBytesImpl(const std::uint8_t* HWY_RESTRICT in, std::size_t n, int shift,
                   std::uint8_t* HWY_RESTRICT out) {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t both;
    std::memcpy(&both, in + 2 * i, sizeof(both));
    out[i] = static_cast<std::uint8_t>(both | both >> (8 - shift));
  }
}

std::uint8_t SplitBytesImpl(const std::uint8_t* HWY_RESTRICT in, std::size_t n, int shift,
                            std::uint8_t* HWY_RESTRICT out) {
  const auto mask = static_cast<std::uint16_t>((1U << shift) - 1);
  std::uint8_t all = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint16_t byte = in[i];
    const auto both = static_cast<std::uint16_t>((byte & mask) | (byte >> shift) << 8);
    std::memcpy(out + 2 * i, &both, sizeof(both));
    all |= in[i];
  }
  return all;
}

// Sum j has the values j, j + 16, j + 32, ... at every level of SIMD.
constexpr std::size_t kSums = 16;

// The squares of whole rounds of kSums values; returns how many these are.
std::size_t SquareRounds(const float* x, std::size_t n, float* sums) {
#if HWY_TARGET == HWY_SCALAR
  (void)x, (void)n, (void)sums;
  return 0;
#else
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  const hn::FixedTag<float, 8> d;
#else
  const hn::FixedTag<float, 4> d;
#endif
  constexpr std::size_t kWidth = hn::MaxLanes(d);
  const std::size_t whole = n / kSums * kSums;
  for (std::size_t part = 0; part < kSums; part += 2 * kWidth) {
    auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
    for (std::size_t i = part; i < whole; i += kSums) {
      const auto v0 = hn::LoadU(d, x + i), v1 = hn::LoadU(d, x + i + kWidth);
      sum0 = hn::Add(sum0, hn::Mul(v0, v0));
      sum1 = hn::Add(sum1, hn::Mul(v1, v1));
    }
    hn::StoreU(sum0, d, sums + part);
    hn::StoreU(sum1, d, sums + part + kWidth);
  }
  return whole;
#endif
}

float FloatSquaresImpl(const float* x, std::size_t n) {
  float sums[kSums] = {};
  for (std::size_t i = SquareRounds(x, n, sums); i < n; ++i) sums[i % kSums] += x[i] * x[i];
  float sum = 0;
  for (const float one : sums) sum += one;
  return sum;
}

double SquaresImpl(const float* x, std::size_t n) { return SquaresOf<false>(x, nullptr, n); }

double SquaredDifferencesImpl(const float* x, const float* y, std::size_t n) {
  return SquaresOf<true>(x, y, n);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::compression
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoal::compression {

HWY_EXPORT(AbsMaxBitsImpl);
HWY_EXPORT(AbsMaxBits16Impl);
HWY_EXPORT(BucketMagnitudesImpl);
HWY_EXPORT(ColumnMagnitudesImpl);
HWY_EXPORT(QuantiseBucketsImpl);
HWY_EXPORT(QuantiseColumnsImpl);
HWY_EXPORT(DequantiseBucketsImpl);
HWY_EXPORT(DequantiseColumnsImpl);
HWY_EXPORT(PackCodesImpl);
HWY_EXPORT(UnpackCodesImpl);
HWY_EXPORT(SubtractHalfImpl);
HWY_EXPORT(AddToHalfImpl);
HWY_EXPORT(SquaresImpl);
HWY_EXPORT(SquaredDifferencesImpl);
HWY_EXPORT(FloatSquaresImpl);
HWY_EXPORT(JoinBytesImpl);
HWY_EXPORT(SplitBytesImpl);
HWY_EXPORT(ToHalfImpl);
HWY_EXPORT(FromHalfImpl);
HWY_EXPORT(ToBf16Impl);
HWY_EXPORT(FromBf16Impl);

std::uint32_t AbsMaxBits(const float* x, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(AbsMaxBitsImpl)(x, n);
}
std::uint16_t AbsMaxBits16(const std::byte* x, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(AbsMaxBits16Impl)(x, n);
}
std::uint32_t BucketMagnitudes(const float* x, std::size_t buckets, std::size_t bucket,
                               std::uint32_t* most) {
  return HWY_DYNAMIC_DISPATCH(BucketMagnitudesImpl)(x, buckets, bucket, most);
}
void ColumnMagnitudes(const float* x, std::size_t rows, std::size_t columns, std::uint32_t* most) {
  HWY_DYNAMIC_DISPATCH(ColumnMagnitudesImpl)(x, rows, columns, most);
}
void QuantiseBuckets(const float* x, std::size_t buckets, std::size_t bucket, int top,
                     const float* inverse, const float* bias, const float* noise,
                     std::uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(QuantiseBucketsImpl)(x, buckets, bucket, top, inverse, bias, noise, codes);
}
void QuantiseColumns(const float* x, std::size_t rows, std::size_t columns, int top,
                     const float* inverse, const float* bias, const float* noise,
                     std::uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(QuantiseColumnsImpl)(x, rows, columns, top, inverse, bias, noise, codes);
}
void DequantiseBuckets(const std::uint8_t* codes, std::size_t buckets, std::size_t bucket,
                       const float* step, const float* offset, float* x) {
  HWY_DYNAMIC_DISPATCH(DequantiseBucketsImpl)(codes, buckets, bucket, step, offset, x);
}
void DequantiseColumns(const std::uint8_t* codes, std::size_t rows, std::size_t columns,
                       const float* step, const float* offset, float* x) {
  HWY_DYNAMIC_DISPATCH(DequantiseColumnsImpl)(codes, rows, columns, step, offset, x);
}
void PackCodes(const std::uint8_t* codes, std::size_t groups, int bits, std::byte* packed) {
  HWY_DYNAMIC_DISPATCH(PackCodesImpl)(codes, groups, bits, packed);
}
void UnpackCodes(const std::byte* packed, std::size_t groups, int bits, std::uint8_t* codes) {
  HWY_DYNAMIC_DISPATCH(UnpackCodesImpl)(packed, groups, bits, codes);
}
std::uint32_t SubtractHalf(const float* x, const std::byte* m, float factor, std::size_t n,
                           float* delta) {
  return HWY_DYNAMIC_DISPATCH(SubtractHalfImpl)(x, m, factor, n, delta);
}
std::uint32_t AddToHalf(const float* delta, const std::byte* m, float factor, float next_factor,
                        std::size_t n, std::byte* next) {
  return HWY_DYNAMIC_DISPATCH(AddToHalfImpl)(delta, m, factor, next_factor, n, next);
}
double Squares(const float* x, std::size_t n) { return HWY_DYNAMIC_DISPATCH(SquaresImpl)(x, n); }

double SquaredDifferences(const float* x, const float* y, std::size_t n) {
  return HWY_DYNAMIC_DISPATCH(SquaredDifferencesImpl)(x, y, n);
}

void JoinBytes(const std::uint8_t* in, std::size_t n, int shift, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(JoinBytesImpl)(in, n, shift, out);
}

std::uint8_t SplitBytes(const std::uint8_t* in, std::size_t n, int shift, std::uint8_t* out) {
  return HWY_DYNAMIC_DISPATCH(SplitBytesImpl)(in, n, shift, out);
}

double RoughSquares(const float* x, std::size_t n) {
  const float sum = HWY_DYNAMIC_DISPATCH(FloatSquaresImpl)(x, n);
  const bool in_range = sum >= 0x1p-80F && sum <= 0x1p120F;
  return in_range ? double{sum} : Squares(x, n);
}

void ToHalf(const float* x, float factor, std::size_t n, std::byte* half) {
  HWY_DYNAMIC_DISPATCH(ToHalfImpl)(x, factor, n, half);
}
void FromHalf(const std::byte* half, float factor, std::size_t n, float* x) {
  HWY_DYNAMIC_DISPATCH(FromHalfImpl)(half, factor, n, x);
}
void ToBf16(const float* x, std::size_t n, std::byte* half) {
  HWY_DYNAMIC_DISPATCH(ToBf16Impl)(x, n, half);
}
void FromBf16(const std::byte* half, std::size_t n, float* x) {
  HWY_DYNAMIC_DISPATCH(FromBf16Impl)(half, n, x);
}

}  // namespace shoal::compression
#endif  // HWY_ONCE
