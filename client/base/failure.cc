#include "client/base/failure.h"

#include <cerrno>
#include <iostream>

namespace shoal::client {

ExitCode Fail(const Status& status) { return Fail(ExitCodeFor(status), status.message()); }

ExitCode Fail(ExitCode code, const std::string& message) {
  std::cerr << program_invocation_short_name << ": " << message << "\n";
  return code;
}

}  // namespace shoal::client
