// SampleReader: the samples of one file, unparsed, in batches.

#ifndef SHOAL_DATASET_PREPARE_SAMPLE_READER_H_
#define SHOAL_DATASET_PREPARE_SAMPLE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/file.h"
#include "common/status.h"
#include "dataset/json_records.h"
#include "dataset/prepare/raw_sample.h"
#include "dataset/prepare/table_columns.h"
#include "dataset/sha256.h"
#include "dataset/text_kind.h"

namespace shoal::dataset {

// A sample that is not parsed yet, so that many threads can do it.
struct SampleRecord {
  std::string_view json;                           // points into the reader; or empty, and:
  std::string text, label;                         // of a table
  std::uint64_t line = 0;                          // from 1
  std::optional<std::string> pair = std::nullopt;  // the second text
};

struct SampleBatch {
  std::vector<SampleRecord> records;
  std::size_t file_bytes = 0;  // how much of the file the batch covers
};

// Thread: one at a time.
class SampleReader {
 public:
  // Reads up to the first sample. What no sample can be read from is an invalid argument that names
  // the file, and the line.
  static Result<SampleReader> Open(const std::string& path, const SampleColumns& columns);

  // Nothing where the file has no samples. Plain text is one document.
  std::optional<SampleForm> form() const { return form_; }
  const std::string& path() const { return file_->path(); }
  std::size_t size() const { return bytes_.size(); }

  // Fills *batch with samples of about `target` bytes of file and feeds them to *hash; no bytes at
  // the end.
  Status Next(std::size_t target, SampleBatch* batch, Sha256* hash);
  Result<RawSample> Parse(const SampleRecord& record) const;

 private:
  SampleReader(TextFile file, const SampleColumns& columns);
  bool table() const { return kind_ == TextKind::kCsv || kind_ == TextKind::kTsv; }
  Status FindForm();
  Status FindFormOfTable();
  Status NextObjects(std::size_t target, SampleBatch* batch);
  Status NextRows(std::size_t target, SampleBatch* batch);
  // The next record of a table that is no blank line, and its line; false at the end.
  Result<bool> TakeRow(std::vector<std::string>* fields, std::uint64_t* line);

  std::shared_ptr<const MappedFile> file_;
  SampleColumns wanted_;
  TextKind kind_;
  std::string_view bytes_;
  std::optional<SampleForm> form_;
  JsonRecords objects_;
  TableColumns columns_;
  std::size_t position_ = 0;
  std::size_t batched_ = 0;  // where the last batch ended
  std::uint64_t line_ = 1;   // of a table
};

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARE_SAMPLE_READER_H_
