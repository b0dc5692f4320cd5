// `shoal chaos`: a swarm on this machine whose members are killed, stopped and slowed down at
// random, and started again: does every fault end with a further step, and is the run what it would
// have been without?

#ifndef SHOAL_CLIENT_CHAOS_H_
#define SHOAL_CLIENT_CHAOS_H_

#include "client/chaos_options.h"
#include "common/exit_code.h"

namespace shoal::client {

// Exit codes: 0 if all held, 1 if not, 2 for wrong usage, 130 after Ctrl-C. Nothing that was
// started is left running.
ExitCode Chaos(const ChaosOptions& options);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_CHAOS_H_
