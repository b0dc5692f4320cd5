#include "pipeline/core/time_use.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
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

TEST(TimeAccount, CountsFromTheFirstUseToNow) {
  ManualClock clock;
  TimeAccount account(&clock);
  clock.Advance(milliseconds(100));
  EXPECT_EQ(account.used().total(), 0);  // not open yet
  account.Become(Use::kForward);
  clock.Advance(milliseconds(45));
  EXPECT_EQ(account.used()[Use::kForward], 45);
  account.Become(Use::kWaitGradient);
  clock.Advance(milliseconds(7));
  account.Become(Use::kForward);
  clock.Advance(milliseconds(5));
  EXPECT_EQ(account.used()[Use::kForward], 50);
  EXPECT_EQ(account.used()[Use::kWaitGradient], 7);
  EXPECT_EQ(account.used().total(), 57);
}

TEST(TimeAccount, WhatComesAfterCloseDoesNotCount) {
  ManualClock clock;
  TimeAccount account(&clock);
  account.Close();
  account.Become(Use::kStep);
  clock.Advance(milliseconds(3));
  account.Close();
  clock.Advance(milliseconds(1000));
  account.Close();
  EXPECT_EQ(account.used()[Use::kStep], 3);
  EXPECT_EQ(account.used().total(), 3);
}

TEST(TimeAccount, HasNoGaps) {
  std::mt19937 random(11);
  ManualClock clock;
  TimeAccount account(&clock);
  account.Become(Use::kStep);
  std::array<double, kUses> expected{};
  std::size_t use = static_cast<std::size_t>(Use::kStep);
  double total = 0;
  for (int i = 0; i < 1000; ++i) {
    const int elapsed_ms = static_cast<int>(random() % 50);
    clock.Advance(milliseconds(elapsed_ms));
    expected[use] += elapsed_ms;
    total += elapsed_ms;
    use = random() % kUses;
    account.Become(static_cast<Use>(use));
  }
  EXPECT_EQ(account.used().ms, expected);
  EXPECT_EQ(account.used().total(), total);
}

TEST(TimeUse, EveryUseHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kUses; ++i) names.insert(UseName(static_cast<Use>(i)));
  EXPECT_EQ(names.size(), kUses);
  EXPECT_EQ(names.count("unknown"), 0u);
}

TEST(TimeUse, EveryStateBetweenStepsCounts) {
  EXPECT_EQ(UseOf(RunnerState::kWaiting), Use::kStep);
  EXPECT_EQ(UseOf(RunnerState::kReady), Use::kStep);
  EXPECT_EQ(UseOf(RunnerState::kReducing), Use::kExchange);
  EXPECT_EQ(UseOf(RunnerState::kSynced), Use::kStep);
  EXPECT_EQ(UseOf(RunnerState::kApplying), Use::kOptimizer);
  EXPECT_FALSE(UseOf(RunnerState::kOpening).has_value());
  EXPECT_FALSE(UseOf(RunnerState::kRunning).has_value());  // the operations say it
}

}  // namespace
}  // namespace shoal::pipeline
