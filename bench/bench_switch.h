// `shoal-bench switch`: the lines with a length of `shoal-bench pipeline` and of other benches.

#ifndef SHOAL_BENCH_BENCH_SWITCH_H_
#define SHOAL_BENCH_BENCH_SWITCH_H_

#include <string>
#include <vector>

#include "common/exit_code.h"

namespace shoal::bench {

// Carries frames between network devices of this namespace, each after `delay` ("20ms"), until it
// is ended or the process that started it ends; prints "ready" once it does. Takes root.
ExitCode BenchSwitch(const std::vector<std::string>& devices, const std::string& delay);

}  // namespace shoal::bench

#endif  // SHOAL_BENCH_BENCH_SWITCH_H_
