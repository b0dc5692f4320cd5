#include "replica/collective/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "replica/collective/shard_layout.h"
#include "tests/unit/replica/collective/exchange_time.h"

namespace shoal::collective {
namespace {

std::vector<double> Balanced(const std::vector<MemberRates>& rates) {
  const auto shares = BalanceShares(rates);
  EXPECT_TRUE(shares.ok()) << shares.status().ToString();
  return shares.ok() ? *shares : std::vector<double>(rates.size(), 0);
}

TEST(SharesTest, EqualRatesGiveEqualShares) {
  for (std::size_t members = 1; members <= 64; ++members) {
    const auto shares = Balanced(std::vector<MemberRates>(members, {1.3e6, 4e6}));
    for (const double share : shares) EXPECT_EQ(share, shares[0]);
    EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-12);
  }
}

// All shares that are multiples of 1/steps.
double BestOnGrid(const std::vector<MemberRates>& rates, int steps) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<int> parts(rates.size(), 0);
  const auto visit = [&](auto&& self, std::size_t member, int left) -> void {
    if (member + 1 < rates.size()) {
      for (parts[member] = 0; parts[member] <= left; ++parts[member]) {
        self(self, member + 1, left - parts[member]);
      }
      return;
    }
    parts[member] = left;
    std::vector<double> shares;
    for (const int part : parts) shares.push_back(static_cast<double>(part) / steps);
    best = std::min(best, ExchangeTime(rates, shares));
  };
  visit(visit, 0, steps);
  return best;
}

TEST(SharesTest, NoOtherSharesAreFaster) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    std::vector<MemberRates> rates(2 + random() % 3);
    for (MemberRates& rate : rates) {
      rate.up = 1 + random() % 100;
      rate.down = 1 + random() % 100;
    }
    const auto shares = Balanced(rates);
    EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-12);
    for (const double share : shares) EXPECT_GE(share, 0);
    const double ours = ExchangeTime(rates, shares), grid = BestOnGrid(rates, 60);
    EXPECT_LE(ours, grid * (1 + 1e-12)) << "round " << round;
    EXPECT_GE(ours, grid * 0.9) << "round " << round;  // the grid is not far from the best
  }
}

// ExchangeTime against the bytes that a layout of these shares makes members send.
TEST(SharesTest, TheModelCountsTheBytesOfADirectExchange) {
  const std::vector<MemberRates> rates{{10, 20}, {30, 7}, {15, 15}, {8, 40}};
  const auto shares = Balanced(rates);
  constexpr std::size_t kValues = 1000000;
  const ShardLayout layout(kValues, shares, 8, 8);
  double end = 0;
  for (std::size_t r = 0; r < rates.size(); ++r) {
    const double own = static_cast<double>(layout.shard(r).size());
    EXPECT_EQ(layout.shard(r).begin % 8, 0u);
    const double sent = (kValues - own) + 3 * own, received = 3 * own + (kValues - own);
    end = std::max({end, sent / rates[r].up, received / rates[r].down});
  }
  EXPECT_NEAR(end / kValues, ExchangeTime(rates, shares), 1e-4 * end / kValues);
}

TEST(SharesTest, FasterMembersOwnMoreAndTheSlowestNothingWhereItOnlyHinders) {
  const auto shares = Balanced({{10, 10}, {20, 20}, {20, 40}, {1, 100}});
  EXPECT_LT(shares[0], shares[1]);
  EXPECT_NEAR(shares[1], shares[2], 1e-12);
  EXPECT_EQ(shares[3], 0);
}

TEST(SharesTest, RatesThatAreNoRatesAreRefused) {
  for (const double rate : {0.0, -1.0, 1e16, std::nan(""), HUGE_VAL}) {
    EXPECT_FALSE(BalanceShares(std::vector<MemberRates>{{1, 1}, {1, rate}, {1, 1}}).ok());
    EXPECT_FALSE(BalanceShares(std::vector<MemberRates>{{rate, 1}, {1, 1}}).ok());
  }
}

}  // namespace
}  // namespace shoal::collective
