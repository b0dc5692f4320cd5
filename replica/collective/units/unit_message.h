// Messages by which the members of a group gather and release units of their parameters. Each has a
// header of 56 bytes and may have the coded values of one chunk (docs/WIRE.md, "Units of
// parameters"). Pure. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_UNITS_UNIT_MESSAGE_H_
#define SHOAL_REPLICA_COLLECTIVE_UNITS_UNIT_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"

namespace shoal::collective {

inline constexpr std::size_t kUnitHeaderBytes = 56;
inline constexpr std::uint8_t kUnitMessageVersion = 1;

enum class UnitKind : std::uint8_t {
  kWanted = 0,     // asks for the receiver's shard of a piece
  kValues = 1,     // a chunk of it
  kGradients = 2,  // a chunk of a micro-batch's gradients, for the owner of the shard
  kTaken = 3,      // such a chunk was added up
  kEnd = 4,        // the sender's gradients of the step were all sent
};

// What is gathered.
enum class UnitVector : std::uint8_t {
  kWeights = 0,       // as the method's codec has them: what everybody computes with
  kExactWeights = 1,  // fp32 from here on, for checkpoints
  kFirstMoment = 2,
  kSecondMoment = 3,
};

struct UnitHeader {
  UnitKind kind = UnitKind::kWanted;
  UnitVector vector = UnitVector::kWeights;  // of kWanted and kValues, else kWeights
  std::uint32_t piece = 0;                   // 0 in kEnd
  std::uint64_t method = 0;                  // MethodId
  std::uint64_t step = 0;                    // steps that the owners have applied
  std::uint64_t epoch = 0;
  // The next three of kValues and kGradients, else 0; micro-batch and part of kGradients only.
  std::uint32_t micro_batch = 0, part = 0;
  std::uint32_t chunk = 0;  // of the shard
  std::uint32_t values = 0;

  bool operator==(const UnitHeader&) const = default;
  bool has_values() const { return kind == UnitKind::kValues || kind == UnitKind::kGradients; }
};

// Writes the header of `message`, whose payload is in place behind it; the payload's checksum is
// computed here.
void SealUnitMessage(const UnitHeader& header, std::span<std::byte> message);
// The header of a foreign message. An error if the message is too short or of another version, has
// a field out of range, or has a payload although its kind has none, or the reverse. Data loss if
// the checksum does not match.
Result<UnitHeader> ParseUnitMessage(std::span<const std::byte> message);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_UNITS_UNIT_MESSAGE_H_
