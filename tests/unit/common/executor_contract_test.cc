// What every Executor does: one suite, run on threads and on virtual time, on single ones and
// pools.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "common/executor.h"
#include "tests/support/sim_executor.h"

namespace shoal {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using test_support::SimWorld;

// A kind of executors, and how time passes for them.
class ExecutorRig {
 public:
  virtual ~ExecutorRig() = default;
  virtual std::unique_ptr<Executor> New(const std::string& name) = 0;
  // Lets executors run until it holds, asked on the test's thread; false after a time that no
  // healthy machine needs.
  virtual bool Wait(const std::function<bool()>& holds) = 0;
  // Whether the destructor runs what was posted; else it is dropped.
  virtual bool finishes() { return true; }

  // Runs `task` on the executor and waits for it.
  void On(Executor* executor, const std::function<void()>& task) {
    std::atomic<bool> done = false;
    executor->Post("test", [&] {
      task();
      done = true;
    });
    ASSERT_TRUE(Wait([&done] { return done.load(); }));
  }
};

template <int kThreads>
class ThreadRig final : public ExecutorRig {
 public:
  std::unique_ptr<Executor> New(const std::string& name) override {
    return kThreads == 1 ? NewThreadExecutor(name) : NewThreadPool(name, kThreads);
  }
  bool Wait(const std::function<bool()>& holds) override {
    for (int i = 0; i < 60000; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
  }
};

// `kCost`: tasks take 0 to 4 ms, in turn.
template <int kThreads, bool kCost>
class SimRig final : public ExecutorRig {
 public:
  std::unique_ptr<Executor> New(const std::string& name) override {
    const auto cost = [this](const char*) { return milliseconds(kCost ? ++posted_ % 5 : 0); };
    return kThreads == 1 ? world_.NewExecutor(name, cost) : world_.NewPool(name, kThreads, cost);
  }
  bool Wait(const std::function<bool()>& holds) override {
    return world_.RunUntil(holds, std::chrono::minutes(1));
  }
  bool finishes() override { return false; }

 private:
  SimWorld world_;
  int posted_ = 0;
};

using NewExecutorRig = std::unique_ptr<ExecutorRig> (*)();

class ExecutorContract : public testing::TestWithParam<NewExecutorRig> {
 protected:
  void On(const std::function<void()>& task) { rig_->On(executor_.get(), task); }
  bool Wait(const std::function<bool()>& holds) { return rig_->Wait(holds); }
  // Until a timer of so long, set after all others, has run.
  void Pass(Duration time) {
    std::atomic<bool> over = false;
    executor_->PostAfter("later", time, [&over] { over = true; });
    ASSERT_TRUE(Wait([&over] { return over.load(); }));
  }

  const std::unique_ptr<ExecutorRig> rig_ = GetParam()();
  std::unique_ptr<Executor> executor_ = rig_->New("control");
};

using ExecutorContractDeathTest = ExecutorContract;
using SingleExecutorContract = ExecutorContract;  // of one thread

TEST_P(ExecutorContract, EveryTaskRunsOnceOnItsOwnThread) {
  std::atomic<int> outside = 0, ran = 0;
  std::vector<std::atomic<int>> times(500);
  for (std::atomic<int>& time : times) {
    executor_->Post("count", [&] {
      outside += executor_->InThread() ? 0 : 1;
      ++time;
      ++ran;
    });
  }
  ASSERT_TRUE(Wait([&] { return ran == 500; }));
  Pass(milliseconds(5));
  EXPECT_EQ(outside, 0);
  for (const std::atomic<int>& time : times) EXPECT_EQ(time, 1);
}

TEST_P(ExecutorContract, KnowsItsThreadFromThatOfAnother) {
  const auto other = rig_->New("other");
  std::atomic<bool> own = false, others = true;
  On([&] {
    own = executor_->InThread();
    others = other->InThread();
  });
  EXPECT_TRUE(own);
  EXPECT_FALSE(others);
  rig_->On(other.get(), [&] { others = executor_->InThread(); });
  EXPECT_FALSE(others);
}

TEST_P(ExecutorContract, TasksMayPostAndSetTimers) {
  std::atomic<int> ran = 0;
  std::function<void(int)> spread = [&](int depth) {
    ++ran;
    if (depth == 0) return;
    executor_->Post("child", [&spread, depth] { spread(depth - 1); });
    executor_->PostAfter("child", milliseconds(1), [&spread, depth] { spread(depth - 1); });
  };
  executor_->Post("root", [&spread] { spread(5); });
  EXPECT_TRUE(Wait([&ran] { return ran == 63; }));
}

TEST_P(ExecutorContract, TimersRunOnceOnItsThreadNoSoonerThanSet) {
  std::atomic<int> ran = 0, wrong = 0;
  for (const int delay : {12, 0, -3, 5}) {  // from the test's thread, and from its own
    const auto set = [&, delay] {
      const TimePoint due = executor_->clock().Now() + milliseconds(delay);
      executor_->PostAfter("timer", milliseconds(delay), [&, due] {
        wrong += executor_->InThread() && executor_->clock().Now() >= due ? 0 : 1;
        ++ran;
      });
    };
    set();
    On(set);
  }
  ASSERT_TRUE(Wait([&ran] { return ran == 8; }));
  Pass(milliseconds(5));
  EXPECT_EQ(ran, 8);
  EXPECT_EQ(wrong, 0);
}

// Far off: a pool's other threads run timers while this task is at it.
TEST_P(ExecutorContract, ACancelledTimerNeverRunsAndCancellingAgainIsNothing) {
  std::atomic<int> cancelled = 0, others = 0;
  const auto count = [&cancelled] { ++cancelled; };
  On([&] {
    const TimerId soon = executor_->PostAfter("soon", milliseconds(400), count);
    const TimerId late = executor_->PostAfter("late", milliseconds(410), count);
    executor_->PostAfter("other", milliseconds(405), [&others] { ++others; });
    for (const TimerId timer : {soon, late, soon, late, ~TimerId{0}}) {
      executor_->CancelTimer(timer);
    }
  });
  Pass(milliseconds(430));
  EXPECT_EQ(cancelled, 0);
  EXPECT_EQ(others, 1);
}

TEST_P(ExecutorContract, CancellingATimerThatHasRunIsNothing) {
  std::atomic<int> ran = 0;
  std::atomic<TimerId> timer = 0;
  On([&] { timer = executor_->PostAfter("first", Duration::zero(), [&ran] { ++ran; }); });
  ASSERT_TRUE(Wait([&ran] { return ran == 1; }));
  On([&] {
    executor_->PostAfter("second", milliseconds(1), [&ran] { ++ran; });
    executor_->CancelTimer(timer);
  });
  EXPECT_TRUE(Wait([&ran] { return ran == 2; }));
}

// Numbers of timers are an executor's own: those of another name none of its own.
TEST_P(ExecutorContract, TimersOfAnotherAreNotCancelled) {
  const auto other = rig_->New("other");
  std::atomic<int> ran = 0;
  std::vector<TimerId> timers;
  for (int i = 0; i < 3; ++i) {
    timers.push_back(other->PostAfter("other", milliseconds(3), [&ran] { ++ran; }));
  }
  On([&] {
    for (const TimerId timer : timers) executor_->CancelTimer(timer);
  });
  EXPECT_TRUE(Wait([&ran] { return ran == 3; }));
}

TEST_P(ExecutorContract, ATimerMayCancelAnotherAndSetNewOnes) {
  std::atomic<int> other = 0, next = 0;
  On([&] {
    const TimerId late = executor_->PostAfter("late", milliseconds(400), [&other] { ++other; });
    executor_->PostAfter("first", milliseconds(1), [&, late] {
      executor_->CancelTimer(late);
      executor_->PostAfter("next", milliseconds(430), [&next] { ++next; });
    });
  });
  ASSERT_TRUE(Wait([&next] { return next == 1; }));
  EXPECT_EQ(other, 0);
}

TEST_P(ExecutorContract, DestructionForgetsTimersAndFreesAllTasks) {
  const auto ran = std::make_shared<std::atomic<int>>(0);
  std::atomic<int> fired = 0;
  Executor* const executor = executor_.get();
  executor->PostAfter("never", hours(1), [&fired, ran] { ++fired; });
  for (int i = 0; i < 20; ++i) {
    executor->Post("outer", [executor, ran] { executor->Post("inner", [ran] { ++*ran; }); });
  }
  if (!rig_->finishes()) {
    ASSERT_TRUE(Wait([&ran] { return *ran == 3; }));
  }
  executor_.reset();
  EXPECT_EQ(*ran, rig_->finishes() ? 20 : 3);
  EXPECT_EQ(ran.use_count(), 1);
  executor_ = rig_->New("control");
  Pass(milliseconds(20));
  EXPECT_EQ(*ran, rig_->finishes() ? 20 : 3);
  EXPECT_EQ(fired, 0);
}

TEST_P(ExecutorContract, TimeGoesOn) {
  const TimePoint before = executor_->clock().Now();
  Pass(milliseconds(3));
  EXPECT_GE(executor_->clock().Now() - before, milliseconds(3));
}

TEST_P(ExecutorContractDeathTest, TimersAreCancelledOnItsThreadOnly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto other = rig_->New("other");
  EXPECT_DEATH(rig_->On(other.get(), [this] { executor_->CancelTimer(1); }),
               "called off its thread: .*::CancelTimer");
}

TEST_P(SingleExecutorContract, TasksRunOneAtATimeInOrderOfPosting) {
  std::vector<int> order, expected(500);
  std::iota(expected.begin(), expected.end(), 0);
  std::atomic<bool> running = false;
  std::atomic<int> overlaps = 0;
  for (const int i : expected) {
    executor_->Post("count", [&, i] {
      overlaps += running.exchange(true) ? 1 : 0;
      order.push_back(i);
      running = false;
    });
  }
  On([] {});
  EXPECT_EQ(order, expected);
  EXPECT_EQ(overlaps, 0);
}

// Callers go on with what the task needs.
TEST_P(SingleExecutorContract, PostingRunsNothingAtOnce) {
  bool posting = false;
  std::atomic<int> inside = 0, ran = 0;
  const auto task = [&] {
    inside += posting ? 1 : 0;
    ++ran;
  };
  On([&] {
    posting = true;
    executor_->Post("own", task);
    executor_->PostAfter("now", Duration::zero(), task);
    executor_->PostAfter("past", milliseconds(-5), task);
    posting = false;
  });
  ASSERT_TRUE(Wait([&ran] { return ran == 3; }));
  EXPECT_EQ(inside, 0);
}

TEST_P(SingleExecutorContract, WhatATaskPostsRunsBehindWhatWasPostedBefore) {
  std::string order;
  On([&] {
    executor_->Post("a", [&] {
      order += "a";
      executor_->Post("c", [&] { order += "c"; });
    });
    executor_->Post("b", [&] { order += "b"; });
  });
  On([] {});  // behind a and b
  On([] {});
  EXPECT_EQ(order, "abc");
}

TEST_P(SingleExecutorContract, TimersRunInOrderOfTheirTimes) {
  std::string order;
  On([&] {  // all three are set before the first can run
    executor_->PostAfter("late", milliseconds(30), [&] { order += "c"; });
    executor_->PostAfter("early", milliseconds(5), [&] { order += "a"; });
    executor_->PostAfter("middle", milliseconds(15), [&] { order += "b"; });
  });
  Pass(milliseconds(40));
  On([] {});
  EXPECT_EQ(order, "abc");
}

template <typename Rig>
std::unique_ptr<ExecutorRig> New() {
  return std::make_unique<Rig>();
}

const auto kSingle =
    testing::Values(&New<ThreadRig<1>>, &New<SimRig<1, false>>, &New<SimRig<1, true>>);
const auto kPools = testing::Values(&New<ThreadRig<3>>, &New<SimRig<2, true>>);

INSTANTIATE_TEST_SUITE_P(Single, ExecutorContract, kSingle);
INSTANTIATE_TEST_SUITE_P(Pools, ExecutorContract, kPools);
INSTANTIATE_TEST_SUITE_P(Single, ExecutorContractDeathTest, kSingle);
INSTANTIATE_TEST_SUITE_P(Pools, ExecutorContractDeathTest, kPools);
INSTANTIATE_TEST_SUITE_P(Single, SingleExecutorContract, kSingle);

TEST(SimPoolTest, TasksStartInOrderOnWhicheverThreadIsFree) {
  SimWorld world;
  const auto pool = world.NewPool("codec", 2, [](const char* task) {
    return milliseconds(task == std::string("long") ? 5 : 2);
  });
  const TimePoint start = world.Now();
  std::vector<std::pair<std::string, long>> ended;
  for (const char* task : {"long", "short", "short", "short"}) {
    pool->Post(task, [&, task] {
      ended.emplace_back(
          task, std::chrono::duration_cast<milliseconds>(world.Now() - start) / milliseconds(1));
    });
  }
  while (world.Step()) {
  }
  EXPECT_EQ(ended, (std::vector<std::pair<std::string, long>>{
                       {"short", 2}, {"short", 4}, {"long", 5}, {"short", 6}}));
}

}  // namespace
}  // namespace shoal
