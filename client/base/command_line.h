// A command line with commands, as all programs for people read it.

#ifndef SHOAL_CLIENT_BASE_COMMAND_LINE_H_
#define SHOAL_CLIENT_BASE_COMMAND_LINE_H_

#include <functional>

#include "common/exit_code.h"

namespace CLI {
class App;
}

namespace shoal::client {

// Parses, which sets `*run`, and runs that. A wrong command line is one line on standard error:
// what is wrong, what was probably meant, and where the help is. A result that does not arrive on
// standard output is a failure. `app` has the program's name.
ExitCode RunCommandLine(CLI::App* app, int argc, char** argv, const std::function<ExitCode()>* run);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_BASE_COMMAND_LINE_H_
