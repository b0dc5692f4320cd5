// DataHeader: the first 192 bytes of a file of prepared data. Layout in docs/STORAGE.md.

#ifndef SHOAL_DATASET_DATA_HEADER_H_
#define SHOAL_DATASET_DATA_HEADER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"
#include "dataset/sha256.h"

namespace shoal::dataset {

inline constexpr std::size_t kDataHeaderBytes = 192;
inline constexpr std::uint32_t kDataVersion = 1;
inline constexpr std::uint32_t kMinRowTokens = 2;
inline constexpr std::uint32_t kMaxRowTokens = 65536;

// One split: rows of row_tokens positions, of which the first `tokens` hold text.
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

  // Bytes of one id: 2 if every id fits, else 4.
  std::uint32_t token_bytes() const { return vocabulary <= 65536 ? 2 : 4; }
  std::uint64_t rows() const { return train.rows + validation.rows; }
  std::uint64_t payload_bytes() const { return rows() * row_tokens * token_bytes(); }
};

std::array<std::byte, kDataHeaderBytes> EncodeDataHeader(const DataHeader& header);

// Checks every field, and that a file of `file_bytes` is what the header says.
Result<DataHeader> DecodeDataHeader(std::span<const std::byte> bytes, std::uint64_t file_bytes);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_DATA_HEADER_H_
