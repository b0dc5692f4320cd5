#include "pipeline/core/operation_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "pipeline/core/usual_time.h"

namespace shoal::pipeline {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr Duration kLeast = seconds(12);

class HandClock : public Clock {
 public:
  TimePoint Now() const override { return now_; }
  void Pass(Duration time) { now_ += time; }

 private:
  TimePoint now_{};
};

Duration Of(double in_seconds) { return Duration(static_cast<std::int64_t>(in_seconds * 1e9)); }

TEST(UsualTime, WaitsForEnoughTimesAndThenNeverLessThanTheLeast) {
  UsualTime usual;
  for (std::uint32_t i = 0; i < UsualTime::kTimesMin; ++i) {
    EXPECT_FALSE(usual.Deadline(kLeast)) << i;
    usual.Add(milliseconds(800));
  }
  EXPECT_EQ(usual.Deadline(kLeast), kLeast);
  EXPECT_EQ(usual.Deadline(milliseconds(1)), milliseconds(2400));
  EXPECT_NEAR(Milliseconds(usual.typical()), 800, 0.01);
  EXPECT_EQ(usual.longest(), milliseconds(800));
}

TEST(UsualTime, FollowsAMachineThatBecomesSlower) {
  UsualTime usual;
  for (int i = 0; i < 1000; ++i) usual.Add(seconds(1));
  EXPECT_EQ(usual.Deadline(kLeast), kLeast);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_LT(seconds(8), *usual.Deadline(kLeast));
    usual.Add(seconds(8));
  }
  EXPECT_GE(*usual.Deadline(kLeast), seconds(24));
}

// What the deadlines promise: no false alarm in a million operations whose times have long tails,
// and a hang is found within ten times the longest time, or the least.
TEST(UsualTime, MillionsOfLongTailedTimesAreNoAlarmAndAHangIsFoundWithinTheBound) {
  struct Shape {
    double median, deviation;  // seconds, of the logarithm
  };
  int seed = 0;
  for (const Shape& shape : {Shape{0.002, 1.5}, {0.05, 1.0}, {0.8, 0.6}, {3, 0.5}, {20, 0.35}}) {
    for (int run = 0; run < 20; ++run) {
      std::mt19937_64 random(static_cast<std::uint64_t>(++seed));
      std::lognormal_distribution<double> times(std::log(shape.median), shape.deviation);
      UsualTime usual;
      Duration longest{};
      for (int i = 0; i < 50'000; ++i) {
        const Duration time = Of(times(random));
        // Beyond the largest of so many times nothing is drawn: the test's own chance of failing.
        if (const auto deadline = usual.Deadline(kLeast)) {
          ASSERT_LE(time, *deadline) << shape.median << " s, seed " << seed << ", operation " << i;
        }
        usual.Add(time);
        longest = std::max(longest, time);
      }
      EXPECT_LE(*usual.Deadline(kLeast), std::max(kLeast, 10 * longest));
    }
  }
}

class OperationWatchTest : public ::testing::Test {
 protected:
  void Learn(Watched kind, Duration time) {
    for (std::uint32_t i = 0; i < UsualTime::kTimesMin; ++i) {
      const std::uint64_t token = watch_.Begin(kind, {1, i});
      Wait(time);
      watch_.End(token);
    }
  }
  // As long as it lasts the watch is looked at.
  std::optional<OperationWatch::Overdue> Wait(Duration time) {
    std::optional<OperationWatch::Overdue> overdue;
    for (; time > Duration::zero() && !overdue; time -= OperationWatch::kLookEvery) {
      clock_.Pass(std::min(time, OperationWatch::kLookEvery));
      overdue = watch_.Look();
    }
    return overdue;
  }

  HandClock clock_;
  OperationWatch watch_{&clock_, {kLeast, seconds(40)}};
};

TEST_F(OperationWatchTest, SaysWhatHangsSinceWhenAndWhatIsUsual) {
  Learn(Watched::kForward, milliseconds(800));
  watch_.Begin(Watched::kForward, {12, 3});
  const auto overdue = Wait(std::chrono::minutes(2));
  ASSERT_TRUE(overdue);
  EXPECT_EQ(overdue->kind, Watched::kForward);
  EXPECT_EQ(
      overdue->text,
      "the forward of micro-batch 3 of step 12 has taken 13.0s; usually 800ms, at most 800ms");
}

TEST_F(OperationWatchTest, TheFirstOperationsOfAKindAreOnlyMeasured) {
  Learn(Watched::kForward, milliseconds(1));
  watch_.Begin(Watched::kBackwardInput, {1, 0});
  EXPECT_FALSE(Wait(std::chrono::hours(1)));
}

TEST_F(OperationWatchTest, AnOperationThatEndsInTimeIsNone) {
  Learn(Watched::kEncode, milliseconds(5));
  const std::uint64_t token = watch_.Begin(Watched::kEncode, {2, 0});
  EXPECT_FALSE(Wait(kLeast));
  watch_.End(token);
  EXPECT_FALSE(Wait(std::chrono::hours(1)));
}

TEST_F(OperationWatchTest, AProcessThatStoodStillBlamesNoOperation) {
  Learn(Watched::kForward, milliseconds(100));
  const std::uint64_t token = watch_.Begin(Watched::kForward, {2, 0});
  EXPECT_FALSE(Wait(seconds(2)));
  clock_.Pass(std::chrono::hours(8));  // a laptop was closed
  EXPECT_FALSE(watch_.Look());
  EXPECT_FALSE(Wait(seconds(6)));
  // What it took is no usual time, even where nobody looked before it ended.
  clock_.Pass(std::chrono::hours(8));
  watch_.End(token);
  EXPECT_EQ(watch_.longest(), milliseconds(100));
}

TEST_F(OperationWatchTest, AFrameWhoseBytesComeIsWaitedForAnew) {
  Learn(Watched::kWaitGradient, milliseconds(100));
  const std::uint64_t token = watch_.Begin(Watched::kWaitGradient, {2, 1});
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(Wait(seconds(30)));
    watch_.Excuse(token);
  }
  EXPECT_FALSE(Wait(seconds(40)));
  const auto overdue = Wait(seconds(2));
  ASSERT_TRUE(overdue);
  EXPECT_THAT(overdue->text, HasSubstr("the gradient of micro-batch 1 of step 2 did not come for"));
}

TEST_F(OperationWatchTest, TheOneThatIsOverdueLongestIsNamed) {
  Learn(Watched::kForward, milliseconds(10));
  Learn(Watched::kDecode, milliseconds(10));
  watch_.Begin(Watched::kDecode, {5, 0});
  clock_.Pass(milliseconds(10));
  watch_.Begin(Watched::kForward, {5, 1});
  const auto overdue = Wait(std::chrono::minutes(1));
  ASSERT_TRUE(overdue);
  EXPECT_EQ(overdue->kind, Watched::kDecode);
}

}  // namespace
}  // namespace shoal::pipeline
