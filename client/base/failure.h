// How a program tells a person that it failed.

#ifndef SHOAL_CLIENT_BASE_FAILURE_H_
#define SHOAL_CLIENT_BASE_FAILURE_H_

#include <string>

#include "common/exit_code.h"
#include "common/status.h"

namespace shoal::client {

// "PROGRAM: what happened" on standard error, and the code that goes with it.
ExitCode Fail(const Status& status);
ExitCode Fail(ExitCode code, const std::string& message);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_BASE_FAILURE_H_
