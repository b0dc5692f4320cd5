#include "replica/collective/ring/ring_message.h"

#include <string>

#include "common/bytes.h"

namespace shoal::collective {
namespace {

constexpr std::uint8_t kVersion = 1;

}  // namespace

void WriteRingHeader(const RingHeader& header, std::span<std::byte> message) {
  SHOAL_CHECK(message.size() >= kRingHeaderBytes);
  std::byte* const at = message.data();
  StoreLittle(at, kVersion);
  StoreLittle(at + 1, static_cast<std::uint8_t>(header.kind));
  StoreLittle(at + 2, static_cast<std::uint8_t>(header.phase));
  StoreLittle(at + 3, header.hop);
  StoreLittle(at + 4, header.slice);
  StoreLittle(at + 8, header.chunk);
  StoreLittle(at + 12, header.contributors);
  StoreLittle(at + 16, header.round);
  StoreLittle(at + 24, header.epoch);
  StoreLittle(at + 32, header.method);
  StoreLittle(at + 40, header.hash);
}

Result<RingHeader> ReadRingHeader(std::span<const std::byte> message) {
  if (message.size() < kRingHeaderBytes) {
    return InvalidArgument("a ring message of " + std::to_string(message.size()) +
                           " bytes is shorter than its header");
  }
  const std::byte* const at = message.data();
  if (const auto version = LoadLittle<std::uint8_t>(at); version != kVersion) {
    return InvalidArgument("a ring message has layout version " + std::to_string(version) +
                           ", this program knows " + std::to_string(kVersion) +
                           "; run the same version of shoal on all peers");
  }
  const auto kind = LoadLittle<std::uint8_t>(at + 1), phase = LoadLittle<std::uint8_t>(at + 2);
  if (kind != static_cast<std::uint8_t>(RingKind::kSum) &&
      kind != static_cast<std::uint8_t>(RingKind::kOneBit)) {
    return InvalidArgument("a ring message has the unknown kind " + std::to_string(kind));
  }
  if (phase >= kRingPhases) {
    return InvalidArgument("a ring message has the unknown phase " + std::to_string(phase));
  }
  return RingHeader{.kind = static_cast<RingKind>(kind),
                    .phase = static_cast<RingPhase>(phase),
                    .hop = LoadLittle<std::uint8_t>(at + 3),
                    .slice = LoadLittle<std::uint32_t>(at + 4),
                    .chunk = LoadLittle<std::uint32_t>(at + 8),
                    .contributors = LoadLittle<std::uint32_t>(at + 12),
                    .round = LoadLittle<std::uint64_t>(at + 16),
                    .epoch = LoadLittle<std::uint64_t>(at + 24),
                    .method = LoadLittle<std::uint64_t>(at + 32),
                    .hash = LoadLittle<std::uint64_t>(at + 40)};
}

}  // namespace shoal::collective
