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

TEST(ThreadExecutorTest, RunsTasksInOrderOnOneNamedThread) {
  const auto executor = NewThreadExecutor("control");
  std::vector<int> order;
  std::set<std::thread::id> threads;
  for (int i = 0; i < 1000; ++i) {
    executor->Post("count", [&, i] {
      order.push_back(i);
      threads.insert(std::this_thread::get_id());
    });
  }
  std::string name;
  RunOn(*executor, [&] { name = ThreadName(); });
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(threads.size(), 1u);
  EXPECT_EQ(name, "control");
}

TEST(ThreadExecutorTest, KnowsItsThread) {
  const auto a = NewThreadExecutor("a");
  const auto b = NewThreadExecutor("b");
  EXPECT_FALSE(a->InThread());
  bool in_a = false, in_b = true;
  RunOn(*a, [&] {
    in_a = a->InThread();
    in_b = b->InThread();
  });
  EXPECT_TRUE(in_a);
  EXPECT_FALSE(in_b);
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

TEST(ThreadExecutorTest, TimersFireInOrderOfTheirTimes) {
  const auto executor = NewThreadExecutor("control");
  std::promise<void> done;
  std::string order;
  const TimePoint start = executor->clock().Now();
  TimePoint last;
  RunOn(*executor, [&] {  // all three are set before the first can run
    executor->PostAfter("late", milliseconds(30), [&] {
      order += "c";
      last = executor->clock().Now();
      done.set_value();
    });
    executor->PostAfter("early", milliseconds(5), [&] { order += "a"; });
    executor->PostAfter("middle", milliseconds(15), [&] { order += "b"; });
  });
  done.get_future().wait();
  EXPECT_EQ(order, "abc");
  EXPECT_GE(last - start, milliseconds(30));
}

TEST(ThreadExecutorTest, TimersRunOnTheThreadAndMayBeSetFromAny) {
  const auto executor = NewThreadExecutor("control");
  std::promise<bool> in_thread;
  executor->PostAfter("now", milliseconds(-5), [&] { in_thread.set_value(executor->InThread()); });
  EXPECT_TRUE(in_thread.get_future().get());
}

TEST(ThreadExecutorTest, CancelledTimerNeverRuns) {
  const auto executor = NewThreadExecutor("control");
  std::atomic<int> fired = 0;
  RunOn(*executor, [&] {
    const TimerId due = executor->PostAfter("due", Duration::zero(), [&] { ++fired; });
    // Even when its time has come before it is cancelled.
    std::this_thread::sleep_for(milliseconds(5));
    executor->CancelTimer(due);
    executor->CancelTimer(due);
    executor->CancelTimer(12345);
  });
  std::promise<void> later;
  executor->PostAfter("later", milliseconds(20), [&] { later.set_value(); });
  later.get_future().wait();
  EXPECT_EQ(fired, 0);
}

TEST(ThreadExecutorTest, TimerMayCancelAnotherAndSetNewOnes) {
  const auto executor = NewThreadExecutor("control");
  std::promise<void> done;
  bool other_fired = false;
  RunOn(*executor, [&] {
    const TimerId other = executor->PostAfter("other", milliseconds(20), [&] {  //
      other_fired = true;
    });
    executor->PostAfter("first", milliseconds(1), [&, other] {
      executor->CancelTimer(other);
      executor->PostAfter("next", milliseconds(40), [&] { done.set_value(); });
    });
  });
  done.get_future().wait();
  EXPECT_FALSE(other_fired);
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

TEST(ThreadExecutorTest, ClockGoesForward) {
  const auto executor = NewThreadExecutor("control");
  const TimePoint before = executor->clock().Now();
  EXPECT_GE(executor->clock().Now(), before);
}

TEST(ThreadExecutorDeathTest, MisuseAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(NewThreadExecutor("control")->CancelTimer(1),
               "called off its thread: .*AsioExecutor::CancelTimer");
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
