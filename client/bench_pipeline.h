// `shoal bench pipeline`: what a swarm gives over these links, measured without any GPU.

#ifndef SHOAL_CLIENT_BENCH_PIPELINE_H_
#define SHOAL_CLIENT_BENCH_PIPELINE_H_

#include "client/bench_options.h"
#include "common/exit_code.h"

namespace shoal::client {

// Runs every combination of links, schedules and codecs, one after the other; prints the table or
// JSON on standard output, progress on standard error. Ctrl-C leaves no process and no namespace.
ExitCode BenchPipeline(const BenchArguments& arguments);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_BENCH_PIPELINE_H_
