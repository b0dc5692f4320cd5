// `shoal demo`: a whole swarm on this machine: scheduler and stages x pipelines peers as real
// processes, every line capped, from a small trained model to one that answers otherwise.

#ifndef SHOAL_CLIENT_DEMO_H_
#define SHOAL_CLIENT_DEMO_H_

#include "client/demo_options.h"
#include "common/exit_code.h"

namespace shoal::client {

// Exit codes as documented; 130 after Ctrl-C. Nothing that was started is left running.
ExitCode Demo(const DemoOptions& options);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_DEMO_H_
