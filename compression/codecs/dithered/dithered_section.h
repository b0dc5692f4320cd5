// What a dithered section holds behind its step: classes, channels, tables, escapes and rANS words
// (docs/WIRE.md, "dithered").
//
// Values come as cells (dither_kernels.h) from whoever has them, and go as symbols to whoever wants
// them: the CPU's memory (dithered_codec.cc) or a device's (device_dithered.cc).
// Internal to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_DITHERED_DITHERED_SECTION_H_
#define SHOAL_COMPRESSION_CODECS_DITHERED_DITHERED_SECTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "compression/api/codec.h"
#include "compression/api/message_noise.h"
#include "compression/codecs/dithered/dither_channels.h"
#include "compression/simd/dither_kernels.h"

namespace shoal::compression {

// Codes stay within +-2^22: then they are exact in fp32.
inline constexpr std::int32_t kDitheredCodeMax = 1 << 22;

// Values of a token that are coded at a time, at most.
inline constexpr std::size_t kDitherPart = 2048;
struct TokenPart {
  std::size_t token = 0;  // of the section
  std::size_t first = 0;  // value, a multiple of kDitherPart
  std::size_t count = 0;
  bool wide = false;  // its class
};

// The dither of a part, or words of zero for rounding to the nearest.
class PartDither {
 public:
  explicit PartDither(const RandomKey& key, bool drawn = true)
      : key_(MessageKeyWords(key)), drawn_(drawn) {}
  // Valid until the next call.
  const std::uint16_t* Draw(const TokenPart& part) {
    if (!drawn_) return words_.data();
    DitherWords(key_, part.token, static_cast<std::uint32_t>(part.first / kDitherGroup),
                (part.count + kDitherGroup - 1) / kDitherGroup, words_.data());
    return words_.data();
  }

 private:
  std::array<std::uint32_t, 2> key_;
  bool drawn_;
  alignas(64) std::array<std::uint16_t, kDitherPart> words_{};
};

// How many of a message's values may be escapes: few, where its step is at least kDitherStepMin
// times the rms of all of them.
enum class Escapes : std::uint8_t { kFew, kAny };

// Most bytes that WriteDitheredSection needs room for.
std::size_t DitheredSectionBytesMax(SampleShape shape, std::size_t samples, Escapes escapes);

// Where the cells of a section come from.
class DitherCells {
 public:
  virtual ~DitherCells() = default;
  // `all` is where cells lie: those of token t from t * hidden on. They may be there afterwards.
  virtual Status Begin(std::span<std::uint8_t> all) = 0;
  // Makes a part's cells, in the order of coding.
  virtual void Make(const TokenPart& part, std::uint8_t* cells) = 0;
  // The codes of the cells that Make gave symbol 0, in the same order.
  virtual Result<std::vector<std::int32_t>> FarCodes() = 0;
};

struct DitheredMessage {
  SampleShape shape;
  std::span<const std::uint8_t> classes;  // of each token; 0 only where all values are 0
  const ChannelOffsets& offsets;
};

// Writes the message to `out` and returns its bytes.
Result<std::size_t> WriteDitheredSection(const DitheredMessage& message, DitherCells* cells,
                                         std::span<std::byte> out);

// Where the symbols of a section go.
class DitherSymbols {
 public:
  virtual ~DitherSymbols() = default;
  // Whether Take wants the dither of wide parts, too.
  virtual bool wants_dither() const = 0;
  virtual void TakeZeros(std::size_t token) = 0;
  virtual void Take(const TokenPart& part, const std::uint8_t* symbols,
                    const std::uint16_t* words) = 0;
  // Then, value `i` of the part: the code of a symbol 0.
  virtual void TakeEscape(const TokenPart& part, std::size_t i, std::int32_t code,
                          const std::uint16_t* words) = 0;
};

// Reads exactly `in` (foreign bytes), a section of `samples` samples. `step` is within [2^-100,
// 2^119]; `spec` names the codec in errors.
Status ReadDitheredSection(std::span<const std::byte> in, SampleShape shape, std::size_t samples,
                           const PartDither& dither, float step, const std::string& spec,
                           DitherSymbols* symbols);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_DITHERED_DITHERED_SECTION_H_
