#include "storage/delta/delta_records.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/bytes.h"
#include "common/checksum.h"

namespace shoal::storage {
namespace {

// "SDR" and the number of the layout.
constexpr std::byte kMagic[4] = {std::byte{'S'}, std::byte{'D'}, std::byte{'R'}, std::byte{1}};
constexpr std::size_t kHeaderChecksumAt = 40;
constexpr std::size_t kHeaderInHead = 24;  // behind the key, at a multiple of 8

std::uint64_t HeaderChecksum(std::string_view key, std::span<const std::byte> header) {
  return Checksum64(header.first(kHeaderChecksumAt),
                    Checksum64(std::as_bytes(std::span(key.data(), key.size()))));
}

}  // namespace

std::string_view BoundarySideName(BoundarySide side) {
  switch (side) {
    case BoundarySide::kSender: return "sender";
    case BoundarySide::kReceiver: return "receiver";
    case BoundarySide::kResidual: return "residual";
    case BoundarySide::kGradientSender: return "gradient sender";
    case BoundarySide::kGradientReceiver: return "gradient receiver";
  }
  return "unknown";
}

std::string EncodeDeltaKey(const DeltaKey& key) {
  std::string bytes(kDeltaKeyBytes, '\0');
  auto* to = reinterpret_cast<std::byte*>(bytes.data());
  StoreBig<std::uint64_t>(to, key.end.run.value);
  StoreBig<std::uint32_t>(to + 8, key.end.boundary);
  to[12] = static_cast<std::byte>(key.end.side);
  StoreBig<std::uint64_t>(to + 13, key.segment.value);
  return bytes;
}

std::optional<DeltaKey> DecodeDeltaKey(std::string_view bytes) {
  if (bytes.size() != kDeltaKeyBytes) return std::nullopt;
  const auto* from = reinterpret_cast<const std::byte*>(bytes.data());
  const auto side = std::to_integer<std::uint8_t>(from[12]);
  if (side > static_cast<std::uint8_t>(BoundarySide::kGradientReceiver)) return std::nullopt;
  DeltaKey key;
  key.end.run.value = LoadBig<std::uint64_t>(from);
  key.end.boundary = LoadBig<std::uint32_t>(from + 8);
  key.end.side = static_cast<BoundarySide>(side);
  key.segment.value = LoadBig<std::uint64_t>(from + 13);
  return key;
}

DeltaHeaderBytes EncodeDeltaHeader(std::string_view key, const DeltaHeader& header) {
  DeltaHeaderBytes bytes{};
  std::copy(std::begin(kMagic), std::end(kMagic), bytes.begin());
  StoreLittle(bytes.data() + 4, header.tokens);
  StoreLittle(bytes.data() + 8, header.hidden);
  StoreLittle(bytes.data() + 16, header.version);
  StoreLittle(bytes.data() + 24, header.image_bytes);
  StoreLittle(bytes.data() + 32, header.checksum);
  StoreLittle(bytes.data() + kHeaderChecksumAt, HeaderChecksum(key, bytes));
  return bytes;
}

std::optional<DeltaHeader> DecodeDeltaHeader(std::string_view key,
                                             std::span<const std::byte> bytes) {
  if (bytes.size() < kDeltaHeaderBytes) return std::nullopt;
  const std::byte* from = bytes.data();
  if (!std::equal(std::begin(kMagic), std::end(kMagic), from)) return std::nullopt;
  if (LoadLittle<std::uint64_t>(from + kHeaderChecksumAt) != HeaderChecksum(key, bytes)) {
    return std::nullopt;
  }
  DeltaHeader header;
  header.tokens = LoadLittle<std::uint32_t>(from + 4);
  header.hidden = LoadLittle<std::uint32_t>(from + 8);
  header.version = LoadLittle<std::uint64_t>(from + 16);
  header.image_bytes = LoadLittle<std::uint64_t>(from + 24);
  header.checksum = LoadLittle<std::uint64_t>(from + 32);
  if (header.version == 0) return std::nullopt;
  return header;
}

std::optional<DeltaRecord> DecodeDeltaRecord(std::string_view key,
                                             std::span<const std::byte> header_bytes,
                                             Buffer image) {
  const std::optional<DeltaHeader> header = DecodeDeltaHeader(key, header_bytes);
  if (!header || image.size() != header->image_bytes ||
      Checksum64(image.bytes()) != header->checksum) {
    return std::nullopt;
  }
  DeltaRecord record;
  record.version = header->version;
  record.checksum = header->checksum;
  record.tokens = header->tokens;
  record.hidden = header->hidden;
  record.image = std::move(image);
  return record;
}

ImageHeadBytes EncodeImageHead(std::string_view key, const DeltaHeaderBytes& header) {
  SHOAL_CHECK(key.size() == kDeltaKeyBytes);
  ImageHeadBytes bytes{};
  std::memcpy(bytes.data(), key.data(), key.size());
  std::copy(header.begin(), header.end(), bytes.begin() + kHeaderInHead);
  return bytes;
}

std::optional<ImageHead> DecodeImageHead(std::span<const std::byte> bytes) {
  if (bytes.size() < kImageHeadBytes) return std::nullopt;
  ImageHead head;
  head.key.assign(reinterpret_cast<const char*>(bytes.data()), kDeltaKeyBytes);
  const auto header = DecodeDeltaHeader(head.key, bytes.subspan(kHeaderInHead));
  if (!header || !DecodeDeltaKey(head.key)) return std::nullopt;
  head.header = *header;
  return head;
}

std::string EncodeDeltaEntry(const DeltaEntry& entry) {
  std::string bytes(kDeltaEntryBytes, '\0');
  auto* to = reinterpret_cast<std::byte*>(bytes.data());
  std::copy(entry.header.begin(), entry.header.end(), to);
  StoreLittle(to + kDeltaHeaderBytes, entry.file);
  StoreLittle(to + kDeltaHeaderBytes + 8, entry.offset);
  return bytes;
}

std::optional<DeltaEntry> DecodeDeltaEntry(std::span<const std::byte> bytes) {
  if (bytes.size() != kDeltaEntryBytes) return std::nullopt;
  DeltaEntry entry;
  std::copy_n(bytes.begin(), kDeltaHeaderBytes, entry.header.begin());
  entry.file = LoadLittle<std::uint64_t>(bytes.data() + kDeltaHeaderBytes);
  entry.offset = LoadLittle<std::uint64_t>(bytes.data() + kDeltaHeaderBytes + 8);
  return entry;
}

}  // namespace shoal::storage
