// Segments: samples that share a row, and the padding around them.
//
// A row's positions carry the number of the segment that they belong to; a negative number is
// padding. Tokens see only their own segment, and positions begin again in each. Pure; thread: any.

#ifndef SHOAL_MODEL_BLOCKS_ROW_SEGMENTS_H_
#define SHOAL_MODEL_BLOCKS_ROW_SEGMENTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/status.h"

namespace shoal::model {

struct RowSegment {
  std::int64_t row = 0, first = 0, tokens = 0;  // [first, first + tokens) of the row
  bool operator==(const RowSegment&) const = default;
};

// From `numbers`, rows x `tokens` of them; in order, without padding. A number that a row has in
// two places is an invalid argument.
Result<std::vector<RowSegment>> FindSegments(std::span<const std::int32_t> numbers,
                                             std::int64_t tokens);
// Whether each of `rows` rows is one segment, as it is without any numbers.
bool AreWholeRows(std::span<const RowSegment> segments, std::int64_t rows, std::int64_t tokens);
// The place of each position in its segment, rows x tokens; 0 at padding.
std::vector<std::int32_t> PositionsOf(std::span<const RowSegment> segments, std::int64_t rows,
                                      std::int64_t tokens);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_BLOCKS_ROW_SEGMENTS_H_
