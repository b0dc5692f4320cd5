#include "scheduler/peers/heartbeat_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace shoal::scheduler {
namespace {

constexpr Duration kInterval = std::chrono::seconds(1);
constexpr Duration kLeast = 3 * kInterval;
constexpr Duration kMost = std::chrono::seconds(6);

Duration Milliseconds(double ms) { return Duration(static_cast<std::int64_t>(ms * 1e6)); }

TEST(HeartbeatWatch, WaitsLongestForWhoIsNotKnown) {
  HeartbeatWatch watch;
  TimePoint now{};
  for (std::size_t i = 0; i <= HeartbeatWatch::kGapsMin; ++i) {
    EXPECT_EQ(watch.Deadline(kLeast, kMost), kMost) << i;
    watch.OnHeartbeat(now += kInterval);
  }
  EXPECT_EQ(watch.Deadline(kLeast, kMost), 3 * kInterval);
}

// The reference: mean, standard deviation and longest gap by their definitions, over the last gaps.
TEST(HeartbeatWatch, DeadlineFollowsTheDistributionOfGaps) {
  std::mt19937_64 random(5);
  std::vector<double> gaps;
  HeartbeatWatch watch;
  TimePoint now{};
  watch.OnHeartbeat(now);
  for (int i = 0; i < 900; ++i) {
    gaps.push_back(i % 2 == 0 ? 700 + static_cast<double>(random() % 40) : 1700);
    watch.OnHeartbeat(now += Milliseconds(gaps.back()));
  }
  double sum = 0, squares = 0;
  for (std::size_t i = gaps.size() - HeartbeatWatch::kGapsKept; i < gaps.size(); ++i) {
    sum += gaps[i];
    squares += gaps[i] * gaps[i];
  }
  const double n = HeartbeatWatch::kGapsKept;
  const double expected = sum / n + 5.6 * std::sqrt(squares / n - sum * sum / (n * n));
  ASSERT_GT(expected, 2 * 1700);
  const Duration deadline = watch.Deadline(kLeast, std::chrono::minutes(1));
  EXPECT_NEAR(std::chrono::duration<double>(deadline).count(), expected / 1000, 1e-6);
  EXPECT_EQ(watch.Deadline(kLeast, 3 * kInterval / 2), 3 * kInterval / 2);
}

// Peers whose heartbeats come late by a line that is full or a machine that is busy: how many are
// taken for lost though they live?
TEST(HeartbeatWatch, FewLivePeersAreTakenForLost) {
  std::mt19937_64 random(6);
  std::gamma_distribution<double> late(0.5, 0.3);  // seconds; now and then over a second
  int lost = 0;
  for (int peer = 0; peer < 100; ++peer) {
    HeartbeatWatch watch;
    TimePoint now{}, last{};
    for (int i = 0; i < 1000; ++i) {
      now += kInterval;
      const TimePoint arrived = std::max(last, now + Milliseconds(1000 * late(random)));
      if (i > 0 && arrived - last > watch.Deadline(kLeast, kMost)) ++lost;
      watch.OnHeartbeat(arrived);
      last = arrived;
    }
  }
  EXPECT_LE(lost, 2) << "of 100,000 heartbeats";
}

TEST(HeartbeatWatch, OneLongGapMakesItWaitLongerForAWhile) {
  HeartbeatWatch watch;
  TimePoint now{};
  for (int i = 0; i < 30; ++i) watch.OnHeartbeat(now += kInterval);
  watch.OnHeartbeat(now += std::chrono::milliseconds(5500));
  EXPECT_EQ(watch.Deadline(kLeast, std::chrono::minutes(1)), std::chrono::seconds(11));
  for (std::size_t i = 0; i < HeartbeatWatch::kGapsKept; ++i) watch.OnHeartbeat(now += kInterval);
  EXPECT_EQ(watch.Deadline(kLeast, kMost), 3 * kInterval);
}

}  // namespace
}  // namespace shoal::scheduler
