// Channels (hidden positions) whose values are larger or smaller than their tokens' are on the
// whole message long: they take the table of a louder or quieter class.
//
// An offset of 1 is one class, half an octave of rms. Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_DITHERED_DITHER_CHANNELS_H_
#define SHOAL_COMPRESSION_CODECS_DITHERED_DITHER_CHANNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compression/api/codec.h"
#include "compression/codecs/dithered/dither_tables.h"
#include "compression/entropy/bit_stream.h"

namespace shoal::compression {

// One offset per channel, or none at all where all are 0.
using ChannelOffsets = std::vector<std::int8_t>;

inline constexpr int kChannelOffsetMost = 3;

// A token that the offsets are chosen from, and 1 / rms of its values.
struct LookedToken {
  std::size_t token = 0;
  float scale = 0;
};
// Up to 511 tokens of a message, in order; none where they would be too few. `energies` are the
// tokens' sums of squares in order.
std::vector<LookedToken> TokensToLookAt(std::span<const double> energies, std::uint32_t hidden);

// The offsets of a message of `tokens` tokens; none if they would not pay. `squares` are a sum per
// channel: AddScaledSquares over the `looked` tokens in order, each with its scale.
ChannelOffsets FitChannels(std::span<const float> squares, std::size_t looked, std::size_t tokens);

void WriteChannels(const ChannelOffsets& offsets, BitWriter* writer);
// False if the bits do not give offsets of `hidden` channels.
[[nodiscard]] bool ReadChannels(BitReader* reader, std::size_t hidden, ChannelOffsets* offsets);

// The table that a token of class `energy_class` takes in a channel with this offset: a narrow
// class stays narrow, a wide one wide.
std::uint16_t TableOfValue(std::size_t energy_class, int offset);

// Which tables a message needs that has tokens of these classes.
std::array<bool, kEnergyClasses> TablesUsed(const std::array<bool, kEnergyClasses>& classes,
                                            const ChannelOffsets& offsets);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_DITHERED_DITHER_CHANNELS_H_
