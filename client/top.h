// `shoal top`: a peer's status on the whole terminal.

#ifndef SHOAL_CLIENT_TOP_H_
#define SHOAL_CLIENT_TOP_H_

#include <functional>
#include <string>

#include "common/exit_code.h"
#include "common/status.h"

namespace shoal::client {

// Asks for the status again and again until 'q', or so many `rounds`; 0: no end. While the daemon
// does not answer the screen says so. A signal ends the program once the terminal is as it was.
ExitCode WatchOnScreen(const std::function<Result<std::string>()>& ask, double interval_s,
                       int rounds);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_TOP_H_
