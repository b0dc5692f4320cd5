#include "bench/bench_switch.h"

#include <signal.h>
#include <sys/prctl.h>

#include <iostream>

#include "bench/packet_switch.h"
#include "client/base/failure.h"
#include "common/units.h"

namespace shoal::bench {

using client::Fail;

ExitCode BenchSwitch(const std::vector<std::string>& devices, const std::string& delay) {
  const Result<Duration> parsed = ParseDuration(delay);
  if (!parsed.ok()) {
    return Fail(ExitCode::kUsage, parsed.status().WithContext("--delay").message());
  }
  // Whoever set up the devices started this, and nobody else would end it.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  return Fail(RunPacketSwitch(devices, *parsed, [] { std::cout << "ready" << std::endl; }));
}

}  // namespace shoal::bench
