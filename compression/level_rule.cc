#include "compression/level_rule.h"

#include <algorithm>
#include <bit>

#include "common/bytes.h"
#include "compression/half.h"
#include "compression/kernels.h"

namespace shoal::compression {
namespace {

constexpr std::uint16_t kBf16Sign = 0x8000;

// The nearest bf16 not nearer to zero than `value` (`outward`), or not farther; magnitudes below
// 2^-100 become 2^-100 or 0.
std::uint16_t RoundedBf16(float value, bool outward) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & kBf16Sign);
  const std::uint32_t magnitude = bits & kAbsMask;
  if (magnitude == 0) return 0;
  if (magnitude < (std::uint32_t{kScaleBitsMin} << 16)) {
    return outward ? static_cast<std::uint16_t>(sign | kScaleBitsMin) : std::uint16_t{0};
  }
  return static_cast<std::uint16_t>(sign | ((magnitude + (outward ? 0xffff : 0)) >> 16));
}

bool AllowedMagnitude(std::uint16_t scale) {
  return scale == 0 || (scale >= kScaleBitsMin && scale <= kScaleBitsMax);
}

// An affine bound may be negative; -0 is never written.
bool AllowedBound(std::uint16_t bound) {
  const auto magnitude = static_cast<std::uint16_t>(bound & ~kBf16Sign);
  return bound != kBf16Sign && AllowedMagnitude(magnitude);
}

}  // namespace

void LevelRule::Choose(const float* x, std::size_t n, std::size_t stride, std::uint32_t most,
                       std::byte* scale) const {
  if (levels_ == Levels::kAffine) {
    float low = x[0];
    float high = x[0];
    for (std::size_t i = 1; i < n; ++i) {
      low = std::min(low, x[i * stride]);
      high = std::max(high, x[i * stride]);
    }
    StoreLittle(scale, RoundedBf16(low, low < 0));
    StoreLittle(scale + 2, RoundedBf16(high, high > 0));
    return;
  }
  std::uint16_t bits = 0;
  if (most >= (std::uint32_t{kScaleBitsMin} << 16)) {
    bits = FloatToBf16Up(std::bit_cast<float>(most));
    if (scale_ == ScaleRule::kOptimal) bits = OptimalScale(x, n, stride, bits);
  }
  StoreLittle(scale, bits);
}

// Tries scales from the largest down to three eighths of it. Sequential sums: every machine
// chooses the same.
std::uint16_t LevelRule::OptimalScale(const float* x, std::size_t n, std::size_t stride,
                                      std::uint16_t largest) const {
  constexpr int kTries = 20;
  std::uint16_t best = largest;
  float least = 0;
  const float unit = 1.0F / Bf16ToFloat(largest);
  for (int t = 0; t < kTries; ++t) {
    const float factor = static_cast<float>(32 - t) / 32.0F;
    const std::uint16_t bits = FloatToBf16(Bf16ToFloat(largest) * factor);
    if (bits < kScaleBitsMin) break;
    float inverse, bias, step, offset;
    SymmetricEncoder(Bf16ToFloat(bits), &inverse, &bias);
    SymmetricDecoder(Bf16ToFloat(bits), &step, &offset);
    if (rounding_ == Rounding::kStochastic) bias += 0.5F;
    float error = 0;  // in units of the largest scale, so that no square leaves fp32
    for (std::size_t i = 0; i < n; ++i) {
      const int code = std::clamp(static_cast<int>(x[i * stride] * inverse + bias), 0, top());
      const float missed = (x[i * stride] - (static_cast<float>(code) * step + offset)) * unit;
      error += missed * missed;
    }
    if (t == 0 || error < least) {
      least = error;
      best = bits;
    }
  }
  return best;
}

void LevelRule::SymmetricEncoder(float scale, float* inverse, float* bias) const {
  const float nearest = rounding_ == Rounding::kNearest ? 0.5F : 0.0F;
  if (levels_ == Levels::kMidRise) {
    const float half = PowerOfTwo(bits_ - 1);
    *inverse = scale == 0 ? 0.0F : half / scale;
    *bias = half - 0.5F + nearest;
  } else {
    const auto middle = static_cast<float>(center());
    *inverse = scale == 0 ? 0.0F : middle / scale;
    *bias = middle + nearest;
  }
}

void LevelRule::SymmetricDecoder(float scale, float* step, float* offset) const {
  if (levels_ == Levels::kMidRise) {
    *step = scale * PowerOfTwo(1 - bits_);
    *offset = *step * 0.5F - scale;
  } else {
    const auto middle = static_cast<float>(center());
    *step = scale / middle;
    *offset = -(middle * *step);  // so that the middle code is exactly 0
  }
}

void LevelRule::EncoderConstants(const std::byte* scale, float* inverse, float* bias) const {
  const float first = Bf16ToFloat(LoadLittle<std::uint16_t>(scale));
  if (levels_ != Levels::kAffine) return SymmetricEncoder(first, inverse, bias);
  const float width = Bf16ToFloat(LoadLittle<std::uint16_t>(scale + 2)) - first;
  *inverse = width == 0 ? 0.0F : static_cast<float>(top()) / width;
  *bias = (rounding_ == Rounding::kNearest ? 0.5F : 0.0F) - first * *inverse;
}

void LevelRule::DecoderConstants(const std::byte* scale, float* step, float* offset) const {
  const float first = Bf16ToFloat(LoadLittle<std::uint16_t>(scale));
  if (levels_ != Levels::kAffine) return SymmetricDecoder(first, step, offset);
  *step = (Bf16ToFloat(LoadLittle<std::uint16_t>(scale + 2)) - first) / static_cast<float>(top());
  *offset = first;
}

bool LevelRule::Allowed(const std::byte* scale) const {
  const auto first = LoadLittle<std::uint16_t>(scale);
  if (levels_ != Levels::kAffine) return AllowedMagnitude(first);
  const auto second = LoadLittle<std::uint16_t>(scale + 2);
  return AllowedBound(first) && AllowedBound(second) && Bf16ToFloat(first) <= Bf16ToFloat(second);
}

}  // namespace shoal::compression
