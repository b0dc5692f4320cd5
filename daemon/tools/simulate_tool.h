// `shoald simulate`: how long a step of the pipeline takes by the simulation.

#ifndef SHOAL_DAEMON_TOOLS_SIMULATE_TOOL_H_
#define SHOAL_DAEMON_TOOLS_SIMULATE_TOOL_H_

#include "common/exit_code.h"

namespace shoal::daemon {

// `argv` without the program's name and "simulate". One JSON object on standard output.
ExitCode RunSimulate(int argc, const char* const* argv);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_TOOLS_SIMULATE_TOOL_H_
