// Where the CLI finds its sibling programs, its examples and the daemons' folders.

#ifndef SHOAL_CLIENT_BASE_PROGRAMS_H_
#define SHOAL_CLIENT_BASE_PROGRAMS_H_

#include <string>

#include "common/status.h"

namespace shoal::client {

// Full path of a sibling ("shoald", "shoal-run", ...): beside this program.
Result<std::string> FindProgram(const std::string& name);
// The folder examples/: $SHOAL_EXAMPLES, the source tree of this build, or ../share/shoal/examples.
Result<std::string> FindExamples();
// Folder of the local daemon's state: $SHOAL_DIR, else $XDG_STATE_HOME/shoal, else
// ~/.local/state/shoal.
std::string DefaultDirectory();

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_BASE_PROGRAMS_H_
