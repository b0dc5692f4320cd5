#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <thread>

#include "common/bytes.h"
#include "common/checksum.h"
#include "common/file.h"
#include "dataset/data_header.h"
#include "dataset/prepared_data.h"
#include "dataset/text_reader.h"
#include "dataset/tokenizer.h"

namespace shoal::dataset {
namespace {

// A batch is long enough to drown the cost of a thread's start and short enough for progress.
constexpr std::size_t kBatchBytes = std::size_t{256} << 10;
constexpr int kBatchesPerThread = 8;
constexpr int kMaxThreads = 256;

Status CheckOptions(const PrepareOptions& options) {
  if (options.text_files.empty()) return InvalidArgument("no text given: name a file with --text");
  if (options.row_tokens < kMinRowTokens || options.row_tokens > kMaxRowTokens) {
    return InvalidArgument("a row of " + std::to_string(options.row_tokens) +
                           " tokens is not possible: choose 2 to 65536, at most the model's "
                           "n_positions");
  }
  if (!(options.validation_fraction >= 0 && options.validation_fraction <= 0.9)) {
    return InvalidArgument("the validation fraction must be from 0 to 0.9");
  }
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return InvalidArgument("the number of threads must be from 0 (one per core) to 256");
  }
  return Status::Ok();
}

// Found out before the long work, not after it.
Status CheckOutput(const PrepareOptions& options) {
  const std::filesystem::path output(options.output);
  std::error_code ignored;
  if (options.output.empty()) return InvalidArgument("no output given: name a file with --out");
  if (std::filesystem::is_directory(output, ignored)) {
    return InvalidArgument(options.output + " is a folder: name a file with --out");
  }
  const auto folder = output.has_parent_path() ? output.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, ignored)) {
    return NotFound("the folder of " + options.output + " does not exist: make it first");
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    return PermissionDenied("cannot write into the folder of " + options.output +
                            ": choose another --out");
  }
  for (const auto* files : {&options.text_files, &options.validation_files}) {
    for (const std::string& file : *files) {
      if (std::filesystem::equivalent(output, file, ignored)) {
        return InvalidArgument("the output " + options.output +
                               " is one of the texts: choose another --out");
      }
    }
  }
  return Status::Ok();
}

// Turns texts into the file's bytes: header place, rows of training, rows of validation.
class Preparer {
 public:
  Preparer(const PrepareOptions& options, const Tokenizer& tokenizer)
      : options_(options), tokenizer_(tokenizer), bytes_(kDataHeaderBytes, '\0') {
    header_.row_tokens = options.row_tokens;
    header_.vocabulary = tokenizer.vocabulary();
    header_.padding = static_cast<std::uint32_t>(tokenizer.end_of_text().value_or(0));
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    threads_ = options.threads > 0 ? static_cast<unsigned>(options.threads)
                                   : std::min<unsigned>(cores, kMaxThreads);
  }

  Status Run() {
    std::vector<TextReader> train, validation;
    SHOAL_RETURN_IF_ERROR(OpenAll(options_.text_files, &train));
    SHOAL_RETURN_IF_ERROR(OpenAll(options_.validation_files, &validation));
    SHOAL_RETURN_IF_ERROR(AddSplit(train, "text", &header_.train));
    if (header_.train.tokens < header_.row_tokens) {
      return InvalidArgument("the text has only " + std::to_string(header_.train.tokens) +
                             " tokens, less than one row of " + std::to_string(header_.row_tokens) +
                             ": use a smaller --row or more text");
    }
    if (validation.empty()) {
      DivideRows();
    } else {
      SHOAL_RETURN_IF_ERROR(AddSplit(validation, "validation text", &header_.validation));
    }
    header_.text = hash_.Finish();
    if (!DigestFromHex(tokenizer_.fingerprint(), &header_.tokenizer)) {
      return Internal("the tokenizer's fingerprint is not SHA-256");
    }
    header_.payload_checksum =
        Checksum64(std::as_bytes(std::span(bytes_)).subspan(kDataHeaderBytes));
    const auto head = EncodeDataHeader(header_);
    std::copy_n(reinterpret_cast<const char*>(head.data()), head.size(), bytes_.begin());
    return Status::Ok();
  }

  const std::string& bytes() const { return bytes_; }

  PrepareReport report() const {
    return {
        info(), total_bytes_, documents_, tokenizer_.end_of_text().has_value(), tokenizer_.notes(),
        0};
  }

 private:
  DataInfo info() const {
    return {header_.row_tokens, header_.train.rows,       header_.validation.rows,
            header_.vocabulary, tokenizer_.fingerprint(), DigestToHex(header_.text),
            header_.text_tokens};
  }

  Status OpenAll(const std::vector<std::string>& files, std::vector<TextReader>* readers) {
    for (const std::string& file : files) {
      SHOAL_ASSIGN_OR_RETURN(TextReader reader, TextReader::Open(file, tokenizer_));
      total_bytes_ += reader.size();
      readers->push_back(std::move(reader));
    }
    return Status::Ok();
  }

  Status AddSplit(std::vector<TextReader>& readers, const std::string& what, DataSplit* split) {
    bool first = true;
    for (TextReader& reader : readers) SHOAL_RETURN_IF_ERROR(AddFile(&reader, &first, split));
    header_.text_tokens += split->tokens;
    if (split->tokens < 2) {
      return InvalidArgument("the " + what + " is empty: it gives fewer than two tokens");
    }
    // A last row of one token would have no label.
    if (split->tokens % header_.row_tokens == 1) {
      --split->tokens;
      bytes_.resize(bytes_.size() - header_.token_bytes());
    }
    split->rows = (split->tokens + header_.row_tokens - 1) / header_.row_tokens;
    for (std::uint64_t i = split->tokens; i < split->rows * header_.row_tokens; ++i) {
      AppendToken(header_.padding);
    }
    return Status::Ok();
  }

  // The last rows become the validation split: as many as the fraction says, but where there are
  // two rows or more, each side gets one.
  void DivideRows() {
    const std::uint64_t rows = header_.train.rows;
    if (options_.validation_fraction == 0 || rows < 2) return;
    const double wanted = std::round(static_cast<double>(rows) * options_.validation_fraction);
    const auto held_out =
        std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, rows - 1);
    header_.train.rows = rows - held_out;
    header_.validation.rows = held_out;
    const std::uint64_t tokens = header_.train.tokens;
    header_.train.tokens = header_.train.rows * header_.row_tokens;
    header_.validation.tokens = tokens - header_.train.tokens;
  }

  // Encodes a file, many batches at once. Ids are appended in order, and batches begin only where
  // words do. So the ids do not depend on the number of threads.
  Status AddFile(TextReader* reader, bool* first, DataSplit* split) {
    for (;;) {
      std::vector<TextBatch> batches;
      for (unsigned i = 0; i < threads_ * kBatchesPerThread; ++i) {
        TextBatch batch;
        SHOAL_RETURN_IF_ERROR(reader->Next(kBatchBytes, &batch, &hash_));
        if (batch.file_bytes == 0) break;
        for (TextPart& part : batch.parts) {
          // From here on starts_document means: put a separator in front.
          const bool separate = part.starts_document && !*first;
          if (part.starts_document) *first = false;
          documents_ += part.starts_document;
          part.starts_document = separate;
        }
        done_bytes_ += batch.file_bytes;
        batches.push_back(std::move(batch));
      }
      if (batches.empty()) return Status::Ok();
      for (const std::vector<std::int32_t>& ids : EncodeAll(batches)) {
        for (const std::int32_t id : ids) AppendToken(static_cast<std::uint32_t>(id));
        split->tokens += ids.size();
      }
      if (options_.progress) options_.progress(done_bytes_, total_bytes_);
    }
  }

  std::vector<std::vector<std::int32_t>> EncodeAll(const std::vector<TextBatch>& batches) const {
    std::vector<std::vector<std::int32_t>> ids(batches.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i; (i = next.fetch_add(1)) < batches.size();) {
        for (const TextPart& part : batches[i].parts) {
          if (part.starts_document && tokenizer_.end_of_text()) {
            ids[i].push_back(*tokenizer_.end_of_text());
          }
          tokenizer_.Encode(part.text, &ids[i]);
        }
      }
    };
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < std::min<std::size_t>(threads_, batches.size()); ++i) {
      helpers.emplace_back(work);
    }
    work();
    helpers.clear();
    return ids;
  }

  void AppendToken(std::uint32_t id) {
    std::byte token[4];
    StoreLittle<std::uint32_t>(token, id);
    bytes_.append(reinterpret_cast<const char*>(token), header_.token_bytes());
  }

  const PrepareOptions& options_;
  const Tokenizer& tokenizer_;
  unsigned threads_ = 1;
  DataHeader header_;
  Sha256 hash_;
  std::string bytes_;
  std::uint64_t done_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t documents_ = 0;
};

Result<PrepareReport> Prepare(const PrepareOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  SHOAL_RETURN_IF_ERROR(CheckOptions(options));
  SHOAL_RETURN_IF_ERROR(CheckOutput(options));
  SHOAL_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(options.tokenizer_directory));
  Preparer preparer(options, *tokenizer);
  SHOAL_RETURN_IF_ERROR(preparer.Run());
  if (const Status status = WriteFileAtomic(options.output, preparer.bytes()); !status.ok()) {
    return Status(status.code(), status.message() +
                                     "; nothing was replaced: free space there or choose another "
                                     "--out");
  }
  PrepareReport report = preparer.report();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace

Result<PrepareReport> PrepareData(const PrepareOptions& options) {
  try {
    return Prepare(options);
  } catch (const std::exception& error) {
    return ResourceExhausted(std::string("out of memory or threads while preparing data (") +
                             error.what() + "): prepare less text at once or use fewer --threads");
  }
}

}  // namespace shoal::dataset
