// DitheredCodec: entropy-coded dithered quantisation. One uniform step for a whole message, a
// dither that both ends draw and nobody sends, and an entropy coder that gives the bits to the few
// tokens that hold the energy.
//
// Sources: Ziv, "On universal quantization" (1985); Zamir and Feder, "On universal quantization by
// randomized uniform/lattice quantizers" (1992). The error of each value is uniform within half a
// step, has mean zero and does not depend on the values: sums of decoded gradients are unbiased.
// State kept: none. Bytes on the wire: docs/WIRE.md, "dithered".
// Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_DITHERED_CODEC_H_
#define SHOAL_COMPRESSION_DITHERED_CODEC_H_

#include <memory>
#include <string_view>

#include "common/status.h"
#include "compression/plain_codec.h"

namespace shoal::compression {

// What stays the same from message to message.
enum class DitherGoal : std::uint8_t {
  kStep,   // the step over the rms of the message's values
  kRate,   // bits per value, sides of the message included: met within a few percent
  kError,  // L2 error over the L2 norm
};

inline constexpr double kDitherStepMin = 0x1p-4;
inline constexpr double kDitherStepMax = 16;
inline constexpr double kDitherRateMin = 0.1;
inline constexpr double kDitherRateMax = 6;
inline constexpr double kDitherErrorMin = 0.02;
inline constexpr double kDitherErrorMax = 4;

// `value` is within the limits above. Values of a token may have a root of their summed squares of
// up to 2^118; a message whose step would be below 2^-100 decodes to zeros.
std::shared_ptr<const PlainCodec> NewDitheredCodec(DitherGoal goal, double value);

// The codec of one option, `key` being "step", "rate" or "error" and `text` a decimal number; an
// error says what is allowed.
Result<std::shared_ptr<const PlainCodec>> MakeDitheredCodec(std::string_view key,
                                                            std::string_view text);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DITHERED_CODEC_H_
