// The reflectors of a message as bytes (docs/WIRE.md, "klt"). Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_KLT_KLT_SECTION_H_
#define SHOAL_COMPRESSION_CODECS_KLT_KLT_SECTION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/status.h"
#include "compression/codecs/klt/reflectors.h"

namespace shoal::compression {

// Most bytes that WriteReflectors needs room for, `rank` reflectors at most.
std::size_t ReflectorBytesMax(std::size_t rank, std::uint32_t hidden);
// Returns the bytes written to `out`: 0 for a rank of 0.
std::size_t WriteReflectors(const ReflectorCodes& codes, std::span<std::byte> out);
// Reads exactly `in` (foreign bytes); no bytes are a rank of 0. A rank above `rank_most` or that
// is not below `hidden` is an error. `spec` names the codec in errors.
Result<ReflectorCodes> ReadReflectors(std::span<const std::byte> in, std::size_t rank_most,
                                      std::uint32_t hidden, std::string_view spec);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_KLT_KLT_SECTION_H_
