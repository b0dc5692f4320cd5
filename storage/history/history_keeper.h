// HistoryKeeper: the history of a peer or a run while its program runs: counts every second, writes
// now and then.

#ifndef SHOAL_STORAGE_HISTORY_HISTORY_KEEPER_H_
#define SHOAL_STORAGE_HISTORY_HISTORY_KEEPER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/executor.h"
#include "common/status.h"
#include "storage/history/usage_history.h"

namespace shoal::storage {

// That of `path`; a missing file is an empty one. One that is damaged, or of another version, is
// set aside as <path>.damaged, which the log says. Blocks on disk.
Result<UsageHistory> OpenHistory(const std::string& path);

// Thread: control.
class HistoryKeeper {
 public:
  // `store` writes to `file`.
  HistoryKeeper(Executor* control, Executor* store, std::string file, UsageHistory history);

  // Once a second. `total`: over all starts; the first call says from where on to count.
  // `step`, `loss`: of the run's newest step.
  void Look(std::int64_t now_ms, const HistoryCounts& total, std::uint64_t step, double loss);
  // Writes what is not yet written.
  void Save();
  // As HistoryJson.
  Result<std::string> Json(std::string_view query, std::int64_t now_ms) const;

 private:
  Executor* const control_;
  Executor* const store_;
  const std::string file_;
  UsageHistory history_;
  std::optional<HistoryCounts> counted_;
  std::uint64_t step_ = 0;  // whose loss is in the history
  bool unsaved_ = false;
  TimePoint saved_at_{};
};

}  // namespace shoal::storage

#endif  // SHOAL_STORAGE_HISTORY_HISTORY_KEEPER_H_
