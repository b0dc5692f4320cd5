// TrackerView: what the status shows of a run's logs for trackers.

#ifndef SHOAL_SCHEDULER_TRACKING_TRACKER_VIEW_H_
#define SHOAL_SCHEDULER_TRACKING_TRACKER_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

namespace shoal::scheduler {

struct TrackerView {
  std::vector<std::string> targets;
  std::uint64_t failures = 0;  // writes that failed
  std::string last_failure;    // empty: the newest write of each log went well
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_TRACKING_TRACKER_VIEW_H_
