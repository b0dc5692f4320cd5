#include "dataset/prepared_data.h"

#include <algorithm>
#include <cstring>

#include "common/bytes.h"
#include "common/checksum.h"
#include "common/file.h"
#include "dataset/data_header.h"

namespace shoal::dataset {
namespace {

class MappedPreparedData final : public PreparedData {
 public:
  MappedPreparedData(std::shared_ptr<const MappedFile> file, const DataHeader& header)
      : file_(std::move(file)), header_(header) {
    info_.row_tokens = header.row_tokens;
    info_.train_rows = header.train.rows;
    info_.validation_rows = header.validation.rows;
    info_.vocabulary = header.vocabulary;
    info_.tokenizer_fingerprint = DigestToHex(header.tokenizer);
    info_.text_sha256 = DigestToHex(header.text);
    info_.tokens = header.text_tokens;
  }

  const DataInfo& info() const override { return info_; }

  Status AppendRow(SampleId sample, std::vector<std::int32_t>* tokens,
                   std::vector<std::int32_t>* labels,
                   std::vector<std::int32_t>* /*segments*/) const override {
    if (sample.value >= header_.rows()) {
      return OutOfRange("sample " + std::to_string(sample.value) + " is not in " + file_->path() +
                        ", which has " + std::to_string(header_.rows()) + " rows");
    }
    const std::uint64_t first = sample.value * header_.row_tokens;
    const std::uint32_t count = LabelCount(sample);
    for (std::uint32_t i = 0; i < header_.row_tokens; ++i) {
      tokens->push_back(TokenAt(first + i));
      labels->push_back(i < count ? TokenAt(first + i + 1) : kIgnoreLabel);
    }
    return Status::Ok();
  }

  // A token's label is the next token of the same split, be it in the next row.
  std::uint32_t LabelCount(SampleId sample) const override {
    if (sample.value >= header_.rows()) return 0;
    const bool train = sample.value < header_.train.rows;
    const DataSplit& split = train ? header_.train : header_.validation;
    const std::uint64_t row = train ? sample.value : sample.value - header_.train.rows;
    const std::uint64_t behind = split.tokens - row * header_.row_tokens - 1;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(behind, header_.row_tokens));
  }

  std::int32_t TokenAt(std::uint64_t position) const {
    const std::byte* payload = file_->bytes().data() + kDataHeaderBytes;
    return header_.token_bytes() == 2
               ? static_cast<std::int32_t>(LoadLittle<std::uint16_t>(payload + 2 * position))
               : static_cast<std::int32_t>(LoadLittle<std::uint32_t>(payload + 4 * position));
  }

 private:
  const std::shared_ptr<const MappedFile> file_;
  const DataHeader header_;
  DataInfo info_;
};

// A checksum is no defence against a file made to harm: an id outside the vocabulary would read
// outside the embedding.
Status CheckIds(std::span<const std::byte> payload, const DataHeader& header) {
  std::uint32_t largest = 0;
  if (header.token_bytes() == 2) {
    for (std::size_t i = 0; i < payload.size(); i += 2) {
      largest = std::max<std::uint32_t>(largest, LoadLittle<std::uint16_t>(payload.data() + i));
    }
  } else {
    for (std::size_t i = 0; i < payload.size(); i += 4) {
      largest = std::max(largest, LoadLittle<std::uint32_t>(payload.data() + i));
    }
  }
  if (largest >= header.vocabulary) {
    return DataLoss("token id " + std::to_string(largest) + " is outside its vocabulary of " +
                    std::to_string(header.vocabulary) + "; run `shoal prepare` again");
  }
  return Status::Ok();
}

Result<DataHeader> CheckFile(std::span<const std::byte> bytes) {
  SHOAL_ASSIGN_OR_RETURN(
      const DataHeader header,
      DecodeDataHeader(bytes.first(std::min(bytes.size(), kDataHeaderBytes)), bytes.size()));
  const auto payload = bytes.subspan(kDataHeaderBytes);
  if (Checksum64(payload) != header.payload_checksum) {
    return DataLoss("its rows are damaged (wrong checksum); run `shoal prepare` again");
  }
  SHOAL_RETURN_IF_ERROR(CheckIds(payload, header));
  return header;
}

}  // namespace

Result<std::shared_ptr<const PreparedData>> OpenPreparedData(const std::string& path) {
  Result<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path);
  if (!file.ok()) {
    return Status(file.status().code(),
                  file.status().message() + "; make prepared data with `shoal prepare`");
  }
  const Result<DataHeader> header = CheckFile((*file)->bytes());
  if (!header.ok()) return header.status().WithContext(path);
  return std::shared_ptr<const PreparedData>(
      std::make_shared<MappedPreparedData>(std::move(*file), *header));
}

}  // namespace shoal::dataset
