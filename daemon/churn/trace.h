// ChurnTrace: which machines come and go, and when. Pure. Thread: any.
//
// Two forms of files: events, "milliseconds,add|remove,node" on each line; and counts of machines
// at equal distances, {"metadata": {"gap_seconds": 300}, "data": [0, 16, ...]}. In both, what
// happens at the same time stays at the same time, and in its order.

#ifndef SHOAL_DAEMON_CHURN_TRACE_H_
#define SHOAL_DAEMON_CHURN_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"
#include "common/status.h"

namespace shoal::daemon {

inline constexpr std::uint64_t kTraceBytesMax = 16u << 20;
inline constexpr std::size_t kTraceEventsMax = 100'000;
inline constexpr std::size_t kTraceTicksMax = 1'000'000;
inline constexpr std::uint32_t kTraceMachinesMax = 2048;  // at once
inline constexpr std::size_t kTraceNameMax = 64;
inline constexpr Duration kTraceLengthMax = std::chrono::hours(24 * 366);

struct ChurnEvent {
  Duration at{};  // since the trace began
  bool comes = true;
  std::uint32_t machine = 0;  // its number; who comes back is another machine
};

struct ChurnTrace {
  std::vector<ChurnEvent> events;  // by time
  Duration length{};
  // What comes before is no part of what is measured.
  Duration measured_from{};
  std::uint32_t machines = 0;  // in all
  std::uint32_t named = 0;     // different ones by name; of counts, most at once
};

Result<ChurnTrace> ParseEventTrace(std::string_view text);
// Whenever the count falls, those go that came first; with a seed above 0, any.
Result<ChurnTrace> ParseCountTrace(std::string_view text, std::uint64_t seed);
// By its first character one or the other.
Result<ChurnTrace> ParseTrace(std::string_view text, std::uint64_t seed);

struct SteadyChurn {
  std::uint32_t machines = 64;  // come at once
  Duration kill_every = std::chrono::seconds(15);
  Duration warm_up = std::chrono::minutes(30);  // before that nobody dies, nothing is measured
  Duration length = std::chrono::minutes(10);   // after that
  Duration back_after{};  // a fresh machine comes so long after a death; 0: none
  std::uint64_t seed = 1;
};
// One of those that are there dies at equal distances, any.
Result<ChurnTrace> MakeSteadyTrace(const SteadyChurn& churn);

// All times divided by `factor`, above 0.
ChurnTrace Compress(ChurnTrace trace, double factor);

// The share of the machines' time in which they could stand in whole pipelines of `stages`, at most
// `pipelines` of them: what no scheduler can exceed, but for newcomers before the first step, who
// need less. Whoever comes once there were machines for a pipeline has a stage after `fetch`.
double WholePipelines(const ChurnTrace& trace, std::uint32_t stages, std::uint32_t pipelines,
                      Duration fetch);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CHURN_TRACE_H_
