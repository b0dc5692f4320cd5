#include "replica/collective/units/unit_message.h"

#include <string>

#include "common/bytes.h"
#include "common/checksum.h"

namespace shoal::collective {
namespace {

constexpr std::size_t kPieceAt = 4, kMethodAt = 8, kStepAt = 16, kEpochAt = 24, kMicroBatchAt = 32,
                      kPartAt = 36, kChunkAt = 40, kValuesAt = 44, kChecksumAt = 48;
constexpr unsigned kKinds = 5, kVectors = 4;

// Fields that mean nothing are 0, so that one message has one form.
bool FieldsFit(const UnitHeader& header) {
  const bool gradients = header.kind == UnitKind::kGradients;
  const bool gathers = header.kind == UnitKind::kWanted || header.kind == UnitKind::kValues;
  return (gathers || header.vector == UnitVector::kWeights) &&
         (header.kind != UnitKind::kEnd || header.piece == 0) &&
         (gradients || (header.micro_batch == 0 && header.part == 0)) &&
         (header.has_values() ? header.values > 0 : header.chunk == 0 && header.values == 0);
}

}  // namespace

void SealUnitMessage(const UnitHeader& header, std::span<std::byte> message) {
  SHOAL_CHECK(message.size() >= kUnitHeaderBytes && FieldsFit(header));
  std::byte* const to = message.data();
  to[0] = std::byte{kUnitMessageVersion};
  to[1] = static_cast<std::byte>(header.kind);
  to[2] = static_cast<std::byte>(header.vector);
  to[3] = std::byte{0};
  StoreLittle(to + kPieceAt, header.piece);
  StoreLittle(to + kMethodAt, header.method);
  StoreLittle(to + kStepAt, header.step);
  StoreLittle(to + kEpochAt, header.epoch);
  StoreLittle(to + kMicroBatchAt, header.micro_batch);
  StoreLittle(to + kPartAt, header.part);
  StoreLittle(to + kChunkAt, header.chunk);
  StoreLittle(to + kValuesAt, header.values);
  StoreLittle(to + kChecksumAt, Checksum64(message.subspan(kUnitHeaderBytes)));
}

Result<UnitHeader> ParseUnitMessage(std::span<const std::byte> message) {
  if (message.size() < kUnitHeaderBytes) {
    return InvalidArgument("a message of " + std::to_string(message.size()) +
                           " bytes is shorter than its header");
  }
  const std::byte* const from = message.data();
  const auto byte = [from](std::size_t i) { return std::to_integer<unsigned>(from[i]); };
  if (byte(0) != kUnitMessageVersion) {
    return InvalidArgument("message version " + std::to_string(byte(0)) + " instead of " +
                           std::to_string(kUnitMessageVersion) + "; update the older peer");
  }
  if (byte(1) >= kKinds || byte(2) >= kVectors || byte(3) != 0) {
    return InvalidArgument("a message of unknown kind or vector");
  }
  UnitHeader header;
  header.kind = static_cast<UnitKind>(byte(1));
  header.vector = static_cast<UnitVector>(byte(2));
  header.piece = LoadLittle<std::uint32_t>(from + kPieceAt);
  header.method = LoadLittle<std::uint64_t>(from + kMethodAt);
  header.step = LoadLittle<std::uint64_t>(from + kStepAt);
  header.epoch = LoadLittle<std::uint64_t>(from + kEpochAt);
  header.micro_batch = LoadLittle<std::uint32_t>(from + kMicroBatchAt);
  header.part = LoadLittle<std::uint32_t>(from + kPartAt);
  header.chunk = LoadLittle<std::uint32_t>(from + kChunkAt);
  header.values = LoadLittle<std::uint32_t>(from + kValuesAt);
  if (!FieldsFit(header) || header.has_values() != (message.size() > kUnitHeaderBytes)) {
    return InvalidArgument("a message with fields or values that its kind does not have");
  }
  if (Checksum64(message.subspan(kUnitHeaderBytes)) !=
      LoadLittle<std::uint64_t>(from + kChecksumAt)) {
    return DataLoss("the checksum of a chunk does not match its bytes");
  }
  return header;
}

}  // namespace shoal::collective
