// RunTracker: writes what a run does into the logs that `log_to` names, for TensorBoard and for
// programs. It collects on the control thread and writes on the store's, every few seconds and at
// its end. A log that cannot be written never stops the run.
// Thread: control.

#ifndef SHOAL_SCHEDULER_TRACKING_RUN_TRACKER_H_
#define SHOAL_SCHEDULER_TRACKING_RUN_TRACKER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/executor.h"
#include "common/ids.h"
#include "common/status.h"
#include "scheduler/history/stored_event.h"
#include "scheduler/tracking/log_entry.h"
#include "scheduler/tracking/run_log.h"
#include "scheduler/tracking/tracker_view.h"
#include "scheduler/tracking/traffic_meter.h"

namespace shoal::scheduler {

class RunTracker {
 public:
  static constexpr Duration kFlushEvery = std::chrono::seconds(2);
  static constexpr std::size_t kEntriesMax = 65536;  // that wait while the store is busy

  struct Run {
    RunId id;
    std::string name;
    std::uint64_t steps = 0, step = 0, generation = 0;
  };
  struct Parts {
    Executor* control = nullptr;  // both outlive the tracker's tasks
    Executor* store = nullptr;
    std::function<std::uint64_t()> now_ms;  // since 1970, UTC. Thread: any
  };
  using Members = std::function<std::vector<MemberTraffic>()>;

  // Writes the first entry into each log, so that one that cannot be written is known at the start.
  // Blocks on disk. Thread: main.
  static Result<std::unique_ptr<RunTracker>> Open(const std::vector<std::string>& targets,
                                                  const Run& run, Parts parts);

  void Applied(const LoggedStep& step);
  void Happened(const TimedEvent& event);
  // To be called often; `members`, those that are connected, is asked if there are new steps to
  // write.
  void Tick(const Members& members);
  // Writes what is left; nothing comes later.
  void Stop(const Members& members);

  const TrackerView& view() const;

 private:
  // Thread: store.
  struct Logs {
    std::vector<std::unique_ptr<RunLog>> logs;
    TrafficMeter meter;
    std::vector<Status> Write(std::vector<LogEntry> entries);
  };

  RunTracker(const Run& run, Parts parts, std::shared_ptr<Logs> logs);
  void Add(LogEntry entry);
  void Flush(const Members& members);
  void Written(const std::vector<Status>& results);

  const Parts parts_;
  const std::shared_ptr<Logs> logs_;
  TrackerView view_;
  std::vector<std::string> failing_;  // by log: why its newest write failed; empty: it did not
  std::uint64_t step_, generation_;
  std::vector<LogEntry> entries_;
  std::uint64_t dropped_ = 0;  // since the last flush
  bool stepped_ = false;       // since the last flush
  bool writing_ = false;
  TimePoint flushed_{};
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_TRACKING_RUN_TRACKER_H_
