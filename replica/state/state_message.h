// The messages by which a shadow gets its stage's state from its group (docs/WIRE.md, "State of a
// stage"): a request for a range of the stage's flat vectors, and a chunk, the answer.

#ifndef SHOAL_REPLICA_STATE_STATE_MESSAGE_H_
#define SHOAL_REPLICA_STATE_STATE_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/memory/buffer.h"
#include "common/status.h"

namespace shoal::replica {

inline constexpr std::size_t kStateHeaderBytes = 32;
inline constexpr std::uint32_t kChunkValuesMax = 1u << 17;  // 1.5 MiB
inline constexpr std::size_t kStateVectors = 3;             // weights, first and second moments

struct StateMessage {
  enum class Kind : std::uint8_t { kRequest = 1, kChunk = 2 };

  Kind kind = Kind::kRequest;
  std::uint64_t first = 0;
  std::uint32_t values = 0;  // 1 to kChunkValuesMax
  std::uint64_t steps = 0;   // of a chunk: applied ones in its values
};

// Of a chunk: with room for its kStateVectors x values floats, which StateValues shows.
Buffer NewStateMessage(const StateMessage& message);
// The values behind the header, vector after vector, of either message.
std::span<float> StateValues(Buffer* message);
// After the values are written.
void SealStateMessage(Buffer* message);
// Invalid argument: not such a message of a stage of `state_size` values. Data loss: the checksum
// is not that of the values.
Result<StateMessage> ParseStateMessage(std::span<const std::byte> message, std::size_t state_size);

}  // namespace shoal::replica

#endif  // SHOAL_REPLICA_STATE_STATE_MESSAGE_H_
