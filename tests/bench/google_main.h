// main() of a bench whose cases Google Benchmark times.

#ifndef SHOAL_TESTS_BENCH_GOOGLE_MAIN_H_
#define SHOAL_TESTS_BENCH_GOOGLE_MAIN_H_

#include "tests/bench/bench_command.h"

namespace shoal::bench_command {

// Reads the command line, runs the registered benchmarks and prints a table or JSON, whose rows are
// those of the library. The exit code is 1 where a benchmark failed.
int RunGoogleBenchmarks(const About& about, int argc, char** argv);

}  // namespace shoal::bench_command

#endif  // SHOAL_TESTS_BENCH_GOOGLE_MAIN_H_
