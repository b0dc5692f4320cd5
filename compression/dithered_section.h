// What a dithered section holds behind its step: classes, channels, tables, escapes and rANS words
// (docs/WIRE.md, "dithered").
//
// Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_DITHERED_SECTION_H_
#define SHOAL_COMPRESSION_DITHERED_SECTION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/status.h"
#include "compression/codec.h"
#include "compression/dither_channels.h"

namespace shoal::compression {

// Codes stay within +-2^22: then they are exact in fp32.
inline constexpr std::int32_t kDitheredCodeMax = 1 << 22;

// Most bytes that WriteDitheredSection needs room for.
std::size_t DitheredSectionBytesMax(SampleShape shape, std::size_t samples);

struct DitheredMessage {
  std::span<const std::span<const float>> samples;
  SampleShape shape;
  RandomKey key;
  float step = 0;                         // no |x| is above (kDitheredCodeMax - 2) steps
  std::span<const std::uint8_t> classes;  // of each token; 0 only where all values are 0
  const ChannelOffsets& offsets;
};

// Writes the message to `out` and returns its bytes. `decoded` is empty, or receives what
// ReadDitheredSection gives for each sample, tokens of class 0 aside; it may be the samples.
std::size_t WriteDitheredSection(const DitheredMessage& message, std::span<std::byte> out,
                                 std::span<const std::span<float>> decoded);

// Reads exactly `in` (foreign bytes). An empty sample is passed over. `step` is within [2^-100,
// 2^119]; `spec` names the codec in errors.
Status ReadDitheredSection(std::span<const std::byte> in, SampleShape shape, const RandomKey& key,
                           float step, std::span<const std::span<float>> samples,
                           const std::string& spec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_DITHERED_SECTION_H_
