#include "scheduler/steps/checkpoint_interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace shoal::scheduler {
namespace {

Duration S(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// Seconds that a second of work takes, walked: work and checkpoint, with losses at random of which
// each costs all since the last checkpoint. In closed form, since e^x counts the tries.
double Stretch(double interval, double cost, double between) {
  return between * std::expm1((interval + cost) / between) / interval;
}

TEST(CheckpointInterval, LosesNoMoreTimeThanTheBestOfAThousand) {
  for (const double between : {60.0, 3600.0, 86400.0}) {
    for (const double share : {1e-5, 1e-3, 0.01, 0.1, 0.5, 1.0}) {
      const double cost = share * between;
      double best = Stretch(between, cost, between);
      for (int i = 1; i <= 1000; ++i) {
        best = std::min(best, Stretch(between * std::pow(10, -6 + i * 0.007), cost, between));
      }
      const double found = Stretch(OptimalInterval(cost, between), cost, between);
      EXPECT_LT(found, best * 1.002) << "cost " << cost << ", between " << between;
    }
  }
  EXPECT_EQ(OptimalInterval(300, 100), 100);  // beyond the series
}

// The closed form above against runs that are walked with losses drawn at random.
TEST(CheckpointInterval, TheReferenceIsThatOfRunsWithLossesAtRandom) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> next(1 / 100.0);
  double work = 0, time = 0;
  while (work < 1e6) {
    const double until_lost = next(random);
    if (until_lost < 30 + 5) {
      time += until_lost;
    } else {
      time += 30 + 5;
      work += 30;
    }
  }
  EXPECT_NEAR(time / work, Stretch(30, 5, 100), 0.02);
}

// Steps of so long, and a checkpoint that slows them, as CheckpointUploads tells of them.
struct Walk {
  CheckpointInterval interval;
  TimePoint now{std::chrono::hours(1)};
  CheckpointInterval::Losses losses;

  void Steps(int count, double seconds, bool saving = false) {
    for (int i = 0; i < count; ++i) {
      now += S(seconds);
      interval.AddStep(S(seconds), saving);
      ++losses.steps;
    }
  }
  void Checkpoint(int steps, double seconds) {
    interval.Begin(now);
    Steps(steps, seconds, true);
    interval.End(now);
  }
  std::uint64_t Now() const { return interval.Steps(losses); }
};

TEST(CheckpointInterval, TheFirstOneIsMeasuredSoon) {
  Walk run;
  EXPECT_EQ(run.Now(), CheckpointInterval::kFirstSteps);
  run.Steps(10, 1);
  EXPECT_EQ(run.Now(), CheckpointInterval::kFirstSteps);
  run.interval.Begin(run.now);
  run.Steps(1, 1, true);
  run.interval.Drop();  // nothing is known of it
  run.interval.End(run.now);
  EXPECT_EQ(run.Now(), CheckpointInterval::kFirstSteps);
}

TEST(CheckpointInterval, IsShorterTheOftenerStepsAreLost) {
  Walk run;
  run.Steps(20, 2);
  run.Checkpoint(1, 6);  // costs 4 s
  const double expected = OptimalInterval(4, 3600 + 21 * 2) / 2;
  EXPECT_NEAR(static_cast<double>(run.Now()), expected, 1);
  std::uint64_t before = run.Now();
  for (run.losses.times = 1; run.losses.times < 20; ++run.losses.times) {
    EXPECT_LE(run.Now(), before);
    before = run.Now();
  }
  EXPECT_NEAR(static_cast<double>(before), OptimalInterval(4, 3642.0 / 20) / 2, 1);
  run.losses.steps = 1'000'000;  // in which these were all
  EXPECT_GT(run.Now(), 200u);
}

TEST(CheckpointInterval, LeavesHalfOfTheTimeWithoutOne) {
  Walk run;
  run.Steps(20, 1);
  run.Checkpoint(500, 1);  // a slow line, that slows no step
  EXPECT_EQ(run.Now(), 1000u);
  run.losses.times = 1'000'000;
  EXPECT_EQ(run.Now(), 1000u) << "what cannot become whole sooner is not asked for";
}

TEST(CheckpointInterval, LeavesDisksAlone) {
  Walk run;
  run.Steps(20, 0.01);
  run.Checkpoint(2, 0.01);
  run.losses.times = 1'000'000;
  EXPECT_EQ(run.Now(), 1000u) << "10 s";
}

TEST(CheckpointInterval, GoesOnWithAnotherPlan) {
  Walk run;
  run.Steps(20, 2);
  run.Checkpoint(4, 3);
  const std::uint64_t before = run.Now();
  run.interval.ForgetSteps();
  EXPECT_EQ(run.Now(), before) << "no checkpoint at the first step of every plan";
  run.interval.ForgetSteps();
  EXPECT_EQ(run.Now(), before);
  run.Steps(3, 4);
  EXPECT_NEAR(static_cast<double>(run.Now()), OptimalInterval(4, 3600 + 27 * 4) / 4, 1);
}

}  // namespace
}  // namespace shoal::scheduler
