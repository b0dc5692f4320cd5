#include "common/process/stop_signal.h"

#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

namespace shoal {
namespace {

TEST(StopSignalTest, TellsARequestFromASignal) {
  StopSignal stop;
  kill(getpid(), SIGTERM);
  EXPECT_TRUE(stop.Wait().ok());
  StopSignal again;
  std::thread([&again] { again.Request(Unavailable("why")); }).join();
  EXPECT_EQ(again.Wait().message(), "why");
  again.Request(Unavailable("twice"));  // must not end the process
}

TEST(StopSignalDeathTest, TheSecondSignalEnds) {
  const auto twice = [] {
    StopSignal stop;
    kill(getpid(), SIGTERM);
    (void)stop.Wait();
    kill(getpid(), SIGTERM);
  };
  EXPECT_EXIT(twice(), ::testing::KilledBySignal(SIGTERM), "");
}

// miniupnpc writes to a router's socket without MSG_NOSIGNAL.
TEST(StopSignalDeathTest, AWriteThatNobodyReadsFailsOnly) {
  const auto write_to_nobody = [] {
    signal(SIGPIPE, SIG_DFL);
    StopSignal stop;
    int ends[2] = {};
    if (pipe(ends) != 0) return;
    close(ends[0]);
    const bool refused = write(ends[1], "x", 1) == -1 && errno == EPIPE;
    _exit(refused ? 7 : 8);
  };
  EXPECT_EXIT(write_to_nobody(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace shoal
