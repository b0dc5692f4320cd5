// PreparedData: the memory-mapped file of token rows that `shoal prepare` makes.
//
// Rows of fixed length; sample id = row number, training rows first, then validation rows. A row
// may be shorter: positions behind its length are padding without label.
// Layout in docs/STORAGE.md. Thread: any (read-only).

#ifndef SHOAL_DATASET_PREPARED_DATA_H_
#define SHOAL_DATASET_PREPARED_DATA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "dataset/data_kind.h"

namespace shoal::dataset {

// Label of a position that does not count.
inline constexpr std::int32_t kIgnoreLabel = -100;

// Segment of a padding position.
inline constexpr std::int32_t kPaddingSegment = -1;

struct DataInfo {
  std::uint32_t row_tokens = 0;
  std::uint64_t train_rows = 0;
  std::uint64_t validation_rows = 0;
  std::uint32_t vocabulary = 0;
  std::string tokenizer_fingerprint;  // SHA-256 hex
  std::string text_sha256;            // of all input text
  std::uint64_t tokens = 0;           // before cutting into rows
  DataKind kind = DataKind::kText;
  // Tokens of a row see only tokens of the same segment: rows hold several samples, or padding that
  // must not be seen.
  bool segmented = false;
  std::uint32_t classes = 0;  // of kClasses, else 0
  bool typed = false;         // not all tokens have the token type 0
};

class PreparedData {
 public:
  virtual ~PreparedData() = default;
  virtual const DataInfo& info() const = 0;
  // Appends row_tokens ids, as many labels (the next token, or kIgnoreLabel) and, if
  // info().segmented, as many segments: the number of the position's sample within the row, from
  // 0, or kPaddingSegment. Of kClasses the first label is the row's class in [0, classes), all
  // others are kIgnoreLabel.
  virtual Status AppendRow(SampleId sample, std::vector<std::int32_t>* tokens,
                           std::vector<std::int32_t>* labels,
                           std::vector<std::int32_t>* segments) const = 0;
  // The first position of a row whose token has the token type 1, as all behind it; at least 1.
  // info().row_tokens where none has, or where there is no such row.
  virtual std::uint32_t TypeBorder(SampleId sample) const {
    static_cast<void>(sample);
    return info().row_tokens;
  }
  // Labels of a row that count.
  virtual std::uint32_t LabelCount(SampleId sample) const = 0;
};

// Maps `path` and checks header, sizes and checksum; the error says what to do.
Result<std::shared_ptr<const PreparedData>> OpenPreparedData(const std::string& path);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARED_DATA_H_
