#include "common/process/service_manager.h"

#include <systemd/sd-daemon.h>

#include <chrono>
#include <cstdint>

namespace shoal {

void TellReady() { (void)::sd_notify(0, "READY=1"); }
void TellStopping() { (void)::sd_notify(0, "STOPPING=1"); }
void TellAlive() { (void)::sd_notify(0, "WATCHDOG=1"); }

std::optional<Duration> WatchdogInterval() {
  std::uint64_t most_us = 0;
  if (::sd_watchdog_enabled(0, &most_us) <= 0 || most_us == 0) return std::nullopt;
  return std::chrono::microseconds(most_us / 3);
}

}  // namespace shoal
