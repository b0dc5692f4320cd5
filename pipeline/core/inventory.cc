#include "pipeline/core/inventory.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "common/bytes.h"

namespace shoal::pipeline {
namespace {

constexpr std::uint32_t kLayoutVersion = 1;
constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kEntryBytes = 24;

constexpr std::size_t kLossBytes = 8;

void EncodeHeader(std::size_t count, Buffer* payload) {
  StoreLittle<std::uint32_t>(payload->data(), kLayoutVersion);
  StoreLittle<std::uint64_t>(payload->data() + 4, count);
}

// The number of entries of `entry_bytes` each, which fill the payload exactly.
Result<std::uint64_t> DecodeHeader(std::span<const std::byte> payload, std::size_t entry_bytes,
                                   const std::string& what) {
  if (payload.size() < kHeaderBytes) {
    return InvalidArgument(what + " of " + std::to_string(payload.size()) + " bytes is too short");
  }
  const auto layout = LoadLittle<std::uint32_t>(payload.data());
  if (layout != kLayoutVersion) {
    return InvalidArgument(what + " of layout " + std::to_string(layout) +
                           " is unknown; use the same version of shoal on all peers");
  }
  const auto count = LoadLittle<std::uint64_t>(payload.data() + 4);
  const std::size_t room = payload.size() - kHeaderBytes;
  if (room % entry_bytes != 0 || room / entry_bytes != count) {
    return InvalidArgument(what + " of " + std::to_string(payload.size()) + " bytes cannot hold " +
                           std::to_string(count) + " entries");
  }
  return count;
}

}  // namespace

Buffer EncodeInventory(std::span<const storage::DeltaInventoryEntry> entries) {
  Buffer payload(kHeaderBytes + kEntryBytes * entries.size());
  EncodeHeader(entries.size(), &payload);
  std::byte* to = payload.data() + kHeaderBytes;
  for (const storage::DeltaInventoryEntry& entry : entries) {
    StoreLittle(to, entry.segment.value);
    StoreLittle(to + 8, entry.version);
    StoreLittle(to + 16, entry.checksum);
    to += kEntryBytes;
  }
  return payload;
}

Result<std::vector<storage::DeltaInventoryEntry>> DecodeInventory(
    std::span<const std::byte> payload) {
  SHOAL_ASSIGN_OR_RETURN(const std::uint64_t count,
                         DecodeHeader(payload, kEntryBytes, "an inventory"));
  std::vector<storage::DeltaInventoryEntry> entries(count);
  const std::byte* from = payload.data() + kHeaderBytes;
  for (std::size_t i = 0; i < count; ++i, from += kEntryBytes) {
    entries[i].segment.value = LoadLittle<std::uint64_t>(from);
    entries[i].version = LoadLittle<std::uint64_t>(from + 8);
    entries[i].checksum = LoadLittle<std::uint64_t>(from + 16);
    if (i > 0 && entries[i].segment <= entries[i - 1].segment) {
      return InvalidArgument("an inventory is not in order of segment");
    }
  }
  return entries;
}

Buffer EncodeLosses(std::vector<SegmentId> segments) {
  std::sort(segments.begin(), segments.end());
  Buffer payload(kHeaderBytes + kLossBytes * segments.size());
  EncodeHeader(segments.size(), &payload);
  std::byte* to = payload.data() + kHeaderBytes;
  for (const SegmentId segment : segments) {
    StoreLittle(to, segment.value);
    to += kLossBytes;
  }
  return payload;
}

Result<std::vector<SegmentId>> DecodeLosses(std::span<const std::byte> payload) {
  SHOAL_ASSIGN_OR_RETURN(const std::uint64_t count,
                         DecodeHeader(payload, kLossBytes, "a list of losses"));
  std::vector<SegmentId> segments(count);
  const std::byte* from = payload.data() + kHeaderBytes;
  for (std::size_t i = 0; i < count; ++i, from += kLossBytes) {
    segments[i].value = LoadLittle<std::uint64_t>(from);
    if (i > 0 && segments[i] <= segments[i - 1]) {
      return InvalidArgument("a list of losses is not in order of segment");
    }
  }
  return segments;
}

std::vector<SegmentId> Disagreeing(std::span<const storage::DeltaInventoryEntry> own,
                                   std::span<const storage::DeltaInventoryEntry> theirs) {
  std::vector<SegmentId> differing;
  std::size_t other = 0;
  for (const storage::DeltaInventoryEntry& entry : own) {
    while (other < theirs.size() && theirs[other].segment < entry.segment) ++other;
    const bool agreed = other < theirs.size() && theirs[other].segment == entry.segment &&
                        theirs[other].version == entry.version &&
                        theirs[other].checksum == entry.checksum;
    if (!agreed) differing.push_back(entry.segment);
  }
  return differing;
}

std::vector<BoundaryChecksum> SharedChecksums(std::span<const BoundaryChecksum> ends) {
  using Side = storage::BoundarySide;
  std::map<std::pair<std::uint32_t, Side>, BoundaryChecksum> sums;
  for (const BoundaryChecksum& end : ends) {
    if (end.side == Side::kResidual) continue;
    const bool lower = end.side == Side::kSender || end.side == Side::kGradientReceiver;
    const Side side = lower ? Side::kSender : Side::kReceiver;
    BoundaryChecksum& sum = sums[{end.boundary, side}];
    sum.boundary = end.boundary;
    sum.side = side;
    sum.checksum += end.checksum;
    sum.records += end.records;
  }
  std::vector<BoundaryChecksum> shared;
  shared.reserve(sums.size());
  for (const auto& [key, sum] : sums) shared.push_back(sum);
  return shared;
}

}  // namespace shoal::pipeline
