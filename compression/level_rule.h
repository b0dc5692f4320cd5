// LevelRule: how b-bit codes stand for values, given the scale of their bucket (or channel).
//
// kMidRise   scale * (2k + 1 - 2^b) / 2^b, k = 0 .. 2^b - 1: no zero, symmetric.
// kMidTread  scale * (k - c) / c, k = 0 .. 2c, c = 2^(b-1) - 1 (b >= 2): zero and both extremes.
// kAffine    low + k * (high - low) / (2^b - 1): the bucket's own range, two scales.
//
// Scales are bf16, rounded so that no value leaves the range (fp16 underflows on gradients). With
// ScaleRule::kOptimal the scale is one that makes the bucket's squared error small, and values
// beyond it clip. A bucket whose absmax is below 2^-100 has scale 0 and decodes to zeros.
// Rounding::kStochastic adds noise in [0, 1) before it rounds down: unbiased wherever the value
// lies between two levels. Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_LEVEL_RULE_H_
#define SHOAL_COMPRESSION_LEVEL_RULE_H_

#include <cstddef>
#include <cstdint>

namespace shoal::compression {

enum class Levels : std::uint8_t { kMidRise = 0, kMidTread = 1, kAffine = 2 };
enum class ScaleRule : std::uint8_t { kAbsMax, kOptimal };
enum class Rounding : std::uint8_t { kNearest, kStochastic };

class LevelRule {
 public:
  LevelRule(int bits, Levels levels, ScaleRule scale, Rounding rounding)
      : bits_(bits), levels_(levels), scale_(scale), rounding_(rounding) {}

  int bits() const { return bits_; }
  Levels levels() const { return levels_; }
  ScaleRule scale() const { return scale_; }
  Rounding rounding() const { return rounding_; }
  // The largest code.
  int top() const { return (1 << bits_) - (levels_ == Levels::kMidTread ? 2 : 1); }
  std::size_t scale_bytes() const { return levels_ == Levels::kAffine ? 4 : 2; }

  // Writes the scale of n values whose largest magnitude has the bits `most`: x[0], x[stride], ...
  void Choose(const float* x, std::size_t n, std::size_t stride, std::uint32_t most,
              std::byte* scale) const;
  // What QuantiseBuckets and DequantiseBuckets (kernels.h) take.
  void EncoderConstants(const std::byte* scale, float* inverse, float* bias) const;
  void DecoderConstants(const std::byte* scale, float* step, float* offset) const;
  // Whether foreign bytes are a scale that Choose can have written.
  bool Allowed(const std::byte* scale) const;

 private:
  int center() const { return (1 << (bits_ - 1)) - 1; }
  std::uint16_t OptimalScale(const float* x, std::size_t n, std::size_t stride,
                             std::uint16_t largest) const;
  void SymmetricEncoder(float scale, float* inverse, float* bias) const;
  void SymmetricDecoder(float scale, float* step, float* offset) const;

  int bits_;
  Levels levels_;
  ScaleRule scale_;
  Rounding rounding_;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_LEVEL_RULE_H_
