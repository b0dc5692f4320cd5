// RingHeader: what stands before every chunk that members of a ring or torus send each other.
// Bytes: docs/WIRE.md, "Rings of a stage group". Pure. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_RING_RING_MESSAGE_H_
#define SHOAL_REPLICA_COLLECTIVE_RING_RING_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"
#include "replica/collective/ring/ring_plan.h"

namespace shoal::collective {

enum class RingKind : std::uint8_t { kSum = 1, kOneBit = 2 };

struct RingHeader {
  RingKind kind = RingKind::kSum;
  RingPhase phase = RingPhase::kRowReduce;
  std::uint8_t hop = 0;
  std::uint32_t slice = 0, chunk = 0;
  std::uint32_t contributors = 0;  // members whose values are in the payload
  std::uint64_t round = 0;
  std::uint64_t epoch = 0;   // of the membership: the plan's generation
  std::uint64_t method = 0;  // Checksum64 of what must be equal on all members, as text
  std::uint64_t hash = 0;    // Checksum64 of the payload
  bool operator==(const RingHeader&) const = default;
};

inline constexpr std::size_t kRingHeaderBytes = 48;

// Writes the first kRingHeaderBytes of `message`.
void WriteRingHeader(const RingHeader& header, std::span<std::byte> message);
// The header of a message, which may be of any size. Does not look at the payload.
Result<RingHeader> ReadRingHeader(std::span<const std::byte> message);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_RING_RING_MESSAGE_H_
