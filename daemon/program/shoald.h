// The whole of shoald but what its stages are made of.

#ifndef SHOAL_DAEMON_PROGRAM_SHOALD_H_
#define SHOAL_DAEMON_PROGRAM_SHOALD_H_

#include "daemon/stage_host.h"

namespace shoal::daemon {

// Reads arguments and settings, runs the peer daemon until it is told to stop, or one of its tools.
// Returns the exit code of the process. Thread: main.
int RunShoald(int argc, char** argv, NewStage new_stage);

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_PROGRAM_SHOALD_H_
