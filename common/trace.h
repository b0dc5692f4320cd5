// Tracer: records named events of micro-batches with the thread they happened on. Off by default;
// `docs/ARCHITECTURE.md` "follow one micro-batch" lists the events, and a test compares.

#ifndef SHOAL_COMMON_TRACE_H_
#define SHOAL_COMMON_TRACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/status.h"

namespace shoal {

struct TraceEvent {
  const char* name;    // "mb.forward", a string literal
  std::string thread;  // name of the thread, "control", "compute", "codec-0", "store", "grpc"
  MicroBatchId micro_batch;
  TimePoint start;
  Duration duration;                                    // 0 for an instant
  std::optional<std::uint32_t> segment = std::nullopt;  // absent: the whole micro-batch
};

// Starts recording, process-wide; at most `limit` events are kept. Thread: any.
void StartTrace(std::size_t limit);
bool TraceEnabled();
// Records an instant, or a span since `start`. Cheap when off. Thread: any.
void Trace(const char* name, MicroBatchId micro_batch,
           std::optional<std::uint32_t> segment = std::nullopt);
// When a span begins, on the clock of the trace.
TimePoint TraceStart();
void TraceSpan(const char* name, MicroBatchId micro_batch, TimePoint start,
               std::optional<std::uint32_t> segment = std::nullopt);
// Takes what was recorded, in order of start.
std::vector<TraceEvent> TakeTrace();
// Writes events in Chrome's trace format (loads in Perfetto), atomically.
Status WriteTraceFile(const std::string& path, const std::vector<TraceEvent>& events);

// Names the calling thread for logs, traces and the operating system (15 characters at most).
void SetThreadName(const std::string& name);
// The name given to the calling thread, "grpc" for threads that shoal did not start.
std::string ThreadName();

}  // namespace shoal

#endif  // SHOAL_COMMON_TRACE_H_
