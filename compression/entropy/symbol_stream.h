// The codes of a message as bytes: packed, or through an entropy coder that works on the symbols.
//
// The section says in its first byte how its codes are stored, and the packed form is kept where an
// entropy coder does not make it smaller (docs/WIRE.md, "Code streams"). Coding the symbols
// matters: on a bit-packed stream of 3 or 6 bits a general coder loses half of the saving. Internal
// to compression/. Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_ENTROPY_SYMBOL_STREAM_H_
#define SHOAL_COMPRESSION_ENTROPY_SYMBOL_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/status.h"

namespace shoal::compression {

// What a writer tries besides packing. Any reader reads every kind.
enum class EntropyCoder : std::uint8_t { kNone, kZstd, kRans };
// Bit of a payload header's `variant`: the codes are a code stream and not packed.
inline constexpr std::uint8_t kEntropyVariant = 8;

// Memory of codes as such.
inline std::span<std::uint8_t> AsCodes(std::span<std::byte> memory) {
  return {reinterpret_cast<std::uint8_t*>(memory.data()), memory.size()};
}
inline std::span<const std::uint8_t> AsCodes(std::span<const std::byte> memory) {
  return {reinterpret_cast<const std::uint8_t*>(memory.data()), memory.size()};
}

// The coder that a spec's suffix names: "" (none), "zstd", "rans"; an error lists them.
Result<EntropyCoder> ParseEntropyCoder(std::string_view suffix);
// "" , "+zstd" or "+rans": what a canonical spec has behind the codec's name.
std::string_view EntropySuffix(EntropyCoder coder);

// Most bytes that WriteSymbols writes for n codes: one more than packed.
std::size_t SymbolBytesMax(EntropyCoder coder, std::size_t n, int bits);

// Writes `codes` (each below 2^bits, bits 1 .. 8) to `out` (at least SymbolBytesMax) and returns
// the number of bytes. The bytes depend on the arguments only, not on the machine, for kNone and
// kRans; for kZstd they may change with the version of zstd.
std::size_t WriteSymbols(EntropyCoder coder, std::span<const std::uint8_t> codes, int bits,
                         std::span<std::byte> out);

// Reads exactly `in` (foreign bytes) into `codes`, whose size says how many codes there must be;
// nothing larger is ever allocated. Each code is below 2^bits. `spec` names the codec in errors.
Status ReadSymbols(std::span<const std::byte> in, int bits, std::span<std::uint8_t> codes,
                   std::string_view spec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_ENTROPY_SYMBOL_STREAM_H_
