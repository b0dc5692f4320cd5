#include "dataset/prepare/text_rows.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/bytes.h"
#include "common/checksum.h"
#include "dataset/text_reader.h"

namespace shoal::dataset {
namespace {

// What stands before a part of a document.
struct PartStart {
  bool document = false;  // it is the document's first part
  bool separator = false;
};

struct EncodedBatch {
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> part_tokens;  // without what stands before
};

// Turns texts into the file's bytes: header place, rows of training, rows of validation.
class TextRows {
 public:
  TextRows(const PrepareOptions& options, const Tokenizer& tokenizer)
      : options_(options), tokenizer_(tokenizer), threads_(ThreadsOf(options)) {
    made_.header = HeaderFor(options, tokenizer);
    made_.bytes.assign(kDataHeaderBytes, '\0');
  }

  Result<MadeRows> Run() {
    DataHeader& header = made_.header;
    std::vector<TextReader> train, validation;
    SHOAL_RETURN_IF_ERROR(OpenAll(options_.text_files, &train));
    SHOAL_RETURN_IF_ERROR(OpenAll(options_.validation_files, &validation));
    SHOAL_RETURN_IF_ERROR(AddSplit(train, "text", options_.text_files, &header.train));
    if (header.train.tokens < header.row_tokens) {
      return InvalidArgument("the text has only " + std::to_string(header.train.tokens) +
                             " tokens, less than one row of " + std::to_string(header.row_tokens) +
                             ": use a smaller --row or more text");
    }
    if (validation.empty()) {
      DivideRows();
    } else {
      SHOAL_RETURN_IF_ERROR(
          AddSplit(validation, "validation text", options_.validation_files, &header.validation));
    }
    header.text = hash_.Finish();
    header.payload_checksum =
        Checksum64(std::as_bytes(std::span(made_.bytes)).subspan(kDataHeaderBytes));
    PrepareReport& report = made_.report;
    report.documents = document_tokens_.size();
    report.lengths = HistogramOf(document_tokens_);
    for (const DataSplit* split : {&header.train, &header.validation}) {
      report.used_tokens += split->tokens;
      if (split->tokens > 0) report.loss_tokens += split->tokens - 1;
    }
    return std::move(made_);
  }

 private:
  Status OpenAll(const std::vector<std::string>& files, std::vector<TextReader>* readers) {
    for (const std::string& file : files) {
      SHOAL_ASSIGN_OR_RETURN(TextReader reader, TextReader::Open(file, tokenizer_));
      made_.report.text_bytes += reader.size();
      readers->push_back(std::move(reader));
    }
    return Status::Ok();
  }

  Status AddSplit(std::vector<TextReader>& readers, const std::string& what,
                  const std::vector<std::string>& files, DataSplit* split) {
    DataHeader& header = made_.header;
    bool first = true;
    for (TextReader& reader : readers) SHOAL_RETURN_IF_ERROR(AddFile(&reader, &first, split));
    header.text_tokens += split->tokens;
    if (split->tokens < 2) {
      const std::string more = files.size() > 1 ? " and the files behind it give" : " gives";
      return InvalidArgument("the " + what + " is empty: " + files.front() + more +
                             " fewer than two tokens; name a file with text");
    }
    // A last row of one token would have no label.
    if (split->tokens % header.row_tokens == 1) {
      --split->tokens;
      made_.bytes.resize(made_.bytes.size() - header.token_bytes());
    }
    split->rows = (split->tokens + header.row_tokens - 1) / header.row_tokens;
    for (std::uint64_t i = split->tokens; i < split->rows * header.row_tokens; ++i) {
      AppendToken(header.padding);
    }
    return Status::Ok();
  }

  // The last rows become the validation split.
  void DivideRows() {
    DataHeader& header = made_.header;
    const std::uint64_t held_out = HeldOut(header.train.rows, options_.validation_fraction);
    if (held_out == 0) return;
    header.train.rows -= held_out;
    header.validation.rows = held_out;
    const std::uint64_t tokens = header.train.tokens;
    header.train.tokens = header.train.rows * header.row_tokens;
    header.validation.tokens = tokens - header.train.tokens;
  }

  // Encodes a file, many batches at once. Ids are appended in order, and batches begin only where
  // words do. So the ids do not depend on the number of threads.
  Status AddFile(TextReader* reader, bool* first, DataSplit* split) {
    for (;;) {
      std::vector<TextBatch> batches;
      std::vector<std::vector<PartStart>> starts;
      for (unsigned i = 0; i < threads_ * kBatchesPerThread; ++i) {
        TextBatch batch;
        SHOAL_RETURN_IF_ERROR(reader->Next(kBatchBytes, &batch, &hash_));
        if (batch.file_bytes == 0) break;
        starts.emplace_back();
        for (const TextPart& part : batch.parts) {
          starts.back().push_back({part.starts_document, part.starts_document && !*first});
          if (part.starts_document) *first = false;
        }
        done_bytes_ += batch.file_bytes;
        batches.push_back(std::move(batch));
      }
      if (batches.empty()) return Status::Ok();
      std::vector<EncodedBatch> encoded(batches.size());
      ForEachOnThreads(batches.size(), threads_,
                       [&](std::size_t i) { EncodeBatch(batches[i], starts[i], &encoded[i]); });
      for (std::size_t i = 0; i < batches.size(); ++i) {
        for (const std::int32_t id : encoded[i].ids) AppendToken(static_cast<std::uint32_t>(id));
        split->tokens += encoded[i].ids.size();
        CountDocuments(starts[i], encoded[i].part_tokens);
      }
      if (options_.progress) options_.progress(done_bytes_, made_.report.text_bytes);
    }
  }

  void EncodeBatch(const TextBatch& batch, const std::vector<PartStart>& starts,
                   EncodedBatch* encoded) const {
    for (std::size_t i = 0; i < batch.parts.size(); ++i) {
      if (starts[i].separator && tokenizer_.end_of_text()) {
        encoded->ids.push_back(*tokenizer_.end_of_text());
      }
      if (starts[i].document) {
        const auto& before = tokenizer_.wrapping().before;
        encoded->ids.insert(encoded->ids.end(), before.begin(), before.end());
      }
      const std::size_t begin = encoded->ids.size();
      tokenizer_.Encode(batch.parts[i].text, &encoded->ids);
      encoded->part_tokens.push_back(encoded->ids.size() - begin);
    }
  }

  void CountDocuments(const std::vector<PartStart>& starts,
                      const std::vector<std::size_t>& tokens) {
    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (starts[i].document) document_tokens_.push_back(0);
      document_tokens_.back() += static_cast<std::uint32_t>(tokens[i]);
    }
  }

  void AppendToken(std::uint32_t id) {
    std::byte token[4];
    StoreLittle<std::uint32_t>(token, id);
    made_.bytes.append(reinterpret_cast<const char*>(token), made_.header.token_bytes());
  }

  const PrepareOptions& options_;
  const Tokenizer& tokenizer_;
  const unsigned threads_;
  MadeRows made_;
  Sha256 hash_;
  std::vector<std::uint32_t> document_tokens_;
  std::uint64_t done_bytes_ = 0;
};

}  // namespace

Result<MadeRows> MakeTextRows(const PrepareOptions& options, const Tokenizer& tokenizer) {
  return TextRows(options, tokenizer).Run();
}

}  // namespace shoal::dataset
