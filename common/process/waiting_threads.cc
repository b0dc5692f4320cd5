#include "common/process/waiting_threads.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace shoal {

void LetWaitingThreadsSleep(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  // By its real path, so that the process keeps its name. If this fails the program just goes on.
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) ::execv(self.c_str(), argv);
}

}  // namespace shoal
