// `shoald store stats|verify|compact|drop`: works on the delta store of a peer that does not run.
// `shoal store` starts it and shows what it prints.

#ifndef SHOAL_DAEMON_STORE_TOOL_H_
#define SHOAL_DAEMON_STORE_TOOL_H_

#include <string>

#include "common/exit_code.h"

namespace shoal::daemon {

// `argv` without the program's name and "store". One JSON object on standard output, progress and
// errors on standard error.
ExitCode RunStoreTool(int argc, const char* const* argv);

// `shoald --print-usage`: what `shoal stats` shows of a peer that does not run.
ExitCode PrintUsage(const std::string& directory);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_STORE_TOOL_H_
