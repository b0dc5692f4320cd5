// UsageHistory: what a peer or a run moved and did over the last hours, by the minute, and over the
// last week, by ten minutes. Its file is <directory>/history.bin (docs/STORAGE.md). Pure.

#ifndef SHOAL_STORAGE_HISTORY_USAGE_HISTORY_H_
#define SHOAL_STORAGE_HISTORY_USAGE_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "common/status.h"

namespace shoal::storage {

struct HistoryCounts {
  std::uint64_t trained_ms = 0;  // time in state training
  std::uint64_t micro_batches = 0;
  std::uint64_t sent_bytes = 0, received_bytes = 0;  // on the wire
};

// Of a time that begins at `minute` (since 1970). Without one the program did not run then.
struct HistoryPoint {
  std::uint32_t minute = 0;
  std::uint32_t micro_batches = 0;
  std::uint64_t sent_bytes = 0, received_bytes = 0;
  std::uint32_t trained_ms = 0;
  float loss = std::numeric_limits<float>::quiet_NaN();  // of the newest step; NaN: none was made
};

inline constexpr std::uint32_t kCoarseMinutes = 10;
inline constexpr std::size_t kFinePointsMax = 360;     // of a minute each: 6 hours
inline constexpr std::size_t kCoarsePointsMax = 1008;  // of kCoarseMinutes each: a week
inline constexpr std::uint64_t kHistoryFileBytesMax =
    32 + 32 * (kFinePointsMax + kCoarsePointsMax);  // 43,808

class UsageHistory {
 public:
  // An error says what is wrong with the bytes.
  static Result<UsageHistory> Parse(std::string_view bytes);
  std::string Bytes() const;

  // `loss` of a step that was made since the last call. Where the clock was set back by more than
  // an hour, points that are later than now are dropped; where by less, theirs is what follows.
  void Add(std::int64_t now_ms, const HistoryCounts& more, std::optional<double> loss);

  const std::deque<HistoryPoint>& fine() const { return fine_; }  // the oldest first
  const std::deque<HistoryPoint>& coarse() const { return coarse_; }

 private:
  std::deque<HistoryPoint> fine_, coarse_;
};

// GET /history?span=1h, 24h or 7d, what 1h is where none is given:
// {"schemaVersion":1,"span":"1h","periodMs":60000,"points":[[ms since 1970, sent bytes, received
// bytes, micro-batches, ms trained, loss or null],...]} of that time until `now_ms`, the oldest
// first, without the period that still runs. Invalid argument: another span.
Result<std::string> HistoryJson(const UsageHistory& history, std::string_view query,
                                std::int64_t now_ms);

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_HISTORY_USAGE_HISTORY_H_
