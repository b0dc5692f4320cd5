// `shoald churn`, which `shoal bench churn` starts: what a trace of machines that come and go
// leaves of a run's pace.

#ifndef SHOAL_DAEMON_CHURN_CHURN_TOOL_H_
#define SHOAL_DAEMON_CHURN_CHURN_TOOL_H_

#include "common/exit_code.h"

namespace shoal::daemon {

// `argv` without the program's name and "churn". The result goes to standard output.
ExitCode RunChurn(int argc, const char* const* argv);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CHURN_CHURN_TOOL_H_
