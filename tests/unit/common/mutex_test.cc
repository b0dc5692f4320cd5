#include "common/mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace shoal {
namespace {

TEST(MutexTest, LocksOutOtherThreads) {
  Mutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        MutexLock lock(mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 20000);
}

TEST(ConditionVariableTest, HandsTheMutexOverAndBack) {
  Mutex mutex;
  ConditionVariable turn;
  int next = 0;
  const auto player = [&](int own) {
    for (int i = 0; i < 100; ++i) {
      MutexLock lock(mutex);
      while (next % 2 != own) turn.Wait(mutex);
      ++next;
      turn.NotifyAll();
    }
  };
  std::thread other(player, 1);
  player(0);
  other.join();
  EXPECT_EQ(next, 200);
}

}  // namespace
}  // namespace shoal
