#include "net/rate_limiter.h"

#include <gtest/gtest.h>

#include <algorithm>

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
  const RateLimiter::Place place = limiter.Take(1000);
  EXPECT_NEAR(Ms(limiter.WaitFor(place)), 1000, 0.01);
  clock.now += milliseconds(500);
  EXPECT_NEAR(Ms(limiter.WaitFor(place)), 500, 0.01);
  limiter.SetRate({16'000'000});
  EXPECT_NEAR(Ms(limiter.WaitFor(place)), 250, 0.01);
  limiter.SetRate({800'000});
  EXPECT_NEAR(Ms(limiter.WaitFor(place)), 5000, 0.01);
  limiter.SetRate({});
  EXPECT_EQ(limiter.WaitFor(place), Duration::zero());
  EXPECT_EQ(limiter.rate().value, 0u);
  // What was sent without a limit leaves no debt behind.
  limiter.Take(1 << 30);
  clock.now += milliseconds(1);
  limiter.SetRate(kMegabytePerSecond);
  EXPECT_EQ(limiter.WaitFor(limiter.Take(1000)), Duration::zero());
}

}  // namespace
}  // namespace shoal::net
