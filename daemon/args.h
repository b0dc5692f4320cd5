// The command line of shoald.

#ifndef SHOAL_DAEMON_ARGS_H_
#define SHOAL_DAEMON_ARGS_H_

#include <optional>
#include <string>

#include "common/exit_code.h"
#include "common/status.h"
#include "daemon/config.h"

namespace shoal::daemon {

struct Args {
  DaemonConfig config;  // file, then environment, then flags
  bool print_config = false;
  bool print_devices = false;
  bool print_usage = false;
};

// Reads flags and the config file that they name. Nothing if the program should end with
// `*exit_code` (help and version were printed, or the usage was wrong and said so).
std::optional<Args> ReadArgs(int argc, char** argv, ExitCode* exit_code);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_ARGS_H_
