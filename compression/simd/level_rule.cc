#include "compression/simd/level_rule.h"

#include <cmath>

#include "common/bytes.h"
#include "common/status.h"

namespace shoal::compression {
namespace {

constexpr std::uint16_t kBf16Sign = 0x8000;

bool AllowedMagnitude(std::uint16_t scale, std::uint16_t least) {
  return scale == 0 || (scale >= least && scale <= kScaleBitsMax);
}

// An affine bound may be negative; -0 is never written.
bool AllowedBound(std::uint16_t bound, std::uint16_t least) {
  const auto magnitude = static_cast<std::uint16_t>(bound & ~kBf16Sign);
  return bound != kBf16Sign && AllowedMagnitude(magnitude, least);
}

ScaleBits Load(const std::byte* scale, bool affine) {
  return {LoadLittle<std::uint16_t>(scale),
          affine ? LoadLittle<std::uint16_t>(scale + 2) : std::uint16_t{0}};
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
    return ChooseBounds(low, high, scale);
  }
  if (scale_ == ScaleRule::kStep) {
    SHOAL_CHECK(stride == 1);
    return StoreLittle(scale, StepScale(most, RoughSquares(x, n) / static_cast<double>(n)));
  }
  std::uint16_t bits = AbsMaxScale(most, least_scale_);
  if (bits != 0 && scale_ == ScaleRule::kOptimal) bits = OptimalScale(x, n, stride, bits);
  StoreLittle(scale, bits);
}

std::uint16_t LevelRule::StepScale(std::uint32_t most, double mean_square) const {
  if (most < std::uint32_t{least_scale_} << 16) return 0;
  const double reach = double{step_} * center() * std::sqrt(mean_square);
  const double half = std::bit_cast<float>(most) / 2.0;
  const double scale = std::clamp(std::max(reach, half), double{Bf16ToFloat(least_scale_)},
                                  double{Bf16ToFloat(kScaleBitsMax)});
  return FloatToBf16(static_cast<float>(scale));
}

void LevelRule::ChooseBounds(float low, float high, std::byte* scale) const {
  const ScaleBits bits = AffineScale(low, high, least_scale_);
  StoreLittle(scale, bits.first);
  StoreLittle(scale + 2, bits.high);
}

// Tries scales from the largest down to three eighths of it. Sequential sums: every machine
// chooses the same.
std::uint16_t LevelRule::OptimalScale(const float* x, std::size_t n, std::size_t stride,
                                      std::uint16_t largest) const {
  std::uint16_t best = largest;
  float least = 0;
  for (int t = 0; t < kScaleTries; ++t) {
    const std::uint16_t bits = TriedScale(largest, t);
    if (bits < least_scale_) break;
    const float error =
        SquaredError([&](std::size_t i) { return x[i * stride]; }, n, largest, bits);
    if (t == 0 || error < least) {
      least = error;
      best = bits;
    }
  }
  return best;
}

void LevelRule::EncoderConstants(const std::byte* scale, float* inverse, float* bias) const {
  const LevelConstants constants = Encoder(Load(scale, levels_ == Levels::kAffine));
  *inverse = constants.factor;
  *bias = constants.offset;
}

void LevelRule::DecoderConstants(const std::byte* scale, float* step, float* offset) const {
  const LevelConstants constants = Decoder(Load(scale, levels_ == Levels::kAffine));
  *step = constants.factor;
  *offset = constants.offset;
}

bool LevelRule::Allowed(const std::byte* scale) const {
  const auto first = LoadLittle<std::uint16_t>(scale);
  if (levels_ != Levels::kAffine) return AllowedMagnitude(first, least_scale_);
  const auto second = LoadLittle<std::uint16_t>(scale + 2);
  return AllowedBound(first, least_scale_) && AllowedBound(second, least_scale_) &&
         Bf16ToFloat(first) <= Bf16ToFloat(second);
}

}  // namespace shoal::compression
