#include "compression/codecs/aqsgd/aqsgd_header.h"

#include <string>

#include "common/bytes.h"
#include "compression/api/sample_layout.h"

namespace shoal::compression {

DeltaMode AqsgdMode(std::span<const std::byte> payload) {
  SHOAL_CHECK(payload.size() >= kMessageHeaderBytes);
  return static_cast<DeltaMode>(payload[3]);
}

void WriteAqsgdHeader(const AqsgdHeader& header, int m_bits, std::byte* out) {
  out[0] = static_cast<std::byte>(CodecId::kAqsgd);
  out[1] = std::byte{kPayloadLayoutVersion};
  out[2] = static_cast<std::byte>(m_bits);
  out[3] = static_cast<std::byte>(header.mode);
  StoreLittle<std::uint32_t>(out + 4, static_cast<std::uint32_t>(header.deltas));
  StoreLittle<std::uint64_t>(out + 8, header.delta_bytes);
}

Result<AqsgdHeader> ReadAqsgdHeader(std::span<const std::byte> payload, int m_bits,
                                    std::size_t deltas, std::string_view spec) {
  const auto wrong = [&](const std::string& what) {
    return InvalidArgument("codec " + std::string(spec) + ": " + what +
                           "; both ends of a boundary must use the same codec, shape and m");
  };
  if (payload.size() < kMessageHeaderBytes) {
    return wrong("payload of " + std::to_string(payload.size()) + " bytes has no header");
  }
  const std::byte expected[] = {static_cast<std::byte>(CodecId::kAqsgd),
                                std::byte{kPayloadLayoutVersion}, static_cast<std::byte>(m_bits)};
  static constexpr std::string_view kNames[] = {"codec id", "layout version", "bits of m"};
  for (std::size_t i = 0; i < 3; ++i) {
    if (payload[i] == expected[i]) continue;
    return wrong("payload header has " + std::string(kNames[i]) + " " +
                 std::to_string(std::to_integer<int>(payload[i])) + ", expected " +
                 std::to_string(std::to_integer<int>(expected[i])));
  }
  AqsgdHeader header;
  header.mode = static_cast<DeltaMode>(payload[3]);
  if (header.mode > DeltaMode::kFull) {
    return wrong("unknown mode " + std::to_string(std::to_integer<int>(payload[3])));
  }
  header.deltas = LoadLittle<std::uint32_t>(payload.data() + 4);
  const auto bytes = LoadLittle<std::uint64_t>(payload.data() + 8);
  if (header.deltas != deltas) {
    return wrong("message has " + std::to_string(header.deltas) + " changes, its frame names " +
                 std::to_string(deltas));
  }
  if (bytes > payload.size() - kMessageHeaderBytes || (bytes == 0) != (deltas == 0)) {
    return wrong("a section of " + std::to_string(bytes) + " bytes does not fit the payload of " +
                 std::to_string(payload.size()));
  }
  if (header.mode == DeltaMode::kFull && deltas != 0) return wrong("changes in a full message");
  header.delta_bytes = static_cast<std::size_t>(bytes);
  return header;
}

}  // namespace shoal::compression
