// LogEntry: what a tracker gets to know at one time: a step's figures, or an event of the run. Made
// here for all kinds of logs. Pure; thread: any.

#ifndef SHOAL_SCHEDULER_TRACKING_LOG_ENTRY_H_
#define SHOAL_SCHEDULER_TRACKING_LOG_ENTRY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "scheduler/history/stored_event.h"
#include "scheduler/tracking/traffic_meter.h"

namespace shoal::scheduler {

struct LoggedScalar {
  std::string_view tag;    // in TensorBoard; constant
  std::string_view field;  // in JSON; constant
  double value = 0;
  bool whole = false;  // JSON has it without a point
};

struct LogEntry {
  std::uint64_t at_ms = 0;  // since 1970, UTC
  std::uint64_t step = 0;   // steps applied by then
  std::vector<LoggedScalar> scalars;
  std::string json;  // one object without line feeds: kind, time, step, then scalars and the rest
  // Values of this step and later ones, which the log has, are void: they come again.
  std::optional<std::uint64_t> void_from;
};

// A step that was applied. Of one that peers made while no scheduler was there only step and loss
// are known.
struct LoggedStep {
  std::uint64_t step = 0;  // applied steps, this one included
  double loss = 0;
  struct Figures {
    double seconds = 0, control_seconds = 0;
    std::uint64_t samples = 0;
    double learning_rate = 0, gradient_norm = 0;
    std::uint32_t pipelines = 0;
    bool skipped = false;
  };
  std::optional<Figures> figures;
};
LogEntry MakeStepEntry(const LoggedStep& step, std::uint64_t at_ms);

LogEntry MakeTrafficEntry(const TrafficFigures& traffic, std::uint64_t step, std::uint64_t at_ms);

// What a log begins with, as does each start of the scheduler in it. Steps behind `step`, which the
// history did not have yet, come again.
LogEntry MakeOpenedEntry(RunId run, std::string_view name, std::uint64_t steps, std::uint64_t step,
                         std::uint64_t at_ms);

// An event of the run after `step` applied steps, in the words of `shoal swarm events`. Nothing:
// what only the scheduler needs.
std::optional<LogEntry> MakeEventEntry(const StoredEvent& event, std::uint64_t step,
                                       std::uint64_t generation, std::uint64_t at_ms);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_TRACKING_LOG_ENTRY_H_
