// What `shoald --print-devices` prints.

#ifndef SHOAL_DAEMON_DEVICES_JSON_H_
#define SHOAL_DAEMON_DEVICES_JSON_H_

#include <string>

#include "daemon/config.h"

namespace shoal::daemon {

// One JSON object: whether this build can use CUDA, versions of runtime and driver, the devices
// with what a stage there would take of free memory and compute in, and why codecs cannot run on
// the first of them (empty: they can). Starts the CUDA runtime.
std::string DevicesJson(const DaemonConfig& config);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_DEVICES_JSON_H_
