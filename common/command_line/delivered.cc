#include "common/command_line/delivered.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

namespace shoal {

ExitCode Delivered(ExitCode code) {
  errno = 0;
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (written || code != ExitCode::kOk) return code;
  const int cause = errno;
  std::cerr << program_invocation_short_name << ": standard output cannot be written";
  if (cause != 0) std::cerr << ": " << std::strerror(cause);
  std::cerr << "; the command itself took effect\n";
  return ExitCode::kFailure;
}

}  // namespace shoal
