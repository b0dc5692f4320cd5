// `shoal bench switch`: the lines with a length of `shoal bench pipeline` and of other benches.

#include <signal.h>
#include <sys/prctl.h>

#include <iostream>

#include "client/commands.h"
#include "client/packet_switch.h"
#include "common/units.h"

namespace shoal::client {

ExitCode BenchSwitch(const std::vector<std::string>& devices, const std::string& delay) {
  const Result<Duration> parsed = ParseDuration(delay);
  if (!parsed.ok()) {
    return Fail(ExitCode::kUsage, parsed.status().WithContext("--delay").message());
  }
  // Whoever set up the devices started this, and nobody else would end it.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  return Fail(RunPacketSwitch(devices, *parsed, [] { std::cout << "ready" << std::endl; }));
}

}  // namespace shoal::client
