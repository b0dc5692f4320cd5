// `shoal-bench pipeline`: what a swarm gives over these links, measured without any GPU.

#ifndef SHOAL_BENCH_BENCH_PIPELINE_H_
#define SHOAL_BENCH_BENCH_PIPELINE_H_

#include "bench/bench_options.h"
#include "common/exit_code.h"

namespace shoal::bench {

// Runs every combination of links, schedules and codecs, one after the other; prints the table or
// JSON on standard output, progress on standard error. Ctrl-C leaves no process and no namespace.
ExitCode BenchPipeline(const BenchArguments& arguments);

}  // namespace shoal::bench

#endif  // SHOAL_BENCH_BENCH_PIPELINE_H_
