// Channel scales: a power of two per channel (hidden position), so that a few channels that are
// much larger than the others do not decide how finely those are coded.
//
// Pretrained transformers have residual channels of 20 to 100 times the median in all tokens. A
// step that all channels of a token share is too coarse for the others there. Each channel's rms is
// taken over tokens of equal weight, so that a single large token decides nothing. Powers of two
// make scaling exact. Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_SCALED_CHANNEL_SCALES_H_
#define SHOAL_COMPRESSION_CODECS_SCALED_CHANNEL_SCALES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compression/api/codec.h"
#include "compression/entropy/bit_stream.h"

namespace shoal::compression {

// One per channel, -kChannelExponentMost to kChannelExponentMost; or none where all are 0.
using ChannelExponents = std::vector<std::int8_t>;

inline constexpr int kChannelExponentMost = 15;

// The exponents of a message: the nearest power of two of each channel's rms, tokens weighted by
// 1 / energy. Takes every stride()-th token of a message of `tokens` from stride() / 2 on, in
// order.
class ChannelFit {
 public:
  ChannelFit(std::size_t tokens, std::uint32_t hidden);
  std::size_t stride() const { return stride_; }
  void Add(const float* token);
  // None if the tokens are too few to judge by or all channels are alike.
  ChannelExponents Exponents() const { return ExponentsOf(squares_, looked_); }

  // The same by whoever adds up squares elsewhere: by which factor a token of this energy (sum of
  // squares) counts, 0 where it does not; and the exponents of the sums (AddScaledSquares) of
  // `looked` such tokens.
  static float FactorOf(double energy, std::size_t hidden);
  static ChannelExponents ExponentsOf(std::span<const float> squares, std::size_t looked);

 private:
  const std::size_t stride_;
  std::vector<float> squares_;
  std::size_t looked_ = 0;
};

// Of whole samples.
ChannelExponents FitChannelExponents(std::span<const std::span<const float>> samples,
                                     SampleShape shape);

void WriteChannelExponents(const ChannelExponents& exponents, BitWriter* writer);
// False if the bits do not give exponents of `hidden` channels.
[[nodiscard]] bool ReadChannelExponents(BitReader* reader, std::size_t hidden,
                                        ChannelExponents* exponents);

// 2^exponent of each channel, or its inverse.
std::vector<float> ChannelFactors(const ChannelExponents& exponents, bool inverse);

// Scales runs of values that begin anywhere in a token. Without exponents it changes nothing.
class ChannelScaler {
 public:
  // Runs of up to `longest` values.
  ChannelScaler(const ChannelExponents& exponents, std::size_t longest);
  // Multiplies (Up) or divides (Down) `count` values, the first of which is value `first` of its
  // sample, by their channels' powers of two.
  void Down(std::size_t first, std::size_t count, float* x) const;
  void Up(std::size_t first, std::size_t count, float* x) const;

 private:
  const std::size_t hidden_;
  std::vector<float> down_, up_;  // of a token, repeated so that each run is within
};

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_SCALED_CHANNEL_SCALES_H_
