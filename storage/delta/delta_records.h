// The bytes of a delta record: key and value as they lie on disk (docs/STORAGE.md "Delta store").

#ifndef SHOAL_STORAGE_DELTA_DELTA_RECORDS_H_
#define SHOAL_STORAGE_DELTA_DELTA_RECORDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "storage/delta/delta_store.h"

namespace shoal::storage {

inline constexpr std::size_t kDeltaKeyBytes = 21;
inline constexpr std::size_t kDeltaHeaderBytes = 48;

using DeltaHeaderBytes = std::array<std::byte, kDeltaHeaderBytes>;

struct DeltaKey {
  BoundaryEnd end;
  SegmentId segment;
};

// What a header says about its image.
struct DeltaHeader {
  std::uint64_t version = 0;
  std::uint64_t checksum = 0;
  std::uint64_t image_bytes = 0;
  std::uint32_t tokens = 0;
  std::uint32_t hidden = 0;
};

std::string EncodeDeltaKey(const DeltaKey& key);
std::optional<DeltaKey> DecodeDeltaKey(std::string_view bytes);

// The header's own checksum covers the key, so that a header under a wrong key is found too.
DeltaHeaderBytes EncodeDeltaHeader(std::string_view key, const DeltaHeader& header);
// Nothing unless the bytes begin with a valid header of this key.
std::optional<DeltaHeader> DecodeDeltaHeader(std::string_view key,
                                             std::span<const std::byte> bytes);
// A whole record; nothing unless every checksum and size holds.
std::optional<DeltaRecord> DecodeDeltaRecord(std::string_view key,
                                             std::span<const std::byte> header, Buffer image);

// What stands before an image in an image file: its key and its header.
inline constexpr std::size_t kImageHeadBytes = 72;
using ImageHeadBytes = std::array<std::byte, kImageHeadBytes>;
ImageHeadBytes EncodeImageHead(std::string_view key, const DeltaHeaderBytes& header);
struct ImageHead {
  std::string key;
  DeltaHeader header;
};
// Nothing unless key and header are valid and belong together.
std::optional<ImageHead> DecodeImageHead(std::span<const std::byte> bytes);

// A value in the database of headers: the header, then where the image is.
inline constexpr std::size_t kDeltaEntryBytes = 64;
struct DeltaEntry {
  DeltaHeaderBytes header{};
  std::uint64_t file = 0, offset = 0;
};
std::string EncodeDeltaEntry(const DeltaEntry& entry);
std::optional<DeltaEntry> DecodeDeltaEntry(std::span<const std::byte> bytes);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_DELTA_DELTA_RECORDS_H_
