// Pings of a link, and the rates of its transfers, at given times.

#include "net/links/link_liveness.h"

#include <gtest/gtest.h>

#include "net/base/transfer_rates.h"

namespace shoal::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TimePoint At(std::int64_t ms) { return TimePoint{} + seconds(1000) + milliseconds(ms); }

LinkStats StatsOf(const LinkLiveness& liveness) {
  LinkStats stats;
  liveness.AddTo(&stats);
  return stats;
}

TEST(LinkLiveness, TheFirstPingsFollowEachOther) {
  LinkLiveness liveness;
  int sent = 0;
  for (bool more = true; more; ++sent) {
    const std::uint64_t id = liveness.Ping(At(10 * sent), 0);
    liveness.Heard(At(10 * sent + 5));
    more = liveness.Answered(id, 0);
  }
  EXPECT_EQ(sent, static_cast<int>(kFirstPings));
  EXPECT_EQ(StatsOf(liveness).pings, kFirstPings);
}

TEST(LinkLiveness, TheShortestRoundTripIsKept) {
  LinkLiveness liveness;
  EXPECT_EQ(liveness.round_trip_least(), Duration::zero());
  std::int64_t now = 0;
  for (const int round_trip : {30, 10, 20}) {
    const std::uint64_t id = liveness.Ping(At(now), 0);
    liveness.Heard(At(now + round_trip));
    liveness.Answered(id, 0);
    now += 100;
  }
  EXPECT_EQ(liveness.round_trip_least(), milliseconds(10));
  EXPECT_DOUBLE_EQ(StatsOf(liveness).rtt_ms, 20);
  EXPECT_DOUBLE_EQ(StatsOf(liveness).rtt_min_ms, 10);
}

TEST(LinkLiveness, AnswersToNoPingCountForNothing) {
  LinkLiveness liveness;
  EXPECT_FALSE(liveness.Answered(1, 5));
  const std::uint64_t first = liveness.Ping(At(0), 0);
  const std::uint64_t second = liveness.Ping(At(1), 0);
  liveness.Heard(At(2));
  liveness.Answered(second, 0);
  EXPECT_FALSE(liveness.Answered(first, 0));  // passed over
  EXPECT_FALSE(liveness.Answered(second, 0));
  EXPECT_EQ(StatsOf(liveness).pings, 1u);
}

TEST(LinkLiveness, WhatWaitedIsToldOnce) {
  LinkLiveness liveness;
  std::int64_t now = 0;
  for (const int queue : {0, 40, 25}) {
    const std::uint64_t id = liveness.Ping(At(now), 0);
    liveness.Heard(At(now + queue + 10));
    // The other end's clock differs by five seconds.
    liveness.Answered(id, static_cast<std::uint64_t>(
                              (At(now + queue + 5) + seconds(5)).time_since_epoch().count()));
    if (now == 0) {
      EXPECT_EQ(liveness.TakeQueueLeast(), Duration::zero());
    }
    now += 100;
  }
  const auto least = liveness.TakeQueueLeast();
  ASSERT_TRUE(least);
  EXPECT_NEAR(static_cast<double>(least->count()), 25e6, 1e5);  // less what clocks may drift
  EXPECT_FALSE(liveness.TakeQueueLeast());
}

TEST(LinkLiveness, OnANewWayNothingIsUsual) {
  LinkLiveness liveness;
  std::int64_t now = 0;
  // There and back in so many ms; the other end's clock shows the same.
  const auto ping = [&](int there, int back) {
    now += 100;
    const std::uint64_t id = liveness.Ping(At(now), 0);
    liveness.Heard(At(now + there + back));
    const auto at = At(now + there).time_since_epoch();
    liveness.Answered(id, static_cast<std::uint64_t>(std::chrono::nanoseconds(at).count()));
  };
  ping(10, 10);
  liveness.TakeQueueLeast();
  liveness.NewWay();
  EXPECT_EQ(liveness.round_trip_least(), Duration::zero());
  ping(50, 50);  // the new way is longer: nothing waits on it
  EXPECT_EQ(liveness.round_trip_least(), milliseconds(100));
  EXPECT_EQ(liveness.TakeQueueLeast(), Duration::zero());
  EXPECT_EQ(StatsOf(liveness).pings, 2u);
}

TEST(LinkLiveness, PingsAreDueAfterAPauseOrManyBytes) {
  LinkLiveness liveness;
  const std::uint64_t id = liveness.Ping(At(0), 1000);
  EXPECT_FALSE(liveness.PingDue(At(5000), seconds(2)));  // one is under way
  liveness.Heard(At(1));
  liveness.Answered(id, 0);
  EXPECT_FALSE(liveness.PingDue(At(1999), seconds(2)));
  EXPECT_TRUE(liveness.PingDue(At(2000), seconds(2)));

  constexpr std::uint64_t kMany = 1000 + 64 * 1024;
  EXPECT_FALSE(liveness.ProbeDue(At(24), kMany));
  EXPECT_TRUE(liveness.ProbeDue(At(25), kMany));
  EXPECT_FALSE(liveness.ProbeDue(At(99), kMany - 1));
  EXPECT_TRUE(liveness.ProbeDue(At(100), 1000));
  EXPECT_FALSE(liveness.IdleProbeDue(At(99)));
  EXPECT_TRUE(liveness.IdleProbeDue(At(100)));
}

TEST(LinkLiveness, AnEndThatAnswersNothingIsNotProbedForEver) {
  LinkLiveness liveness;
  std::int64_t now = 0;
  int probes = 0;
  for (; probes < 1000 && liveness.ProbeDue(At(now += 100), 0); ++probes) liveness.Ping(At(now), 0);
  EXPECT_EQ(probes, 32);
  EXPECT_FALSE(liveness.IdleProbeDue(At(now + 1000)));
}

TEST(LinkLiveness, SilenceIsCountedFromTheLastMessage) {
  LinkLiveness liveness;
  liveness.Heard(At(0));
  EXPECT_FALSE(liveness.Silent(At(20'000), seconds(20)));
  EXPECT_TRUE(liveness.Silent(At(20'001), seconds(20)));
  liveness.Heard(At(20'001));
  EXPECT_FALSE(liveness.Silent(At(40'001), seconds(20)));
}

TEST(TransferRates, HalfOfTheOldRateRemains) {
  TransferRates rates;
  rates.Start(At(0));
  rates.Update(At(0), 1000, 1000);  // no time has passed
  EXPECT_EQ(rates.send_bps(), 0);
  rates.Update(At(1000), 1000, 500);
  EXPECT_DOUBLE_EQ(rates.send_bps(), 4000);
  EXPECT_DOUBLE_EQ(rates.receive_bps(), 2000);
  rates.Update(At(3000), 3000, 500);
  EXPECT_DOUBLE_EQ(rates.send_bps(), 6000);
  EXPECT_DOUBLE_EQ(rates.receive_bps(), 1000);
  rates.Stop();
  EXPECT_EQ(rates.send_bps(), 0);
}

}  // namespace
}  // namespace shoal::net
