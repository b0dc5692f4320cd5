// The header of a message of aqsgd (docs/WIRE.md, "Message of aqsgd"). Internal to compression/.
// Pure. Thread: any.

#ifndef SHOAL_COMPRESSION_CODECS_AQSGD_AQSGD_HEADER_H_
#define SHOAL_COMPRESSION_CODECS_AQSGD_AQSGD_HEADER_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "common/status.h"
#include "compression/api/codec.h"

namespace shoal::compression {

inline constexpr std::size_t kMessageHeaderBytes = 16;

struct AqsgdHeader {
  DeltaMode mode = DeltaMode::kDelta;
  std::size_t deltas = 0;       // samples
  std::size_t delta_bytes = 0;  // of their section, which follows the header
};

// Writes kMessageHeaderBytes.
void WriteAqsgdHeader(const AqsgdHeader& header, int m_bits, std::byte* out);

// Checks that `payload` begins with the header of a message of `deltas` changes whose section fits
// it. `spec` names the codec in the error.
Result<AqsgdHeader> ReadAqsgdHeader(std::span<const std::byte> payload, int m_bits,
                                    std::size_t deltas, std::string_view spec);

// The mode of a message whose header was read before.
DeltaMode AqsgdMode(std::span<const std::byte> payload);

}  // namespace shoal::compression

#endif  // SHOAL_COMPRESSION_CODECS_AQSGD_AQSGD_HEADER_H_
