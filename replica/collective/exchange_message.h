// Messages of an exchange: a header of 64 bytes and the coded values of one chunk (docs/WIRE.md,
// "Messages inside a stage group"). Pure. Thread: any.

#ifndef SHOAL_REPLICA_COLLECTIVE_EXCHANGE_MESSAGE_H_
#define SHOAL_REPLICA_COLLECTIVE_EXCHANGE_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/memory/buffer.h"
#include "common/status.h"
#include "replica/collective/exchange.h"

namespace shoal::collective {

inline constexpr std::size_t kMessageHeaderBytes = 64;
inline constexpr std::uint8_t kMessageVersion = 1;

enum class Phase : std::uint8_t {
  kContribution = 0,  // a member's values, to the owner of their shard
  kResult = 1,        // the agreed values, from their owner to everybody
};

struct MessageHeader {
  Phase phase = Phase::kContribution;
  Combine combine = Combine::kSum;
  CollectiveOp op = CollectiveOp::kAllReduce;
  bool transformed = false;  // by the owners
  std::uint32_t chunk = 0;   // within the shard
  std::uint64_t method = 0;  // MethodId
  std::uint64_t round = 0;
  std::uint64_t epoch = 0;
  std::uint64_t first_value = 0;  // of the vector
  std::uint32_t values = 0;       // at least 1
  std::uint32_t tensor = 0;
  std::uint64_t weight = 0;  // of the contributor, or of all together

  bool operator==(const MessageHeader&) const = default;
};

// XXH3-64 of the text that names method and codecs: members that code differently must not mix.
std::uint64_t MethodId(std::string_view method);

// Writes the header of `message`, whose payload is in place behind it; the payload's checksum is
// computed here.
void SealMessage(const MessageHeader& header, std::span<std::byte> message);
// The header of a foreign message; the payload is not looked at. An error if it is too short, of
// another version, or has a field out of its range.
Result<MessageHeader> ParseMessageHeader(std::span<const std::byte> message);
// Error (data loss) if the payload is not what was sealed. `message` passed ParseMessageHeader.
Status CheckMessagePayload(std::span<const std::byte> message);

// Whether an error is about what a message says: else this member could not read it.
bool OfMessage(const Status& error);

}  // namespace shoal::collective

#endif  // SHOAL_REPLICA_COLLECTIVE_EXCHANGE_MESSAGE_H_
