#include "dataset/data_payload.h"

#include <algorithm>
#include <bit>
#include <string>

#include "common/bytes.h"

namespace shoal::dataset {
namespace {

constexpr char kAgain[] = "; run `shoal prepare` again";
constexpr std::uint32_t kLabelMap = 0;
constexpr std::uint32_t kBeginMap = 1;

Status BadRow(std::uint64_t row, const std::string& what) {
  return DataLoss("row " + std::to_string(row) + " " + what + kAgain);
}

}  // namespace

DataPayload::DataPayload(const DataHeader& header, std::span<const std::byte> bytes)
    : header_(header) {
  SHOAL_CHECK(bytes.size() == header.payload_bytes());
  const auto take = [&bytes](std::uint64_t count) {
    const auto part = bytes.first(count);
    bytes = bytes.subspan(count);
    return part;
  };
  ids_ = take(header.id_bytes());
  maps_ = take(header.maps() * header.rows() * header.map_bytes());
  lengths_ = take(header.length_bytes());
  classes_ = take(header.class_bytes());
  type_borders_ = take(header.type_bytes());
}

std::int32_t DataPayload::Token(std::uint64_t row, std::uint32_t position) const {
  const std::uint64_t at = row * header_.row_tokens + position;
  return header_.token_bytes() == 2
             ? static_cast<std::int32_t>(LoadLittle<std::uint16_t>(ids_.data() + 2 * at))
             : static_cast<std::int32_t>(LoadLittle<std::uint32_t>(ids_.data() + 4 * at));
}

std::uint32_t DataPayload::Length(std::uint64_t row) const {
  return LoadLittle<std::uint32_t>(lengths_.data() + 4 * row);
}

bool DataPayload::Bit(std::uint32_t map, std::uint64_t row, std::uint32_t position) const {
  const std::uint64_t at = (map * header_.rows() + row) * header_.map_bytes() + position / 8;
  return ((std::to_integer<std::uint32_t>(maps_[at]) >> (position % 8)) & 1) != 0;
}

bool DataPayload::Counts(std::uint64_t row, std::uint32_t position) const {
  return Bit(kLabelMap, row, position);
}

bool DataPayload::Begins(std::uint64_t row, std::uint32_t position) const {
  return Bit(kBeginMap, row, position);
}

std::uint32_t DataPayload::CountedTokens(std::uint64_t row) const {
  std::uint32_t count = 0;
  for (const std::byte byte : maps_.subspan(row * header_.map_bytes(), header_.map_bytes())) {
    count += static_cast<std::uint32_t>(std::popcount(std::to_integer<unsigned>(byte)));
  }
  return count;
}

std::uint32_t DataPayload::Class(std::uint64_t row) const {
  return LoadLittle<std::uint32_t>(classes_.data() + 4 * row);
}

std::uint32_t DataPayload::TypeBorder(std::uint64_t row) const {
  return LoadLittle<std::uint32_t>(type_borders_.data() + 4 * row);
}

Status DataPayload::CheckIds() const {
  std::uint32_t largest = 0;
  if (header_.token_bytes() == 2) {
    for (std::size_t i = 0; i < ids_.size(); i += 2) {
      largest = std::max<std::uint32_t>(largest, LoadLittle<std::uint16_t>(ids_.data() + i));
    }
  } else {
    for (std::size_t i = 0; i < ids_.size(); i += 4) {
      largest = std::max(largest, LoadLittle<std::uint32_t>(ids_.data() + i));
    }
  }
  if (largest >= header_.vocabulary) {
    return DataLoss("token id " + std::to_string(largest) + " is outside its vocabulary of " +
                    std::to_string(header_.vocabulary) + kAgain);
  }
  return Status::Ok();
}

Status DataPayload::CheckMaps(std::uint64_t row, std::uint32_t length) const {
  const auto whole = static_cast<std::uint32_t>(header_.map_bytes() * 8);
  if (header_.segmented && !Begins(row, 0)) return BadRow(row, "has no sample at its start");
  if (Counts(row, 0)) return BadRow(row, "has a label that no token is before");
  for (std::uint32_t i = length; i < whole; ++i) {
    if (Counts(row, i) || (header_.segmented && Begins(row, i))) {
      return BadRow(row, "has bits behind its end");
    }
  }
  for (std::uint32_t i = 1; header_.segmented && i < length; ++i) {
    if (Begins(row, i) && Counts(row, i)) return BadRow(row, "has a label across two samples");
  }
  if (CountedTokens(row) == 0) return BadRow(row, "has no label");
  return Status::Ok();
}

Status DataPayload::CheckRow(std::uint64_t row) const {
  const std::uint32_t length = Length(row);
  if (length == 0 || length > header_.row_tokens) return BadRow(row, "has an impossible length");
  for (std::uint32_t i = length; i < header_.row_tokens; ++i) {
    if (Token(row, i) != static_cast<std::int32_t>(header_.padding)) {
      return BadRow(row, "has tokens behind its end");
    }
  }
  if (header_.kind == DataKind::kSamples) return CheckMaps(row, length);
  if (Class(row) >= header_.classes) return BadRow(row, "has a class that there is not");
  if (header_.typed && (TypeBorder(row) == 0 || TypeBorder(row) > length)) {
    return BadRow(row, "has token types that begin outside of it");
  }
  return Status::Ok();
}

Status DataPayload::Check() const {
  SHOAL_RETURN_IF_ERROR(CheckIds());
  if (header_.kind == DataKind::kText) return Status::Ok();
  std::uint64_t tokens = 0;
  for (std::uint64_t row = 0; row < header_.rows(); ++row) {
    SHOAL_RETURN_IF_ERROR(CheckRow(row));
    tokens += Length(row);
    if (row + 1 == header_.train.rows && tokens != header_.train.tokens) {
      return DataLoss(std::string("its training rows have another number of tokens") + kAgain);
    }
  }
  if (tokens != header_.train.tokens + header_.validation.tokens) {
    return DataLoss(std::string("its validation rows have another number of tokens") + kAgain);
  }
  return Status::Ok();
}

}  // namespace shoal::dataset
