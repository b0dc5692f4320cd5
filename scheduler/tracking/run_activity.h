// RunActivity: what a run did over the last hours and the last week, for its page: micro-batches
// that counted, bytes on links, losses. Its file is <directory>/history.bin.
// Thread: control.

#ifndef SHOAL_SCHEDULER_TRACKING_RUN_ACTIVITY_H_
#define SHOAL_SCHEDULER_TRACKING_RUN_ACTIVITY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/executor.h"
#include "common/status.h"
#include "scheduler/tracking/traffic_meter.h"
#include "storage/history/history_keeper.h"

namespace shoal::scheduler {

class RunActivity {
 public:
  static constexpr Duration kLookEvery = std::chrono::seconds(1);
  static constexpr Duration kMeterEvery = std::chrono::seconds(10);

  struct Parts {
    Executor* control = nullptr;  // both outlive the tasks of this
    Executor* store = nullptr;
    std::function<std::int64_t()> now_ms;  // since 1970, UTC. Thread: any
  };
  using Members = std::function<std::vector<MemberTraffic>()>;

  // Of the run in `directory`. Blocks on disk. Thread: main.
  static Result<std::unique_ptr<RunActivity>> Open(const std::string& directory, Parts parts);

  // A step was applied, the `step`th, with so many micro-batches that counted.
  void Applied(std::uint64_t step, double loss, std::uint64_t micro_batches);
  // To be called often. `members`, those that are connected, is asked now and then.
  void Tick(bool training, const Members& members);
  // Writes what is not yet written.
  void Save() {
    SHOAL_ASSERT_ON(*parts_.control);
    keeper_.Save();
  }
  // As storage::HistoryJson; what members receive is what they sent, so that counts once.
  Result<std::string> Json(std::string_view query) const;

 private:
  RunActivity(Parts parts, std::string file, storage::UsageHistory history);

  const Parts parts_;
  storage::HistoryKeeper keeper_;
  const std::shared_ptr<TrafficMeter> meter_ = std::make_shared<TrafficMeter>();  // store
  storage::HistoryCounts total_;  // since this began
  std::uint64_t step_ = 0;
  double loss_ = 0;
  bool metering_ = false;
  std::optional<TimePoint> ticked_at_;
  TimePoint looked_at_{}, metered_at_{};
  Duration trained_{};
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_TRACKING_RUN_ACTIVITY_H_
