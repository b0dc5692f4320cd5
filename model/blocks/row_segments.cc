#include "model/blocks/row_segments.h"

#include <algorithm>
#include <set>
#include <string>

namespace shoal::model {

Result<std::vector<RowSegment>> FindSegments(std::span<const std::int32_t> numbers,
                                             std::int64_t tokens) {
  std::vector<RowSegment> segments;
  std::set<std::int32_t> seen;  // in this row
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / tokens;
    const auto token = static_cast<std::int64_t>(i) % tokens;
    if (token == 0) seen.clear();
    if (numbers[i] < 0) continue;
    if (token > 0 && numbers[i] == numbers[i - 1]) {
      ++segments.back().tokens;
      continue;
    }
    if (!seen.insert(numbers[i]).second) {
      return InvalidArgument("segment " + std::to_string(numbers[i]) + " of row " +
                             std::to_string(row) + " lies in two places; prepare the data again");
    }
    segments.push_back({row, token, 1});
  }
  return segments;
}

bool AreWholeRows(std::span<const RowSegment> segments, std::int64_t rows, std::int64_t tokens) {
  const auto whole = [&](const RowSegment& segment) { return segment.tokens == tokens; };
  return static_cast<std::int64_t>(segments.size()) == rows && std::ranges::all_of(segments, whole);
}

std::vector<std::int32_t> PositionsOf(std::span<const RowSegment> segments, std::int64_t rows,
                                      std::int64_t tokens) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(rows * tokens));
  for (const RowSegment& segment : segments) {
    for (std::int64_t i = 0; i < segment.tokens; ++i) {
      positions[static_cast<std::size_t>(segment.row * tokens + segment.first + i)] =
          static_cast<std::int32_t>(i);
    }
  }
  return positions;
}

}  // namespace shoal::model
