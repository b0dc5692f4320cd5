// What `shoal swarm audit` and `shoal swarm events` show, as JSON: read from the event log in a
// run's folder, or in etcd where the folder says so, whether its scheduler runs or not. Blocks on
// disk and network.

#ifndef SHOAL_SCHEDULER_SERVER_RUN_REPORT_H_
#define SHOAL_SCHEDULER_SERVER_RUN_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/status.h"
#include "scheduler/history/run_timeline.h"
#include "scheduler/history/stored_event.h"

namespace shoal::scheduler {

// Not found: the folder has no history; data loss: it cannot be read.
Result<std::vector<TimedEvent>> ReadEvents(const std::string& directory);

struct AuditReport {
  bool right = false;  // every sample was counted exactly once
  std::string json;    // one object, also if the ledger is wrong
};
// `row`: also tell where that row of the data was counted. Failed precondition: the log does not
// say how samples are dealt out. Out of range: there is no such row. Pure.
Result<AuditReport> ReportAudit(std::span<const TimedEvent> events,
                                std::optional<std::uint64_t> row);

// The newest `last` entries of the timeline; 0: all. Pure.
std::string ReportEvents(std::span<const TimedEvent> events, std::size_t last);
std::string ReportTimeline(const RunTimeline& timeline, std::size_t last);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SERVER_RUN_REPORT_H_
