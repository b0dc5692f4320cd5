// Strides 1 and 2 lie inside groups of four lanes and are written with Highway; the others are
// plain loops of a constant length that the compiler vectorises.

#include "compression/simd/tile_kernels.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/simd/tile_kernels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace shoal::compression {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// One stage on n values in place.
template <std::size_t kStride>
void Stage(std::size_t n, float* y) {
  for (std::size_t i = 0; i < n; i += 2 * kStride) {
    float* first = y + i;
    float* second = y + i + kStride;
    for (std::size_t j = 0; j < kStride; ++j) {
      const float a = first[j];
      const float b = second[j];
      first[j] = a + b;
      second[j] = a - b;
    }
  }
}

// Strides 1 and 2 of n values, a multiple of 4.
void FirstStages(const float* x, std::size_t n, float factor, float* y) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  alignas(16) static constexpr float kOdd[4] = {0.0F, -0.0F, 0.0F, -0.0F};
  alignas(16) static constexpr float kUpper[4] = {0.0F, 0.0F, -0.0F, -0.0F};
  const auto odd = hn::LoadDup128(d, kOdd);
  const auto upper = hn::LoadDup128(d, kUpper);
  const auto factors = hn::Set(d, factor);
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    // b + -a is a - b to the bit.
    auto v = hn::Mul(hn::LoadU(d, x + i), factors);
    v = hn::Add(hn::Shuffle2301(v), hn::Xor(v, odd));
    v = hn::Add(hn::Shuffle1032(v), hn::Xor(v, upper));
    hn::StoreU(v, d, y + i);
  }
#endif
  for (; i < n; i += 4) {
    const float v[4] = {x[i] * factor, x[i + 1] * factor, x[i + 2] * factor, x[i + 3] * factor};
    const float s[4] = {v[0] + v[1], v[0] - v[1], v[2] + v[3], v[2] - v[3]};
    y[i] = s[0] + s[2];
    y[i + 1] = s[1] + s[3];
    y[i + 2] = s[0] - s[2];
    y[i + 3] = s[1] - s[3];
  }
}

template <std::size_t kTile>
void Rotate(const float* x, std::size_t n, float factor, float* y) {
  if constexpr (kTile < 4) {
    for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * factor;
    if constexpr (kTile == 2) Stage<1>(n, y);
  } else {
    for (std::size_t t = 0; t < n; t += kTile) {
      FirstStages(x + t, kTile, factor, y + t);
      if constexpr (kTile >= 8) Stage<4>(kTile, y + t);
      if constexpr (kTile >= 16) Stage<8>(kTile, y + t);
      if constexpr (kTile >= 32) Stage<16>(kTile, y + t);
      if constexpr (kTile >= 64) Stage<32>(kTile, y + t);
      if constexpr (kTile >= 128) Stage<64>(kTile, y + t);
    }
  }
}

void RotateTilesImpl(const float* x, std::size_t n, std::size_t tile, float factor, float* y) {
  switch (tile) {
    case 1: return Rotate<1>(x, n, factor, y);
    case 2: return Rotate<2>(x, n, factor, y);
    case 4: return Rotate<4>(x, n, factor, y);
    case 8: return Rotate<8>(x, n, factor, y);
    case 16: return Rotate<16>(x, n, factor, y);
    case 32: return Rotate<32>(x, n, factor, y);
    case 64: return Rotate<64>(x, n, factor, y);
    default: return Rotate<128>(x, n, factor, y);
  }
}

void BucketRangesImpl(const float* x, std::size_t buckets, std::size_t bucket, float* low,
                      float* high) {
  for (std::size_t b = 0; b < buckets; ++b) {
    const float* from = x + b * bucket;
    float least = from[0];
    float most = from[0];
    std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::ScalableTag<float> d;
    auto leasts = hn::Set(d, least);
    auto mosts = leasts;
    for (; i + hn::Lanes(d) <= bucket; i += hn::Lanes(d)) {
      const auto v = hn::LoadU(d, from + i);
      leasts = hn::Min(leasts, v);
      mosts = hn::Max(mosts, v);
    }
    least = hn::GetLane(hn::MinOfLanes(d, leasts));
    most = hn::GetLane(hn::MaxOfLanes(d, mosts));
#endif
    for (; i < bucket; ++i) {
      least = std::min(least, from[i]);
      most = std::max(most, from[i]);
    }
    low[b] = least;
    high[b] = most;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace shoal::compression
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoal::compression {

HWY_EXPORT(RotateTilesImpl);
HWY_EXPORT(BucketRangesImpl);

void RotateTiles(const float* x, std::size_t n, std::size_t tile, float factor, float* y) {
  HWY_DYNAMIC_DISPATCH(RotateTilesImpl)(x, n, tile, factor, y);
}
void BucketRanges(const float* x, std::size_t buckets, std::size_t bucket, float* low,
                  float* high) {
  HWY_DYNAMIC_DISPATCH(BucketRangesImpl)(x, buckets, bucket, low, high);
}

}  // namespace shoal::compression
#endif  // HWY_ONCE
