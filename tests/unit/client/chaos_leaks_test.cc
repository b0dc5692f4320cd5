#include "client/chaos_leaks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

namespace shoal::client {
namespace {

constexpr double kLife = 150;  // seconds

// A life of a process that holds what `held` says at each second.
std::vector<HoldingsChange> Live(const std::function<Holdings(double)>& held, double life = kLife) {
  LeakWatch watch;
  for (double at = 0; at <= life; ++at) watch.Add("peer-0", 7, 1000 + at, held(at));
  return watch.Changes();
}

TEST(ChaosLeaks, SteadyGrowthIsNamed) {
  const auto files = Live([](double at) { return Holdings{40 + at, 30, 100}; });
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].name, "peer-0");
  EXPECT_EQ(files[0].grows, "files");
  EXPECT_LT(files[0].early.files, files[0].late.files);
  const auto threads = Live([](double at) { return Holdings{40, 30 + at / 4, 100}; });
  EXPECT_EQ(threads.at(0).grows, "threads");
  const auto memory = Live([](double at) { return Holdings{40, 30, 100 + 2 * at}; });
  EXPECT_EQ(memory.at(0).grows, "memory");
}

TEST(ChaosLeaks, WhatFillsAtTheStartOrComesAndGoesIsNone) {
  const auto start = Live([](double at) {
    return at < LeakWatch::kStartSeconds ? Holdings{10, 5, 20} : Holdings{80, 60, 400};
  });
  EXPECT_EQ(start.at(0).grows, "");
  const auto waves = Live([](double at) {
    return static_cast<int>(at / 7) % 2 == 0 ? Holdings{40, 30, 100} : Holdings{90, 50, 300};
  });
  EXPECT_EQ(waves.at(0).grows, "");
  // More links than at first, since a pipeline more trains.
  const auto stage = Live([](double at) {
    return at < 60 ? Holdings{40, 30, 100} : Holdings{70, 44, 300};
  });
  EXPECT_EQ(stage.at(0).grows, "");
  const auto large = Live([](double at) { return Holdings{40, 30, 8000 + 2 * at}; });
  EXPECT_EQ(large.at(0).grows, "") << "less than a twentieth of what it holds";
}

TEST(ChaosLeaks, ASpareThatGetsAStageInAShortRunIsNoLeak) {
  const auto spare = Live(
      [](double at) {
        return Holdings{30, 21, at < 20 ? 147.0 : at < 32 ? 175.0 : 204.0};
      },
      44);
  EXPECT_EQ(spare.at(0).grows, "");
}

TEST(ChaosLeaks, YoungProcessesAreNotJudgedAndTheOldestOfANameCounts) {
  EXPECT_TRUE(Live(
                  [](double at) {
                    return Holdings{40 + at, 30, 100};
                  },
                  LeakWatch::kSecondsMin)
                  .empty());
  LeakWatch watch;
  for (double at = 0; at <= kLife; ++at) watch.Add("peer-0", 7, at, {40, 30, 100});
  for (double at = 0; at <= kLife - 10; ++at) watch.Add("peer-0", 8, 500 + at, {40 + at, 30, 100});
  const auto changes = watch.Changes();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].grows, "");
}

TEST(ChaosLeaks, AProcessIsLookedAt) {
  const auto before = LookAt(::getpid());
  ASSERT_TRUE(before);
  EXPECT_GE(before->threads, 1);
  EXPECT_GT(before->resident_mib, 1);
  const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const auto after = LookAt(::getpid());
  ::close(file);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->files, before->files + 1);
  EXPECT_FALSE(LookAt(-1));
}

}  // namespace
}  // namespace shoal::client
