#include "replica/collective/exchange_message.h"

#include <string>

#include "common/bytes.h"
#include "common/checksum.h"

namespace shoal::collective {
namespace {

constexpr std::size_t kChunkAt = 4, kMethodAt = 8, kRoundAt = 16, kEpochAt = 24, kFirstAt = 32,
                      kValuesAt = 40, kTensorAt = 44, kWeightAt = 48, kChecksumAt = 56;
// Byte 3: the operation, and this bit.
constexpr unsigned kTransformed = 4;

}  // namespace

std::uint64_t MethodId(std::string_view method) {
  return Checksum64(std::as_bytes(std::span(method)));
}

void SealMessage(const MessageHeader& header, std::span<std::byte> message) {
  SHOAL_CHECK(message.size() >= kMessageHeaderBytes);
  std::byte* const to = message.data();
  to[0] = std::byte{kMessageVersion};
  to[1] = static_cast<std::byte>(header.phase);
  to[2] = static_cast<std::byte>(header.combine);
  to[3] = static_cast<std::byte>(static_cast<unsigned>(header.op) |
                                 (header.transformed ? kTransformed : 0));
  StoreLittle(to + kChunkAt, header.chunk);
  StoreLittle(to + kMethodAt, header.method);
  StoreLittle(to + kRoundAt, header.round);
  StoreLittle(to + kEpochAt, header.epoch);
  StoreLittle(to + kFirstAt, header.first_value);
  StoreLittle(to + kValuesAt, header.values);
  StoreLittle(to + kTensorAt, header.tensor);
  StoreLittle(to + kWeightAt, header.weight);
  StoreLittle(to + kChecksumAt, Checksum64(message.subspan(kMessageHeaderBytes)));
}

Result<MessageHeader> ParseMessageHeader(std::span<const std::byte> message) {
  if (message.size() < kMessageHeaderBytes) {
    return InvalidArgument("a message of " + std::to_string(message.size()) +
                           " bytes is shorter than its header");
  }
  const std::byte* const from = message.data();
  const auto byte = [from](std::size_t i) { return std::to_integer<unsigned>(from[i]); };
  if (byte(0) != kMessageVersion) {
    return InvalidArgument("message version " + std::to_string(byte(0)) + " instead of " +
                           std::to_string(kMessageVersion) + "; update the older peer");
  }
  if (byte(1) > 1 || byte(2) > 1 || (byte(3) & ~kTransformed) > 2) {
    return InvalidArgument("a message of unknown phase, kind of sum or operation");
  }
  MessageHeader header;
  header.phase = static_cast<Phase>(byte(1));
  header.combine = static_cast<Combine>(byte(2));
  header.op = static_cast<CollectiveOp>(byte(3) & ~kTransformed);
  header.transformed = (byte(3) & kTransformed) != 0;
  header.chunk = LoadLittle<std::uint32_t>(from + kChunkAt);
  header.method = LoadLittle<std::uint64_t>(from + kMethodAt);
  header.round = LoadLittle<std::uint64_t>(from + kRoundAt);
  header.epoch = LoadLittle<std::uint64_t>(from + kEpochAt);
  header.first_value = LoadLittle<std::uint64_t>(from + kFirstAt);
  header.values = LoadLittle<std::uint32_t>(from + kValuesAt);
  header.tensor = LoadLittle<std::uint32_t>(from + kTensorAt);
  header.weight = LoadLittle<std::uint64_t>(from + kWeightAt);
  if (header.values == 0 || header.weight == 0 || header.first_value > UINT64_MAX - header.values) {
    return InvalidArgument("a message of no values, of no weight, or beyond any vector");
  }
  return header;
}

Status CheckMessagePayload(std::span<const std::byte> message) {
  SHOAL_CHECK(message.size() >= kMessageHeaderBytes);
  const auto sealed = LoadLittle<std::uint64_t>(message.data() + kChecksumAt);
  if (Checksum64(message.subspan(kMessageHeaderBytes)) == sealed) return Status::Ok();
  return DataLoss("the checksum of a chunk does not match its bytes");
}

bool OfMessage(const Status& error) {
  return error.code() == StatusCode::kInvalidArgument || error.code() == StatusCode::kDataLoss;
}

}  // namespace shoal::collective
