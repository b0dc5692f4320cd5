// One step of all peers as one trace.

#ifndef SHOAL_BENCH_BENCH_TRACE_H_
#define SHOAL_BENCH_BENCH_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/status.h"

namespace shoal::bench {

// Reads what shoald --trace wrote for peers of one machine, whose clocks are one. Writes the events
// of `step` to one file in Chrome's trace format. The file has a process per peer, in the order of
// stages, and times since the step's first event. Blocks on disk.
Status MergeTraces(const std::vector<std::string>& files, std::uint64_t step,
                   const std::string& output);

}  // namespace shoal::bench

#endif  // SHOAL_BENCH_BENCH_TRACE_H_
