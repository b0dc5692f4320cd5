// DitheredCodec: entropy-coded dithered quantisation. A message has one uniform step. Both ends
// draw the same dither, which is not sent. The entropy coder spends the bits on the few tokens that
// hold the energy.
//
// Sources: Ziv, "On universal quantization" (1985); Zamir and Feder, "On universal quantization by
// randomized uniform/lattice quantizers" (1992). The error of each value is uniform within half a
// step, has mean zero and does not depend on the values: sums of decoded gradients are unbiased.
// State kept: none. Bytes on the wire: docs/WIRE.md, "dithered".
// Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_DITHERED_DITHERED_CODEC_H_
#define SHOAL_COMPRESSION_CODECS_DITHERED_DITHERED_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "compression/codecs/plain_codec.h"

namespace shoal::compression {

// What stays the same from message to message.
enum class DitherGoal : std::uint8_t {
  kStep,   // the step over the rms of the message's values
  kRate,   // bits per value, sides of the message included: met within a few percent
  kError,  // L2 error over the L2 norm
};

struct DitheredForm {
  // The step follows the rms of all tokens as they are: right for gradients, whose energy lies in
  // few tokens. If `typical`, a token counts up to TypicalEnergyMost.
  bool typical = false;
  bool dithered = true;    // else values are rounded to the nearest, which is faster and biased
  bool of_values = false;  // the step of changes follows the values that they lead to
};

inline constexpr double kDitherStepMin = 0x1p-4;
inline constexpr double kDitherStepMax = 16;
inline constexpr double kDitherRateMin = 0.1;
inline constexpr double kDitherRateMax = 6;
inline constexpr double kDitherErrorMin = 0.02;
inline constexpr double kDitherErrorMax = 4;

// The tokens' sums of squares, in order.
std::vector<double> TokenEnergies(std::span<const std::span<const float>> samples,
                                  SampleShape shape);

class DitheredCodec final : public PlainCodec {
 public:
  static constexpr CodecKind kKind{"dithered"};

  // `value` is within the limits above. Values of a token may have a root of their summed squares
  // of up to 2^118; a message whose step would be below 2^-100 decodes to zeros.
  DitheredCodec(DitherGoal goal, double value, DitheredForm form = {});

  const std::string& spec() const override { return spec_; }
  const CodecKind* kind() const override { return &kKind; }
  bool dithered() const { return form_.dithered; }
  // A step that follows the rms may follow that of fewer tokens; rate and error mean the message.
  bool divisible() const override { return goal_ == DitherGoal::kStep; }
  // By the entropy of dithered Gaussian values: 2.6 bits become 5.2. kDitherStepMin at least.
  std::shared_ptr<const PlainCodec> Wider() const override;
  std::size_t EncodedBytesMax(SampleShape shape, std::size_t samples) const override;
  Result<std::size_t> Encode(std::span<const std::span<const float>> samples, SampleShape shape,
                             const RandomKey& key, std::span<std::byte> out,
                             std::span<const std::span<float>> decoded) const override;
  Status Decode(std::span<const std::byte> payload, SampleShape shape, const RandomKey& key,
                std::span<const std::span<float>> samples) const override;

  // Wider, as what it is.
  std::shared_ptr<const DitheredCodec> Finer() const;
  // Encode with a step of the caller's: 0, or at least the largest root of the tokens' energies
  // over 2^22 - 3. `out` has room for any escapes (DitheredSectionBytesMax).
  Result<std::size_t> EncodeWithStep(std::span<const std::span<const float>> samples,
                                     SampleShape shape, std::span<const double> energies,
                                     float step, const RandomKey& key, std::span<std::byte> out,
                                     std::span<const std::span<float>> decoded) const;

  bool follows_values() const override { return form_.of_values; }
  Result<std::size_t> EncodeChanges(std::span<const std::span<const float>> changes,
                                    std::span<const std::span<const float>> values,
                                    SampleShape shape, const RandomKey& key,
                                    std::span<std::byte> out,
                                    std::span<const std::span<float>> decoded) const override;

  // What Encode and Decode do besides touching values. Energies are the tokens' sums of squares
  // (SumOfSquares) in order.

  // Where the section of dithered_section.h begins, behind the step.
  static constexpr std::size_t kSectionAt = 20;
  // Why the message cannot be sent.
  Status CheckEnergies(std::span<const double> energies, SampleShape shape) const;
  // Whether StepFor wants the rows of StepForRate (dither_steering.h).
  bool wants_rows() const { return goal_ == DitherGoal::kRate; }
  // 0: everything is too small to be told from zero.
  Result<float> StepFor(std::span<const double> energies, std::span<const float* const> rows,
                        std::uint32_t hidden, const RandomKey& key) const;
  // The step of changes whose error follows `values`, of these energies; their own where all values
  // are too small to be told from zero.
  Result<float> StepOfChanges(std::span<const double> changes, std::span<const double> values,
                              std::uint32_t hidden, const RandomKey& key) const;
  static std::vector<std::uint8_t> ClassesFor(std::span<const double> energies,
                                              std::uint32_t hidden, float step);
  // Writes header and step, kSectionAt bytes.
  void WriteStart(SampleShape shape, std::size_t samples, float step, std::byte* out) const;
  // The step of a foreign message; 0 only if nothing follows it.
  Result<float> ReadStart(std::span<const std::byte> payload, SampleShape shape,
                          std::size_t samples) const;

 private:
  double WantedStep(std::span<const double> energies, double rms,
                    std::span<const float* const> rows, std::uint32_t hidden,
                    const RandomKey& key) const;

  DitherGoal goal_;
  double value_;
  DitheredForm form_;
  std::string spec_;
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_DITHERED_DITHERED_CODEC_H_
