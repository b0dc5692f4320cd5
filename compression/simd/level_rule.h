// LevelRule: how b-bit codes stand for values, given the scale of their bucket (or channel).
//
// kMidRise   scale * (2k + 1 - 2^b) / 2^b, k = 0 .. 2^b - 1: no zero, symmetric.
// kMidTread  scale * (k - c) / c, k = 0 .. 2c, c = 2^(b-1) - 1 (b >= 2): zero and both extremes.
// kAffine    low + k * (high - low) / (2^b - 1): the bucket's own range, two scales.
//
// Scales are bf16, rounded so that no value leaves the range (fp16 underflows on gradients). With
// ScaleRule::kOptimal the scale is one that makes the bucket's squared error small, and values
// beyond it clip. With ScaleRule::kStep levels are a multiple of the bucket's rms apart, for codes
// that an entropy coder takes: bits say how far they go, not how fine they are. A bucket whose
// absmax is below the least scale, 2^-100 unless said otherwise, has scale 0 and decodes to zeros;
// a bound of an affine bucket below it becomes it or 0. Rounding::kStochastic adds noise in [0, 1)
// before it rounds down: unbiased wherever the value lies between two levels. The arithmetic is
// here, constexpr, so that GPU code compiles the same lines. Internal to compression/. Pure.
// Thread: any.

#ifndef SHOAL_COMPRESSION_SIMD_LEVEL_RULE_H_
#define SHOAL_COMPRESSION_SIMD_LEVEL_RULE_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/half.h"
#include "compression/simd/kernels.h"

namespace shoal::compression {

enum class Levels : std::uint8_t { kMidRise = 0, kMidTread = 1, kAffine = 2 };
enum class ScaleRule : std::uint8_t { kAbsMax, kOptimal, kStep };
enum class Rounding : std::uint8_t { kNearest, kStochastic };

// Encoder: code = trunc(x * factor + offset). Decoder: level = code * factor + offset.
struct LevelConstants {
  float factor = 0;
  float offset = 0;
};

// The scale of a bucket as bf16 bits; `high` belongs to kAffine.
struct ScaleBits {
  std::uint16_t first = 0;
  std::uint16_t high = 0;
};

class LevelRule {
 public:
  constexpr LevelRule(int bits, Levels levels, ScaleRule scale, Rounding rounding)
      : bits_(bits), levels_(levels), scale_(scale), rounding_(rounding) {}
  // The same with another least scale (bf16 bits).
  constexpr LevelRule WithLeastScale(std::uint16_t least) const {
    LevelRule rule = *this;
    rule.least_scale_ = least;
    return rule;
  }

  // The same with another number of bits.
  constexpr LevelRule WithBits(int bits) const {
    LevelRule rule = *this;
    rule.bits_ = bits;
    return rule;
  }

  // kMidTread with levels `step` times the bucket's rms apart.
  static constexpr LevelRule OfStep(int bits, float step) {
    LevelRule rule(bits, Levels::kMidTread, ScaleRule::kStep, Rounding::kNearest);
    rule.step_ = step;
    return rule;
  }

  constexpr int bits() const { return bits_; }
  // Of ScaleRule::kStep, in units of the rms.
  constexpr float step() const { return step_; }
  constexpr Levels levels() const { return levels_; }
  constexpr ScaleRule scale() const { return scale_; }
  constexpr Rounding rounding() const { return rounding_; }
  constexpr std::uint16_t least_scale() const { return least_scale_; }
  // The largest code.
  constexpr int top() const { return (1 << bits_) - (levels_ == Levels::kMidTread ? 2 : 1); }
  constexpr std::size_t scale_bytes() const { return levels_ == Levels::kAffine ? 4 : 2; }

  // Writes the scale of n values whose largest magnitude has the bits `most`: x[0], x[stride], ...
  void Choose(const float* x, std::size_t n, std::size_t stride, std::uint32_t most,
              std::byte* scale) const;
  // The same, affine only, of values from `low` to `high`.
  void ChooseBounds(float low, float high, std::byte* scale) const;
  // What QuantiseBuckets and DequantiseBuckets (kernels.h) take.
  void EncoderConstants(const std::byte* scale, float* inverse, float* bias) const;
  void DecoderConstants(const std::byte* scale, float* step, float* offset) const;
  // Whether foreign bytes are a scale that Choose can have written.
  bool Allowed(const std::byte* scale) const;

  // The scales that Choose finds: kAffine from the extremes of the values, else absmax.
  static constexpr ScaleBits AffineScale(float low, float high,
                                         std::uint16_t least = kScaleBitsMin) {
    return {BoundBits(low, low < 0, least), BoundBits(high, high > 0, least)};
  }
  static constexpr std::uint16_t AbsMaxScale(std::uint32_t most,
                                             std::uint16_t least = kScaleBitsMin) {
    if (most < std::uint32_t{least} << 16) return 0;
    return FloatToBf16Up(std::bit_cast<float>(most));
  }
  // ScaleRule::kStep, from the largest magnitude's bits and the mean square. Levels reach as far as
  // the step says, and at least to half of the largest value: a bucket in which a single value
  // changed loses at most half of that.
  std::uint16_t StepScale(std::uint32_t most, double mean_square) const;
  // ScaleRule::kOptimal takes the first of these with the least SquaredError, among those that
  // are at least the least scale.
  static constexpr int kScaleTries = 20;
  static constexpr std::uint16_t TriedScale(std::uint16_t largest, int t) {
    return FloatToBf16(Bf16ToFloat(largest) * (static_cast<float>(32 - t) / 32.0F));
  }
  // Of the values at(0) ... at(n - 1), added up in this order, in units of `largest`, so that no
  // square leaves fp32.
  template <typename At>
  constexpr float SquaredError(const At& at, std::size_t n, std::uint16_t largest,
                               std::uint16_t scale) const {
    const float unit = ErrorUnit(largest);
    const LevelConstants encoder = ErrorEncoder({scale, 0});
    const LevelConstants decoder = Decoder({scale, 0});
    float error = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const float x = at(i);
      const int code = Clamped(static_cast<int>(x * encoder.factor + encoder.offset));
      error += MissedSquare(x, code, decoder, unit);
    }
    return error;
  }
  // Its parts, for those who have the values in pieces.
  static constexpr float ErrorUnit(std::uint16_t largest) { return 1.0F / Bf16ToFloat(largest); }
  constexpr LevelConstants ErrorEncoder(ScaleBits scale) const {
    LevelConstants encoder = Encoder(scale);
    if (rounding_ == Rounding::kStochastic) encoder.offset += 0.5F;
    return encoder;
  }
  constexpr float MissedSquare(float x, int code, LevelConstants decoder, float unit) const {
    const float missed = (x - (static_cast<float>(code) * decoder.factor + decoder.offset)) * unit;
    return missed * missed;
  }

  constexpr int Clamped(int code) const { return std::max(std::min(code, top()), 0); }
  constexpr LevelConstants Encoder(ScaleBits scale) const {
    const float nearest = rounding_ == Rounding::kNearest ? 0.5F : 0.0F;
    const float first = Bf16ToFloat(scale.first);
    if (levels_ == Levels::kAffine) {
      const float width = Bf16ToFloat(scale.high) - first;
      const float factor = width == 0 ? 0.0F : static_cast<float>(top()) / width;
      return {factor, nearest - first * factor};
    }
    const bool rise = levels_ == Levels::kMidRise;
    const float middle = rise ? PowerOfTwo(bits_ - 1) : static_cast<float>(center());
    return {first == 0 ? 0.0F : middle / first, (rise ? middle - 0.5F : middle) + nearest};
  }
  constexpr LevelConstants Decoder(ScaleBits scale) const {
    const float first = Bf16ToFloat(scale.first);
    if (levels_ == Levels::kAffine) {
      return {(Bf16ToFloat(scale.high) - first) / static_cast<float>(top()), first};
    }
    if (levels_ == Levels::kMidRise) {
      const float step = first * PowerOfTwo(1 - bits_);
      return {step, step * 0.5F - first};
    }
    const auto middle = static_cast<float>(center());
    const float step = first / middle;
    return {step, -(middle * step)};  // so that the middle code is exactly 0
  }

 private:
  static constexpr std::uint16_t kSign = 0x8000;

  // The nearest bf16 not nearer to zero than `value` (`outward`), or not farther; magnitudes below
  // `least` become `least` or 0.
  static constexpr std::uint16_t BoundBits(float value, bool outward, std::uint16_t least) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & kSign);
    const std::uint32_t magnitude = bits & kAbsMask;
    if (magnitude == 0) return 0;
    if (magnitude < std::uint32_t{least} << 16) {
      return outward ? static_cast<std::uint16_t>(sign | least) : std::uint16_t{0};
    }
    return static_cast<std::uint16_t>(sign | ((magnitude + (outward ? 0xffff : 0)) >> 16));
  }
  constexpr int center() const { return (1 << (bits_ - 1)) - 1; }
  std::uint16_t OptimalScale(const float* x, std::size_t n, std::size_t stride,
                             std::uint16_t largest) const;

  int bits_;
  Levels levels_;
  ScaleRule scale_;
  Rounding rounding_;
  std::uint16_t least_scale_ = kScaleBitsMin;
  float step_ = 0;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_SIMD_LEVEL_RULE_H_
