// A row as people read it: its text, with the tokens marked that the loss counts on.

#ifndef SHOAL_DATASET_PREPARE_ROW_PREVIEW_H_
#define SHOAL_DATASET_PREPARE_ROW_PREVIEW_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "dataset/prepared_data.h"
#include "dataset/tokenizer.h"

namespace shoal::dataset {

// Neighbouring tokens of one sample that count, or do not.
struct PreviewPiece {
  std::string text;  // the tokens' bytes
  bool counts = false;
  bool begins_sample = false;

  bool operator==(const PreviewPiece&) const = default;
};

// Without padding. Of classes nothing counts.
Result<std::vector<PreviewPiece>> PreviewRow(const PreparedData& data, SampleId sample,
                                             const Tokenizer& tokenizer);

// What a terminal may be sent: control characters and bytes that are no UTF-8 as \n, \x1b and so
// on, a backslash doubled. Longer than `bytes_max`, the middle is left out.
std::string Escaped(std::string_view text, std::size_t bytes_max);

// Pieces that count in green, or between {+ and +}; samples behind the first after " | ". Long rows
// are shortened.
std::string FormatPreview(std::span<const PreviewPiece> pieces, bool colours);

}  // namespace shoal::dataset

#endif  // SHOAL_DATASET_PREPARE_ROW_PREVIEW_H_
