// DataHeader: the first 192 bytes of a file of prepared data. Layout in docs/STORAGE.md.

#ifndef SHOAL_DATASET_DATA_HEADER_H_
#define SHOAL_DATASET_DATA_HEADER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"
#include "dataset/data_kind.h"
#include "dataset/sha256.h"

namespace shoal::dataset {

inline constexpr std::size_t kDataHeaderBytes = 192;
// Of running text, of rows with token types, and of all else.
inline constexpr std::uint32_t kTextDataVersion = 1;
inline constexpr std::uint32_t kSampleDataVersion = 2;
inline constexpr std::uint32_t kTypedDataVersion = 3;
inline constexpr std::uint32_t kMinRowTokens = 2;
inline constexpr std::uint32_t kMaxRowTokens = 65536;
inline constexpr std::uint32_t kMaxClasses = 65536;

// One split: rows of row_tokens positions. Of running text the first `tokens` of all positions hold
// it; else it is their sum over rows, of which each has at least one.
struct DataSplit {
  std::uint64_t rows = 0;
  std::uint64_t tokens = 0;
};

struct DataHeader {
  std::uint32_t row_tokens = 0;
  std::uint32_t vocabulary = 0;
  std::uint32_t padding = 0;  // id in the positions behind the end of the text
  DataSplit train;
  DataSplit validation;
  std::uint64_t text_tokens = 0;
  Sha256Digest tokenizer{};
  Sha256Digest text{};
  std::uint64_t payload_checksum = 0;
  DataKind kind = DataKind::kText;
  bool segmented = false;     // never of text, always of classes
  std::uint32_t classes = 0;  // 1 .. kMaxClasses of classes, else 0
  bool typed = false;         // rows have token types; of classes only

  std::uint32_t version() const {
    if (kind == DataKind::kText) return kTextDataVersion;
    return typed ? kTypedDataVersion : kSampleDataVersion;
  }
  // Bytes of one id: 2 if every id fits, else 4.
  std::uint32_t token_bytes() const { return vocabulary <= 65536 ? 2 : 4; }
  std::uint64_t rows() const { return train.rows + validation.rows; }
  // Of one row in a bit map.
  std::uint64_t map_bytes() const { return (std::uint64_t{row_tokens} + 7) / 8; }
  std::uint32_t maps() const { return kind != DataKind::kSamples ? 0 : segmented ? 2 : 1; }
  // Of each part of the payload, in order: ids, bit maps, lengths, classes, type borders.
  std::uint64_t id_bytes() const { return rows() * row_tokens * token_bytes(); }
  std::uint64_t length_bytes() const { return kind == DataKind::kText ? 0 : rows() * 4; }
  std::uint64_t class_bytes() const { return kind == DataKind::kClasses ? rows() * 4 : 0; }
  std::uint64_t type_bytes() const { return typed ? rows() * 4 : 0; }
  std::uint64_t payload_bytes() const {
    return id_bytes() + maps() * rows() * map_bytes() + length_bytes() + class_bytes() +
           type_bytes();
  }
};

std::array<std::byte, kDataHeaderBytes> EncodeDataHeader(const DataHeader& header);

// Checks every field, and that a file of `file_bytes` is what the header says.
Result<DataHeader> DecodeDataHeader(std::span<const std::byte> bytes, std::uint64_t file_bytes);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_DATA_HEADER_H_
