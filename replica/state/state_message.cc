#include "replica/state/state_message.h"

#include <string>

#include "common/bytes.h"
#include "common/checksum.h"

namespace shoal::replica {
namespace {

constexpr unsigned kVersion = 1;
constexpr std::size_t kKindAt = 1, kValuesAt = 4, kFirstAt = 8, kStepsAt = 16, kChecksumAt = 24;

std::size_t ValueBytes(const StateMessage& message) {
  if (message.kind == StateMessage::Kind::kRequest) return 0;
  return kStateVectors * sizeof(float) * std::size_t{message.values};
}

}  // namespace

Buffer NewStateMessage(const StateMessage& message) {
  SHOAL_CHECK(message.values > 0 && message.values <= kChunkValuesMax);
  Buffer buffer(kStateHeaderBytes + ValueBytes(message));
  std::byte* const to = buffer.data();
  to[0] = std::byte{kVersion};
  to[kKindAt] = static_cast<std::byte>(message.kind);
  to[2] = to[3] = std::byte{0};
  StoreLittle(to + kValuesAt, message.values);
  StoreLittle(to + kFirstAt, message.first);
  StoreLittle(to + kStepsAt, message.steps);
  SealStateMessage(&buffer);
  return buffer;
}

std::span<float> StateValues(Buffer* message) {
  return message->floats().subspan(kStateHeaderBytes / sizeof(float));
}

void SealStateMessage(Buffer* message) {
  const std::span<const std::byte> bytes(message->data(), message->size());
  StoreLittle(message->data() + kChecksumAt, Checksum64(bytes.subspan(kStateHeaderBytes)));
}

Result<StateMessage> ParseStateMessage(std::span<const std::byte> message, std::size_t state_size) {
  if (message.size() < kStateHeaderBytes) {
    return InvalidArgument("a state message of " + std::to_string(message.size()) +
                           " bytes is shorter than its header");
  }
  const std::byte* const from = message.data();
  const auto kind = std::to_integer<unsigned>(from[kKindAt]);
  if (std::to_integer<unsigned>(from[0]) != kVersion || kind < 1 || kind > 2) {
    return InvalidArgument("a state message of an unknown version or kind");
  }
  StateMessage parsed;
  parsed.kind = static_cast<StateMessage::Kind>(kind);
  parsed.values = LoadLittle<std::uint32_t>(from + kValuesAt);
  parsed.first = LoadLittle<std::uint64_t>(from + kFirstAt);
  parsed.steps = LoadLittle<std::uint64_t>(from + kStepsAt);
  if (parsed.values == 0 || parsed.values > kChunkValuesMax || parsed.first > state_size ||
      parsed.values > state_size - parsed.first) {
    return InvalidArgument("a state message of " + std::to_string(parsed.values) + " values from " +
                           std::to_string(parsed.first) + ", of a stage of " +
                           std::to_string(state_size));
  }
  if (message.size() != kStateHeaderBytes + ValueBytes(parsed)) {
    return InvalidArgument("a state message of " + std::to_string(message.size()) + " bytes for " +
                           std::to_string(parsed.values) + " values");
  }
  const auto sealed = LoadLittle<std::uint64_t>(from + kChecksumAt);
  if (Checksum64(message.subspan(kStateHeaderBytes)) == sealed) return parsed;
  return DataLoss("the checksum of a part of a stage's state does not match its values");
}

}  // namespace shoal::replica
