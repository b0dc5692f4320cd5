// DataPayload: what lies behind the header of prepared data. Layout in docs/STORAGE.md.

#ifndef SHOAL_DATASET_DATA_PAYLOAD_H_
#define SHOAL_DATASET_DATA_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/status.h"
#include "dataset/data_header.h"

namespace shoal::dataset {

// A view of the parts of a payload. Rows are counted from 0, training rows first. Thread: any.
class DataPayload {
 public:
  // `bytes`: header.payload_bytes() of them, which outlive the view.
  DataPayload(const DataHeader& header, std::span<const std::byte> bytes);

  std::int32_t Token(std::uint64_t row, std::uint32_t position) const;
  // Tokens of the row that are no padding. Not of running text.
  std::uint32_t Length(std::uint64_t row) const;
  // Whether the token is a label of the one before it. Of samples only.
  bool Counts(std::uint64_t row, std::uint32_t position) const;
  // Whether a sample begins at the token. Of segmented samples only.
  bool Begins(std::uint64_t row, std::uint32_t position) const;
  // How many tokens of the row count. Of samples only.
  std::uint32_t CountedTokens(std::uint64_t row) const;
  // Of classes only.
  std::uint32_t Class(std::uint64_t row) const;
  // The first position that has the token type 1; Length(row) where none has. Of typed rows only.
  std::uint32_t TypeBorder(std::uint64_t row) const;

  // A checksum is no defence against a file made to harm: an id outside the vocabulary would read
  // outside the embedding. So every id, length, bit, class and border is checked, and that each row
  // has a label.
  Status Check() const;

 private:
  bool Bit(std::uint32_t map, std::uint64_t row, std::uint32_t position) const;
  Status CheckIds() const;
  Status CheckRow(std::uint64_t row) const;
  Status CheckMaps(std::uint64_t row, std::uint32_t length) const;

  DataHeader header_;
  std::span<const std::byte> ids_;
  std::span<const std::byte> maps_;  // of labels, then of beginnings: a row after the other in each
  std::span<const std::byte> lengths_;
  std::span<const std::byte> classes_;
  std::span<const std::byte> type_borders_;
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_DATA_PAYLOAD_H_
