#include "compression/codecs/aqsgd/delta_guard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace shoal::compression {
namespace {

CodingStats WithDelta(double relative_delta) {
  CodingStats stats;
  stats.values = 4;
  for (int i = 0; i < 10; ++i) stats.changes.Count(relative_delta * relative_delta, 1);
  return stats;
}

void Observe(DeltaGuard* guard, double relative_delta, std::int64_t messages) {
  for (std::int64_t i = 0; i < messages; ++i) guard->Observe(WithDelta(relative_delta));
}

// So many messages make the average what they say.
constexpr int kSettled = 400;

TEST(DeltaGuardTest, StaysWithChangesThatAreSmall) {
  DeltaGuard guard;
  EXPECT_EQ(guard.relative_delta(), 0.0);
  Observe(&guard, 0.29, kSettled);
  EXPECT_EQ(guard.mode(), DeltaMode::kDelta);
  EXPECT_NEAR(guard.relative_delta(), 0.29, 0.29 / 9);
}

// Half of the tokens change by .2 and are well; of the others most change by more than .6.
TEST(DeltaGuardTest, ManyWildTokensCountThoughHalfAreCalm) {
  CodingStats stats;
  stats.values = 1;
  for (int i = 0; i < 60; ++i) stats.changes.Count(0.2 * 0.2, 1);
  for (int i = 0; i < 40; ++i) stats.changes.Count(0.9 * 0.9, 1);
  DeltaGuard guard;
  for (int i = 0; i < kSettled; ++i) guard.Observe(stats);
  EXPECT_EQ(guard.mode(), DeltaMode::kWideDelta);
  EXPECT_NEAR(guard.relative_delta(), 0.45, 0.45 / 9);
}

// A sink holds nearly all energy of a sample: a ratio of energies over it would be .02.
TEST(DeltaGuardTest, OneLargeTokenHidesNothing) {
  CodingStats stats;
  stats.values = 1;
  stats.changes.Count(0.1, 1e4);
  for (int i = 0; i < 127; ++i) stats.changes.Count(2, 1);  // fresh activations, as large as before
  DeltaGuard guard;
  for (int i = 0; i < kSettled; ++i) guard.Observe(stats);
  EXPECT_EQ(guard.mode(), DeltaMode::kFull);
  EXPECT_NEAR(guard.relative_delta(), std::sqrt(2), std::sqrt(2) / 9);
}

TEST(DeltaGuardTest, StepsUpAndDownOneAtATime) {
  DeltaGuard guard;
  std::vector<DeltaMode> seen = {guard.mode()};
  for (const double delta : {2.0, 0.01}) {
    for (int i = 0; i < kSettled; ++i) {
      guard.Observe(WithDelta(delta));
      if (guard.mode() != seen.back()) seen.push_back(guard.mode());
    }
  }
  EXPECT_EQ(seen,
            (std::vector<DeltaMode>{DeltaMode::kDelta, DeltaMode::kWideDelta, DeltaMode::kFull,
                                    DeltaMode::kWideDelta, DeltaMode::kDelta}));
}

TEST(DeltaGuardTest, HasPatienceBeforeTheFirstStepAndBetweenSteps) {
  DeltaGuard guard;
  Observe(&guard, 5, DeltaGuard::kPatience - 1);
  EXPECT_EQ(guard.mode(), DeltaMode::kDelta);
  Observe(&guard, 5, 1);
  EXPECT_EQ(guard.mode(), DeltaMode::kWideDelta);
  Observe(&guard, 5, DeltaGuard::kPatience - 1);
  EXPECT_EQ(guard.mode(), DeltaMode::kWideDelta);
  Observe(&guard, 5, 1);
  EXPECT_EQ(guard.mode(), DeltaMode::kFull);
}

TEST(DeltaGuardTest, OneWildMessageIsNoReason) {
  DeltaGuard guard;
  Observe(&guard, 0.05, kSettled);
  Observe(&guard, 3.5, 1);  // the average becomes 0.27
  Observe(&guard, 0.05, kSettled);
  EXPECT_EQ(guard.mode(), DeltaMode::kDelta);
}

TEST(DeltaGuardTest, BetweenTheThresholdsTheModeStays) {
  DeltaGuard guard;
  Observe(&guard, 0.2, kSettled);
  EXPECT_EQ(guard.mode(), DeltaMode::kDelta);
  Observe(&guard, 0.4, kSettled);
  EXPECT_EQ(guard.mode(), DeltaMode::kWideDelta);
  Observe(&guard, 0.2, kSettled);  // below what led up, not below its half
  EXPECT_EQ(guard.mode(), DeltaMode::kWideDelta);
  Observe(&guard, 0.14, kSettled);
  EXPECT_EQ(guard.mode(), DeltaMode::kDelta);

  Observe(&guard, 1.1, kSettled);
  EXPECT_EQ(guard.mode(), DeltaMode::kFull);
  Observe(&guard, 0.6, kSettled);
  EXPECT_EQ(guard.mode(), DeltaMode::kFull);
  Observe(&guard, 0.45, kSettled);
  EXPECT_EQ(guard.mode(), DeltaMode::kWideDelta);
}

// Changes of .4 in few bits are changes of .1 in twice as many, and of .4 again after that.
int StepsWhereBitsMakeChangesSmall(DeltaGuard* guard, int messages) {
  int steps = 0;
  for (int i = 0; i < messages; ++i) {
    const DeltaMode before = guard->mode();
    guard->Observe(WithDelta(before == DeltaMode::kDelta ? 0.4 : 0.1));
    steps += guard->mode() != before ? 1 : 0;
  }
  return steps;
}

TEST(DeltaGuardTest, WhereBitsMakeChangesSmallItStaysLongerEachTime) {
  DeltaGuard guard;
  const int early = StepsWhereBitsMakeChangesSmall(&guard, 10'000);
  EXPECT_LE(early, 16);
  EXPECT_GE(early, 4) << "it must also find out that the run has calmed down";
  EXPECT_LE(StepsWhereBitsMakeChangesSmall(&guard, 100'000), 8);
  EXPECT_EQ(guard.mode(), DeltaMode::kWideDelta);
  EXPECT_GE(guard.stay(), 16'384);
}

TEST(DeltaGuardTest, ItStaysUntilEverySampleWasSentInItsModeOnce) {
  DeltaGuard guard;
  CodingStats first_visit;
  first_visit.values = 1;
  for (int i = 0; i < 1000; ++i) guard.Observe(first_visit);
  Observe(&guard, 0.4, DeltaGuard::kPatience);
  ASSERT_EQ(guard.mode(), DeltaMode::kWideDelta);
  EXPECT_EQ(guard.stay(), 1000);
  Observe(&guard, 0.01, 999);
  EXPECT_EQ(guard.mode(), DeltaMode::kWideDelta);
  Observe(&guard, 0.01, 1);
  EXPECT_EQ(guard.mode(), DeltaMode::kDelta);
  // Up needs no such patience, and full after wide is one climb.
  Observe(&guard, 5, DeltaGuard::kPatience);
  EXPECT_EQ(guard.mode(), DeltaMode::kWideDelta);
  EXPECT_EQ(guard.stay(), 2000);
  Observe(&guard, 5, DeltaGuard::kPatience);
  EXPECT_EQ(guard.mode(), DeltaMode::kFull);
  EXPECT_EQ(guard.stay(), 2000);
}

TEST(DeltaGuardTest, MessagesWithoutChangesDoNotCount) {
  DeltaGuard guard;
  CodingStats first_visits;
  first_visits.values = 4;
  first_visits.errors = 4;
  for (int i = 0; i < kSettled; ++i) guard.Observe(first_visits);
  for (int i = 0; i < kSettled; ++i) guard.Observe(CodingStats());
  EXPECT_EQ(guard.relative_delta(), 0.0);
  Observe(&guard, 5, DeltaGuard::kPatience - 1);
  for (int i = 0; i < kSettled; ++i) guard.Observe(first_visits);
  EXPECT_EQ(guard.mode(), DeltaMode::kDelta) << "first visits were taken for patience";
  EXPECT_NEAR(guard.relative_delta(), 5, 5.0 / 9);
  Observe(&guard, 5, 1);
  EXPECT_EQ(guard.mode(), DeltaMode::kWideDelta);
}

}  // namespace
}  // namespace shoal::compression
