#include "common/parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

namespace shoal {
namespace {

// Nothing that is posted runs before RunAll.
class Idle final : public Executor {
 public:
  void Post(const char* /*name*/, std::function<void()> task) override {
    tasks_.push_back(std::move(task));
  }
  TimerId PostAfter(const char* /*name*/, Duration /*delay*/,
                    std::function<void()> /*task*/) override {
    return 0;
  }
  void CancelTimer(TimerId /*timer*/) override {}
  bool InThread() const override { return false; }
  const Clock& clock() const override { return SystemClock(); }

  void RunAll() {
    for (const auto& task : tasks_) task();
  }
  std::size_t posted() const { return tasks_.size(); }

 private:
  std::vector<std::function<void()>> tasks_;
};

TEST(ParallelForTest, EverySliceIsDoneOnce) {
  for (const int threads : {1, 4}) {
    const auto pool = NewThreadPool("helper", threads);
    for (const std::size_t slices : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> done(slices);
      ParallelFor(pool.get(), "work", slices, [&](std::size_t i) { ++done[i]; });
      for (const auto& times : done) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ParallelForTest, HelpersThatComeLateDoNothing) {
  Idle idle;
  int done = 0;
  ParallelFor(&idle, "work", 5, [&](std::size_t) { ++done; });
  EXPECT_EQ(done, 5);
  EXPECT_GT(idle.posted(), 0u);
  idle.RunAll();
  EXPECT_EQ(done, 5);
}

TEST(ParallelForTest, AThreadOfTheHelpersMayCall) {
  std::atomic<int> done = 0;
  {
    const auto pool = NewThreadPool("helper", 2);
    for (int caller = 0; caller < 8; ++caller) {
      pool->Post("call", [&, helpers = pool.get()] {
        ParallelFor(helpers, "work", 100, [&](std::size_t) { ++done; });
      });
    }
  }
  EXPECT_EQ(done, 800);
}

TEST(ParallelForTest, NeedsNoHelpers) {
  int done = 0;
  ParallelFor(nullptr, "work", 3, [&](std::size_t) { ++done; });
  EXPECT_EQ(done, 3);
}

}  // namespace
}  // namespace shoal
