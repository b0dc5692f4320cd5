#include "pipeline/core/activity.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "common/clock.h"
#include "pipeline/core/lifecycle.h"

namespace shoal::pipeline {
namespace {

using std::chrono::milliseconds;

class ManualClock final : public Clock {
 public:
  TimePoint Now() const override { return now_; }
  void Advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{};
};

double Total(const ActivityTimes& times) {
  return std::accumulate(times.ms.begin(), times.ms.end(), 0.0);
}

TEST(ActivityAccount, CountsFromTheFirstUseToNow) {
  ManualClock clock;
  ActivityAccount account(&clock);
  clock.Advance(milliseconds(100));
  EXPECT_EQ(Total(account.used()), 0);  // not open yet
  account.Become(Activity::kForward);
  clock.Advance(milliseconds(45));
  EXPECT_EQ(account.used()[Activity::kForward], 45);
  account.Become(Activity::kWaitGradient);
  clock.Advance(milliseconds(7));
  account.Become(Activity::kForward);
  clock.Advance(milliseconds(5));
  EXPECT_EQ(account.used()[Activity::kForward], 50);
  EXPECT_EQ(account.used()[Activity::kWaitGradient], 7);
  EXPECT_EQ(Total(account.used()), 57);
}

TEST(ActivityAccount, WhatComesAfterCloseDoesNotCount) {
  ManualClock clock;
  ActivityAccount account(&clock);
  account.Close();
  account.Become(Activity::kStep);
  clock.Advance(milliseconds(3));
  account.Close();
  clock.Advance(milliseconds(1000));
  account.Close();
  EXPECT_EQ(account.used()[Activity::kStep], 3);
  EXPECT_EQ(Total(account.used()), 3);
}

TEST(ActivityAccount, HasNoGaps) {
  std::mt19937 random(11);
  ManualClock clock;
  ActivityAccount account(&clock);
  account.Become(Activity::kStep);
  std::array<double, kActivities> expected{};
  std::size_t activity = static_cast<std::size_t>(Activity::kStep);
  double total = 0;
  for (int i = 0; i < 1000; ++i) {
    const int elapsed_ms = static_cast<int>(random() % 50);
    clock.Advance(milliseconds(elapsed_ms));
    expected[activity] += elapsed_ms;
    total += elapsed_ms;
    activity = random() % kActivities;
    account.Become(static_cast<Activity>(activity));
  }
  EXPECT_EQ(account.used().ms, expected);
  EXPECT_EQ(Total(account.used()), total);
}

TEST(ActivityTimes, EveryActivityHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kActivities; ++i)
    names.insert(ActivityName(static_cast<Activity>(i)));
  EXPECT_EQ(names.size(), kActivities);
  EXPECT_EQ(names.count("unknown"), 0u);
}

TEST(ActivityTimes, EveryStateBetweenStepsCounts) {
  EXPECT_EQ(ActivityOf(RunnerState::kWaiting), Activity::kStep);
  EXPECT_EQ(ActivityOf(RunnerState::kReady), Activity::kStep);
  EXPECT_EQ(ActivityOf(RunnerState::kReducing), Activity::kExchange);
  EXPECT_EQ(ActivityOf(RunnerState::kSynced), Activity::kStep);
  EXPECT_EQ(ActivityOf(RunnerState::kApplying), Activity::kOptimizer);
  EXPECT_FALSE(ActivityOf(RunnerState::kOpening).has_value());
  EXPECT_FALSE(ActivityOf(RunnerState::kRunning).has_value());  // the operations say it
}

}  // namespace
}  // namespace shoal::pipeline
