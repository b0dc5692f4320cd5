#include "common/process/waiting_threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

// The test program starts itself with an argument that makes it behave like a daemon's main.
int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--as-daemon") {
    shoal::LetWaitingThreadsSleep(argv);
    const char* policy = std::getenv("OMP_WAIT_POLICY");
    return policy != nullptr && std::string_view(policy) == argv[2] ? 7 : 1;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

namespace shoal {
namespace {

int RunAsDaemon(const char* variable, const char* expected) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (variable == nullptr) {
      unsetenv("OMP_WAIT_POLICY");
    } else {
      setenv("OMP_WAIT_POLICY", variable, 1);
    }
    execl("/proc/self/exe", "test", "--as-daemon", expected, nullptr);
    _exit(2);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(WaitingThreads, StartsAnewWithSleepingThreads) {
  EXPECT_EQ(RunAsDaemon(nullptr, "passive"), 7);
}

TEST(WaitingThreads, KeepsWhatTheUserChose) { EXPECT_EQ(RunAsDaemon("active", "active"), 7); }

}  // namespace
}  // namespace shoal
