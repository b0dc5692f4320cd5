// `shoald bench-files`: what a run with synthetic stages needs. `shoald simulate`: how long its
// steps should take. `shoal-bench pipeline` starts both.

#ifndef SHOAL_DAEMON_BENCH_TOOL_H_
#define SHOAL_DAEMON_BENCH_TOOL_H_

#include <cstdint>
#include <string>

#include "common/exit_code.h"
#include "common/status.h"

namespace shoal::daemon {

struct BenchFiles {
  std::string directory;  // exists; gets config.json and data.shoal
  std::uint32_t stages = 0, hidden = 0;
  std::uint32_t rows = 0, row_tokens = 0;  // of the data; a run visits all in each epoch
};

// Blocks on disk.
Status WriteBenchFiles(const BenchFiles& files);

// `argv` without the program's name and "bench-files". Errors on standard error.
ExitCode RunBenchFiles(int argc, const char* const* argv);

// `argv` without the program's name and "simulate". One JSON object on standard output.
ExitCode RunSimulate(int argc, const char* const* argv);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_BENCH_TOOL_H_
