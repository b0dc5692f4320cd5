#include "dataset/prepared_data.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/checksum.h"
#include "common/file.h"
#include "dataset/data_header.h"
#include "dataset/data_payload.h"

namespace shoal::dataset {
namespace {

class MappedPreparedData final : public PreparedData {
 public:
  MappedPreparedData(std::shared_ptr<const MappedFile> file, const DataHeader& header)
      : file_(std::move(file)),
        header_(header),
        payload_(header, file_->bytes().subspan(kDataHeaderBytes)) {
    info_.row_tokens = header.row_tokens;
    info_.train_rows = header.train.rows;
    info_.validation_rows = header.validation.rows;
    info_.vocabulary = header.vocabulary;
    info_.tokenizer_fingerprint = DigestToHex(header.tokenizer);
    info_.text_sha256 = DigestToHex(header.text);
    info_.tokens = header.text_tokens;
    info_.kind = header.kind;
    info_.segmented = header.segmented;
    info_.classes = header.classes;
    info_.typed = header.typed;
  }

  const DataInfo& info() const override { return info_; }

  Status AppendRow(SampleId sample, std::vector<std::int32_t>* tokens,
                   std::vector<std::int32_t>* labels,
                   std::vector<std::int32_t>* segments) const override {
    const std::uint64_t row = sample.value;
    if (row >= header_.rows()) {
      return OutOfRange("sample " + std::to_string(row) + " is not in " + file_->path() +
                        ", which has " + std::to_string(header_.rows()) + " rows");
    }
    for (std::uint32_t i = 0; i < header_.row_tokens; ++i) {
      tokens->push_back(payload_.Token(row, i));
    }
    switch (header_.kind) {
      case DataKind::kText: AppendTextLabels(sample, labels); break;
      case DataKind::kSamples: AppendSampleLabels(row, labels); break;
      case DataKind::kClasses:
        labels->push_back(static_cast<std::int32_t>(payload_.Class(row)));
        labels->insert(labels->end(), header_.row_tokens - 1, kIgnoreLabel);
        break;
    }
    if (header_.segmented) AppendSegments(row, segments);
    return Status::Ok();
  }

  std::uint32_t TypeBorder(SampleId sample) const override {
    const std::uint64_t row = sample.value;
    if (!header_.typed || row >= header_.rows()) return header_.row_tokens;
    // In a shorter row what is behind its end is padding, of no type.
    const std::uint32_t border = payload_.TypeBorder(row);
    return border < payload_.Length(row) ? border : header_.row_tokens;
  }

  std::uint32_t LabelCount(SampleId sample) const override {
    if (sample.value >= header_.rows()) return 0;
    switch (header_.kind) {
      case DataKind::kText: return TextLabelCount(sample);
      case DataKind::kSamples: return payload_.CountedTokens(sample.value);
      case DataKind::kClasses: break;
    }
    return 1;
  }

 private:
  // A token's label is the next token of the same split, be it in the next row.
  std::uint32_t TextLabelCount(SampleId sample) const {
    const bool train = sample.value < header_.train.rows;
    const DataSplit& split = train ? header_.train : header_.validation;
    const std::uint64_t row = train ? sample.value : sample.value - header_.train.rows;
    const std::uint64_t behind = split.tokens - row * header_.row_tokens - 1;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(behind, header_.row_tokens));
  }

  void AppendTextLabels(SampleId sample, std::vector<std::int32_t>* labels) const {
    const std::uint32_t count = TextLabelCount(sample);
    for (std::uint32_t i = 0; i < header_.row_tokens; ++i) {
      labels->push_back(i < count ? NextToken(sample.value, i) : kIgnoreLabel);
    }
  }

  std::int32_t NextToken(std::uint64_t row, std::uint32_t position) const {
    return position + 1 < header_.row_tokens ? payload_.Token(row, position + 1)
                                             : payload_.Token(row + 1, 0);
  }

  void AppendSampleLabels(std::uint64_t row, std::vector<std::int32_t>* labels) const {
    for (std::uint32_t i = 1; i < header_.row_tokens; ++i) {
      labels->push_back(payload_.Counts(row, i) ? payload_.Token(row, i) : kIgnoreLabel);
    }
    labels->push_back(kIgnoreLabel);
  }

  void AppendSegments(std::uint64_t row, std::vector<std::int32_t>* segments) const {
    const std::uint32_t length = payload_.Length(row);
    std::int32_t segment = 0;
    for (std::uint32_t i = 0; i < header_.row_tokens; ++i) {
      if (header_.kind == DataKind::kSamples && i > 0 && i < length && payload_.Begins(row, i)) {
        ++segment;
      }
      segments->push_back(i < length ? segment : kPaddingSegment);
    }
  }

  const std::shared_ptr<const MappedFile> file_;
  const DataHeader header_;
  const DataPayload payload_;
  DataInfo info_;
};

Result<DataHeader> CheckFile(std::span<const std::byte> bytes) {
  SHOAL_ASSIGN_OR_RETURN(
      const DataHeader header,
      DecodeDataHeader(bytes.first(std::min(bytes.size(), kDataHeaderBytes)), bytes.size()));
  const auto payload = bytes.subspan(kDataHeaderBytes);
  if (Checksum64(payload) != header.payload_checksum) {
    return DataLoss("its rows are damaged (wrong checksum); run `shoal prepare` again");
  }
  SHOAL_RETURN_IF_ERROR(DataPayload(header, payload).Check());
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
