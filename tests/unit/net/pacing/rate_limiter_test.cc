#include "net/pacing/rate_limiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

namespace shoal::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return now; }
  TimePoint now{seconds(1000)};
};

constexpr BitsPerSecond kMegabytePerSecond{8'000'000};

double Ms(Duration duration) { return std::chrono::duration<double, std::milli>(duration).count(); }

TEST(RateLimiter, NoRateNeverWaits) {
  const FakeClock clock;
  RateLimiter limiter(&clock);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(limiter.WaitFor(limiter.Take(1 << 30)), Duration::zero());
}

TEST(RateLimiter, LongRunRateIsTheRate) {
  FakeClock clock;
  RateLimiter limiter(&clock);
  limiter.SetRate(kMegabytePerSecond);
  const TimePoint start = clock.now;
  std::uint64_t sent = 0;
  // A sender that waits as told; chunks of many sizes, below and above the burst of 20 000 bytes.
  for (const std::uint64_t chunk : {100u, 5'000u, 30'000u, 250'000u, 1u, 64'000u}) {
    for (int i = 0; i < 50; ++i) {
      clock.now += limiter.WaitFor(limiter.Take(chunk));
      sent += chunk;
    }
  }
  const double elapsed = Ms(clock.now - start);
  // Everything but the last chunk and the burst has been paid for.
  EXPECT_LE(static_cast<double>(sent - 64'000 - 20'000), elapsed * 1000 + 1);
  EXPECT_GE(static_cast<double>(sent), elapsed * 1000 - 1);
}

TEST(RateLimiter, IdleTimeBuysNoMoreThanTheBurst) {
  FakeClock clock;
  RateLimiter limiter(&clock);
  limiter.SetRate(kMegabytePerSecond);
  clock.now += seconds(3600);
  EXPECT_EQ(limiter.WaitFor(limiter.Take(20'000)), Duration::zero());
  EXPECT_EQ(limiter.WaitFor(limiter.Take(10'000)), Duration::zero())
      << "exactly the burst is used up";
  EXPECT_NEAR(Ms(limiter.WaitFor(limiter.Take(1))), 10, 0.01) << "the debt of 10 000 bytes";
}

TEST(RateLimiter, DebtLetsALargeChunkPassWhole) {
  FakeClock clock;
  RateLimiter limiter(&clock);
  limiter.SetRate(kMegabytePerSecond);
  clock.now += seconds(1);
  EXPECT_EQ(limiter.WaitFor(limiter.Take(1'020'000)), Duration::zero());
  EXPECT_NEAR(Ms(limiter.WaitFor(limiter.Take(1000))), 1000, 0.01);
  clock.now += milliseconds(400);
  EXPECT_NEAR(Ms(limiter.WaitFor(limiter.Take(1000))), 601, 0.01);
}

TEST(RateLimiter, NewRateChangesWaitsInProgress) {
  FakeClock clock;
  RateLimiter limiter(&clock);
  limiter.SetRate(kMegabytePerSecond);
  clock.now += seconds(1);
  limiter.Take(1'020'000);
  const RateLimiter::Ticket ticket = limiter.Take(1000);
  EXPECT_NEAR(Ms(limiter.WaitFor(ticket)), 1000, 0.01);
  clock.now += milliseconds(500);
  EXPECT_NEAR(Ms(limiter.WaitFor(ticket)), 500, 0.01);
  limiter.SetRate({16'000'000});
  EXPECT_NEAR(Ms(limiter.WaitFor(ticket)), 250, 0.01);
  limiter.SetRate({800'000});
  EXPECT_NEAR(Ms(limiter.WaitFor(ticket)), 5000, 0.01);
  limiter.SetRate({});
  EXPECT_EQ(limiter.WaitFor(ticket), Duration::zero());
  EXPECT_EQ(limiter.rate().value, 0u);
  // What was sent without a limit leaves no debt behind.
  limiter.Take(1 << 30);
  clock.now += milliseconds(1);
  limiter.SetRate(kMegabytePerSecond);
  EXPECT_EQ(limiter.WaitFor(limiter.Take(1000)), Duration::zero());
}

TEST(RateLimiter, TheLowerOfCapAndPaceCounts) {
  FakeClock clock;
  RateLimiter limiter(&clock);
  limiter.SetPace(kMegabytePerSecond);
  EXPECT_EQ(limiter.rate(), kMegabytePerSecond);
  EXPECT_EQ(limiter.cap().value, 0u);
  clock.now += seconds(1);
  limiter.Take(1'020'000);
  const RateLimiter::Ticket ticket = limiter.Take(1000);
  EXPECT_NEAR(Ms(limiter.WaitFor(ticket)), 1000, 0.01);
  limiter.SetRate({4'000'000});
  EXPECT_NEAR(Ms(limiter.WaitFor(ticket)), 2000, 0.01);
  limiter.SetRate({80'000'000});
  EXPECT_NEAR(Ms(limiter.WaitFor(ticket)), 1000, 0.01);
  EXPECT_EQ(limiter.cap().value, 80'000'000u);
  EXPECT_EQ(limiter.pace(), kMegabytePerSecond);
  limiter.SetPace({});
  EXPECT_NEAR(Ms(limiter.WaitFor(ticket)), 100, 0.01);
}

TEST(RateLimiter, UrgentPlacesGoFirst) {
  FakeClock clock;
  RateLimiter limiter(&clock);
  limiter.SetRate(kMegabytePerSecond);
  clock.now += seconds(1);
  ASSERT_EQ(limiter.WaitFor(limiter.Take(20'000)), Duration::zero());  // the burst
  const auto running = limiter.Take(10'000);
  ASSERT_EQ(limiter.WaitFor(running), Duration::zero());
  const auto second = limiter.Take(10'000);
  const auto third = limiter.Take(10'000);
  EXPECT_NEAR(Ms(limiter.WaitFor(second)), 10, 0.01);
  EXPECT_NEAR(Ms(limiter.WaitFor(third)), 20, 0.01);
  const auto middle = limiter.Take(4'000, 1);
  const auto urgent = limiter.Take(5'000, 0);
  // What runs is not called back; all else stands behind.
  EXPECT_NEAR(Ms(limiter.WaitFor(urgent)), 10, 0.01);
  EXPECT_NEAR(Ms(limiter.WaitFor(middle)), 15, 0.01);
  EXPECT_NEAR(Ms(limiter.WaitFor(second)), 19, 0.01);
  EXPECT_NEAR(Ms(limiter.WaitFor(third)), 29, 0.01);
  clock.now += milliseconds(10);
  EXPECT_EQ(limiter.WaitFor(urgent), Duration::zero());
  EXPECT_NEAR(Ms(limiter.WaitFor(middle)), 5, 0.01);
  clock.now += milliseconds(9);
  EXPECT_EQ(limiter.WaitFor(middle), Duration::zero());
  EXPECT_EQ(limiter.WaitFor(second), Duration::zero());
  EXPECT_NEAR(Ms(limiter.WaitFor(limiter.Take(1, 0))), 10, 0.01) << "second has gone";
  EXPECT_EQ(limiter.taken(), 20'000u + 30'000 + 9'000 + 1);
}

TEST(RateLimiter, PrioritiesKeepTheRate) {
  FakeClock clock;
  RateLimiter limiter(&clock);
  limiter.SetRate(kMegabytePerSecond);
  const TimePoint start = clock.now;
  std::deque<RateLimiter::Ticket> waiting;
  std::uint64_t sent = 0;
  for (int step = 0; step < 20'000; ++step) {
    clock.now += milliseconds(1);
    while (waiting.size() < 3) {
      waiting.push_back(limiter.Take(700 + 13 * static_cast<std::uint64_t>(step % 50),
                                     static_cast<std::size_t>((step / 7) % 3)));
    }
    std::erase_if(waiting, [&](const RateLimiter::Ticket& ticket) {
      if (limiter.WaitFor(ticket, milliseconds(1)) > Duration::zero()) return false;
      sent += ticket.bytes;
      return true;
    });
  }
  const double wanted = Ms(clock.now - start) * 1000;
  EXPECT_NEAR(static_cast<double>(sent), wanted, 25'000);
}

TEST(RateLimiter, ToleranceIsPaidBackByTheNext) {
  FakeClock clock;
  RateLimiter limiter(&clock);
  limiter.SetRate(kMegabytePerSecond);
  clock.now += seconds(1);
  limiter.Take(20'900);
  const auto ticket = limiter.Take(5'000);
  EXPECT_NEAR(Ms(limiter.WaitFor(ticket)), 0.9, 0.01);
  EXPECT_EQ(limiter.WaitFor(ticket, milliseconds(1)), Duration::zero());
  EXPECT_NEAR(Ms(limiter.WaitFor(limiter.Take(1))), 5.9, 0.01);
}

}  // namespace
}  // namespace shoal::net
