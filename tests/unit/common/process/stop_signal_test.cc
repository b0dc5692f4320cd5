#include "common/process/stop_signal.h"

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

}  // namespace
}  // namespace shoal
