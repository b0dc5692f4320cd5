#include "dataset/data_header.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "common/bytes.h"
#include "common/checksum.h"

namespace shoal::dataset {
namespace {

constexpr char kMagic[8] = {'S', 'H', 'O', 'A', 'L', 'D', 'A', 'T'};

constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kTokenBytesAt = 12;
constexpr std::size_t kRowTokensAt = 16;
constexpr std::size_t kVocabularyAt = 20;
constexpr std::size_t kPaddingAt = 24;
constexpr std::size_t kKindAt = 28;
constexpr std::size_t kTrainRowsAt = 32;
constexpr std::size_t kTrainTokensAt = 40;
constexpr std::size_t kValidationRowsAt = 48;
constexpr std::size_t kValidationTokensAt = 56;
constexpr std::size_t kTextTokensAt = 64;
constexpr std::size_t kTokenizerAt = 72;
constexpr std::size_t kTextAt = 104;
constexpr std::size_t kPayloadChecksumAt = 136;
constexpr std::size_t kSegmentedAt = 144;
constexpr std::size_t kClassesAt = 148;
constexpr std::size_t kTypedAt = 152;
constexpr std::size_t kReservedAt = 156;
constexpr std::size_t kHeaderChecksumAt = 184;

// So that rows x positions x bytes cannot overflow.
constexpr std::uint64_t kMaxRows = std::uint64_t{1} << 40;
constexpr std::uint32_t kMaxVocabulary = std::numeric_limits<std::int32_t>::max();

constexpr char kAgain[] = "; run `shoal prepare` again";

// The fewest tokens that `rows` rows may have. Of text every row is full but the last, which has at
// least the two tokens that make a label.
std::uint64_t FewestTokens(const DataHeader& header, std::uint64_t rows) {
  switch (header.kind) {
    case DataKind::kText: return (rows - 1) * header.row_tokens + 2;
    case DataKind::kSamples: return 2 * rows;
    case DataKind::kClasses: break;
  }
  return rows;
}

Status CheckSplit(const DataSplit& split, const DataHeader& header) {
  if (split.rows > kMaxRows) return DataLoss(std::string("too many rows") + kAgain);
  if (split.rows == 0 && split.tokens == 0) return Status::Ok();
  if (split.rows == 0 || split.tokens > split.rows * header.row_tokens ||
      split.tokens < FewestTokens(header, split.rows)) {
    return DataLoss(std::string("its counts of rows and tokens do not fit") + kAgain);
  }
  return Status::Ok();
}

Status CheckKind(const DataHeader& header) {
  const bool classes = header.kind == DataKind::kClasses;
  if (classes != (header.classes > 0) || header.classes > kMaxClasses ||
      (classes && !header.segmented)) {
    return DataLoss("its number of classes, " + std::to_string(header.classes) + ", is impossible" +
                    kAgain);
  }
  return Status::Ok();
}

Status CheckFields(const DataHeader& header) {
  if (header.row_tokens < kMinRowTokens || header.row_tokens > kMaxRowTokens) {
    return DataLoss("its row length of " + std::to_string(header.row_tokens) +
                    " is not in 2..65536" + kAgain);
  }
  if (header.vocabulary == 0 || header.vocabulary > kMaxVocabulary ||
      header.padding >= header.vocabulary) {
    return DataLoss(std::string("its vocabulary size is impossible") + kAgain);
  }
  if (header.train.rows == 0) return DataLoss(std::string("it has no training rows") + kAgain);
  SHOAL_RETURN_IF_ERROR(CheckKind(header));
  SHOAL_RETURN_IF_ERROR(CheckSplit(header.train, header));
  return CheckSplit(header.validation, header);
}

bool AllZero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

std::array<std::byte, kDataHeaderBytes> EncodeDataHeader(const DataHeader& header) {
  std::array<std::byte, kDataHeaderBytes> bytes{};
  std::byte* to = bytes.data();
  std::memcpy(to, kMagic, sizeof(kMagic));
  StoreLittle<std::uint32_t>(to + kVersionAt, header.version());
  StoreLittle<std::uint32_t>(to + kTokenBytesAt, header.token_bytes());
  StoreLittle<std::uint32_t>(to + kRowTokensAt, header.row_tokens);
  StoreLittle<std::uint32_t>(to + kVocabularyAt, header.vocabulary);
  StoreLittle<std::uint32_t>(to + kPaddingAt, header.padding);
  StoreLittle<std::uint32_t>(to + kKindAt, static_cast<std::uint32_t>(header.kind));
  StoreLittle<std::uint64_t>(to + kTrainRowsAt, header.train.rows);
  StoreLittle<std::uint64_t>(to + kTrainTokensAt, header.train.tokens);
  StoreLittle<std::uint64_t>(to + kValidationRowsAt, header.validation.rows);
  StoreLittle<std::uint64_t>(to + kValidationTokensAt, header.validation.tokens);
  StoreLittle<std::uint64_t>(to + kTextTokensAt, header.text_tokens);
  std::memcpy(to + kTokenizerAt, header.tokenizer.data(), header.tokenizer.size());
  std::memcpy(to + kTextAt, header.text.data(), header.text.size());
  StoreLittle<std::uint64_t>(to + kPayloadChecksumAt, header.payload_checksum);
  StoreLittle<std::uint32_t>(to + kSegmentedAt, header.segmented ? 1 : 0);
  StoreLittle<std::uint32_t>(to + kClassesAt, header.classes);
  StoreLittle<std::uint32_t>(to + kTypedAt, header.typed ? 1 : 0);
  StoreLittle<std::uint64_t>(to + kHeaderChecksumAt,
                             Checksum64(std::span(bytes).first(kHeaderChecksumAt)));
  return bytes;
}

Result<DataHeader> DecodeDataHeader(std::span<const std::byte> bytes, std::uint64_t file_bytes) {
  if (bytes.size() < sizeof(kMagic) || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0) {
    return InvalidArgument(
        "not prepared data (no SHOALDAT at its start); make it with "
        "`shoal prepare`");
  }
  if (bytes.size() < kDataHeaderBytes) {
    return DataLoss(std::string("its header is cut short") + kAgain);
  }
  const std::byte* from = bytes.data();
  const auto version = LoadLittle<std::uint32_t>(from + kVersionAt);
  if (version < kTextDataVersion || version > kTypedDataVersion) {
    return FailedPrecondition("its format version is " + std::to_string(version) +
                              ", this shoal reads " + std::to_string(kTextDataVersion) + " to " +
                              std::to_string(kTypedDataVersion) + kAgain);
  }
  if (LoadLittle<std::uint64_t>(from + kHeaderChecksumAt) !=
      Checksum64(bytes.first(kHeaderChecksumAt))) {
    return DataLoss(std::string("its header is damaged (wrong checksum)") + kAgain);
  }
  DataHeader header;
  const auto kind = LoadLittle<std::uint32_t>(from + kKindAt);
  const auto segmented = LoadLittle<std::uint32_t>(from + kSegmentedAt);
  if (kind <= static_cast<std::uint32_t>(DataKind::kClasses)) {
    header.kind = static_cast<DataKind>(kind);
  }
  const auto typed = LoadLittle<std::uint32_t>(from + kTypedAt);
  header.segmented = segmented == 1;
  header.typed = typed == 1;
  header.classes = LoadLittle<std::uint32_t>(from + kClassesAt);
  header.row_tokens = LoadLittle<std::uint32_t>(from + kRowTokensAt);
  header.vocabulary = LoadLittle<std::uint32_t>(from + kVocabularyAt);
  header.padding = LoadLittle<std::uint32_t>(from + kPaddingAt);
  header.train.rows = LoadLittle<std::uint64_t>(from + kTrainRowsAt);
  header.train.tokens = LoadLittle<std::uint64_t>(from + kTrainTokensAt);
  header.validation.rows = LoadLittle<std::uint64_t>(from + kValidationRowsAt);
  header.validation.tokens = LoadLittle<std::uint64_t>(from + kValidationTokensAt);
  header.text_tokens = LoadLittle<std::uint64_t>(from + kTextTokensAt);
  std::memcpy(header.tokenizer.data(), from + kTokenizerAt, header.tokenizer.size());
  std::memcpy(header.text.data(), from + kTextAt, header.text.size());
  header.payload_checksum = LoadLittle<std::uint64_t>(from + kPayloadChecksumAt);
  SHOAL_RETURN_IF_ERROR(CheckFields(header));
  if (LoadLittle<std::uint32_t>(from + kTokenBytesAt) != header.token_bytes() ||
      kind != static_cast<std::uint32_t>(header.kind) || version != header.version() ||
      segmented > 1 || (header.segmented && header.kind == DataKind::kText) || typed > 1 ||
      (header.typed && header.kind != DataKind::kClasses) ||
      !AllZero(bytes.subspan(kReservedAt, kHeaderChecksumAt - kReservedAt))) {
    return DataLoss(std::string("its header has impossible fields") + kAgain);
  }
  if (file_bytes != kDataHeaderBytes + header.payload_bytes()) {
    return DataLoss("it has " + std::to_string(file_bytes) + " bytes instead of " +
                    std::to_string(kDataHeaderBytes + header.payload_bytes()) + kAgain);
  }
  return header;
}

}  // namespace shoal::dataset
