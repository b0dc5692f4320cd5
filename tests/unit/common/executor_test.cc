// What threads have beside virtual time: executor_contract_test.cc has what all executors do.

#include "common/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "common/trace.h"

namespace shoal {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// Runs `task` on the executor and waits for it.
void RunOn(Executor& executor, std::function<void()> task) {
  std::promise<void> done;
  executor.Post("test", [&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

TEST(ThreadExecutorTest, ItsThreadIsOneAndNamed) {
  const auto executor = NewThreadExecutor("control");
  std::set<std::thread::id> threads;
  for (int i = 0; i < 100; ++i) {
    executor->Post("thread", [&] { threads.insert(std::this_thread::get_id()); });
  }
  std::string name;
  RunOn(*executor, [&] { name = ThreadName(); });
  EXPECT_EQ(threads.size(), 1u);
  EXPECT_EQ(name, "control");
}

TEST(ThreadExecutorTest, AThreadOfNobodyIsNotItsOwn) {
  EXPECT_FALSE(NewThreadExecutor("control")->InThread());
  EXPECT_FALSE(NewThreadPool("codec", 2)->InThread());
}

// What a task posts to its own thread must not be overtaken by what others post afterwards.
TEST(ThreadExecutorTest, KeepsTheOrderOfPostingAcrossThreads) {
  const auto executor = NewThreadExecutor("control");
  std::string order;
  RunOn(*executor, [&] {
    executor->Post("own", [&] { order += "own "; });
    std::thread([&] { executor->Post("foreign", [&] { order += "foreign"; }); }).join();
  });
  RunOn(*executor, [] {});
  EXPECT_EQ(order, "own foreign");
}

TEST(ThreadExecutorTest, ATimerThatIsCancelledWhenItsTimeHasComeNeverRuns) {
  const auto executor = NewThreadExecutor("control");
  std::atomic<int> fired = 0;
  RunOn(*executor, [&] {
    const TimerId due = executor->PostAfter("due", Duration::zero(), [&] { ++fired; });
    std::this_thread::sleep_for(milliseconds(5));
    executor->CancelTimer(due);
  });
  std::promise<void> later;
  executor->PostAfter("later", milliseconds(20), [&] { later.set_value(); });
  later.get_future().wait();
  EXPECT_EQ(fired, 0);
}

TEST(ThreadExecutorTest, DestructorRunsWhatWasPostedButNoTimer) {
  int ran = 0;
  bool fired = false;
  const auto captured = std::make_shared<int>(1);
  {
    const auto executor = NewThreadExecutor("control");
    executor->PostAfter("never", hours(1), [&fired, captured] { fired = true; });
    executor->Post("slow", [] { std::this_thread::sleep_for(milliseconds(10)); });
    for (int i = 0; i < 100; ++i) {
      executor->Post("outer", [&] { executor->Post("inner", [&] { ++ran; }); });
    }
  }
  EXPECT_EQ(ran, 100);
  EXPECT_FALSE(fired);
  EXPECT_EQ(captured.use_count(), 1);  // what a forgotten timer holds is freed
}

TEST(ThreadExecutorDeathTest, MisuseAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(static_cast<void>(NewThreadPool("codec", 0)), "threads >= 1");
}

TEST(ThreadPoolTest, RunsTasksAtTheSameTime) {
  const auto pool = NewThreadPool("codec", 3);
  // Each waits for the other two: fewer than three threads would never finish.
  Mutex mutex;
  ConditionVariable all;
  int waiting = 0;
  std::set<std::string> names;
  std::vector<std::promise<void>> done(3);
  for (std::promise<void>& promise : done) {
    pool->Post("meet", [&] {
      {
        MutexLock lock(mutex);
        names.insert(ThreadName());
        ++waiting;
        all.NotifyAll();
        while (waiting < 3) all.Wait(mutex);
      }
      promise.set_value();
    });
  }
  for (std::promise<void>& promise : done) promise.get_future().wait();
  MutexLock lock(mutex);
  EXPECT_EQ(names, (std::set<std::string>{"codec-0", "codec-1", "codec-2"}));
}

TEST(ThreadPoolTest, DestructorRunsEverythingPostedFromManyThreads) {
  std::atomic<int> ran = 0;
  std::atomic<int> outside = 0;
  {
    const auto pool = NewThreadPool("codec", 4);
    std::vector<std::thread> posters;
    for (int t = 0; t < 4; ++t) {
      posters.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          pool->Post("count", [&] {
            ++ran;
            if (!pool->InThread()) ++outside;
          });
        }
      });
    }
    for (std::thread& poster : posters) poster.join();
  }
  EXPECT_EQ(ran, 2000);
  EXPECT_EQ(outside, 0);
}

}  // namespace
}  // namespace shoal
