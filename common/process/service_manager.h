// What systemd, or another manager that starts programs as services and sets NOTIFY_SOCKET, is
// told. Without one nothing happens. Thread: any.

#ifndef SHOAL_COMMON_PROCESS_SERVICE_MANAGER_H_
#define SHOAL_COMMON_PROCESS_SERVICE_MANAGER_H_

#include <optional>

#include "common/clock.h"

namespace shoal {

void TellReady();     // whoever waits for this service may go on
void TellStopping();  // its end was asked for and takes its time
void TellAlive();     // resets the watchdog

// How often TellAlive is due, so that one that comes late ends nothing; none: nobody watches.
std::optional<Duration> WatchdogInterval();

}  // namespace shoal

#endif  // SHOAL_COMMON_PROCESS_SERVICE_MANAGER_H_
