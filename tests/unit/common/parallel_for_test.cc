#include "common/parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "common/executor.h"
#include "tests/support/sim_executor.h"

namespace shoal {
namespace {

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
  test_support::SimWorld world;
  const auto helper = world.NewExecutor("helper");
  int done = 0;
  ParallelFor(helper.get(), "work", 5, [&](std::size_t) { ++done; });
  EXPECT_EQ(done, 5);
  EXPECT_GT(world.pending(), 0u);
  while (world.Step()) {
  }
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
