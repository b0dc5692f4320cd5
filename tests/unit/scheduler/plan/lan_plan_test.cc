#include "scheduler/plan/lan_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

namespace shoal::scheduler {
namespace {

using Lans = std::vector<std::uint32_t>;
using Lan = std::set<std::size_t>;

constexpr double kUnknown = -1;

// As the header says it: sets of members, and all pairs looked at again after every union.
struct Reference {
  const std::vector<double>& ms;
  std::size_t members;

  double Both(std::size_t a, std::size_t b) const {
    const double there = ms[a * members + b], back = ms[b * members + a];
    const bool known = there >= 0 && back >= 0;
    return known ? std::max(there, back) : std::numeric_limits<double>::infinity();
  }
  bool Fits(const Lan& a, const Lan& b) const {
    for (const std::size_t i : a) {
      for (const std::size_t j : b) {
        if (!(Both(i, j) < kLanWidthMs)) return false;
      }
    }
    return true;
  }
  Lans Run() const {
    std::vector<Lan> lans;
    for (std::size_t i = 0; i < members; ++i) lans.push_back({i});
    for (;;) {
      double best = kLanNearMs;
      std::pair<std::size_t, std::size_t> join;
      for (std::size_t a = 0; a < lans.size(); ++a) {
        for (std::size_t b = 0; b < a; ++b) {
          if (!Fits(lans[a], lans[b])) continue;
          for (const std::size_t i : lans[a]) {
            for (const std::size_t j : lans[b]) {
              if (Both(i, j) >= best) continue;
              best = Both(i, j);
              join = {b, a};
            }
          }
        }
      }
      if (best >= kLanNearMs) break;
      lans[join.first].merge(lans[join.second]);
      lans.erase(lans.begin() + static_cast<std::ptrdiff_t>(join.second));
    }
    std::sort(lans.begin(), lans.end(),
              [](const Lan& a, const Lan& b) { return *a.begin() < *b.begin(); });
    Lans numbers(members);
    std::uint32_t number = 0;
    for (const Lan& lan : lans) {
      if (lan.size() > 1) ++number;
      for (const std::size_t i : lan) numbers[i] = lan.size() > 1 ? number : 0;
    }
    return numbers;
  }
};

std::vector<double> Filled(std::size_t members, double ms) {
  return std::vector<double>(members * members, ms);
}

TEST(LanPlanTest, BothWaysBelowTheLimitMakesALan) {
  std::vector<double> ms = Filled(4, 30);
  const auto set = [&](std::size_t i, std::size_t j, double there, double back) {
    ms[i * 4 + j] = there;
    ms[j * 4 + i] = back;
  };
  EXPECT_EQ(LansByRoundTrip(ms, 4), (Lans{0, 0, 0, 0}));
  set(1, 3, 0.3, 1.9);
  EXPECT_EQ(LansByRoundTrip(ms, 4), (Lans{0, 1, 0, 1}));
  for (const double back : {2.0, 20.0, kUnknown, std::nan("")}) {
    set(1, 3, 0.3, back);
    EXPECT_EQ(LansByRoundTrip(ms, 4), (Lans{0, 0, 0, 0})) << back;
  }
  set(1, 3, 0, 0);
  set(0, 2, 1.5, 1.5);
  EXPECT_EQ(LansByRoundTrip(ms, 4), (Lans{1, 2, 1, 2})) << "in the order of first members";
  EXPECT_TRUE(LansByRoundTrip({}, 0).empty());
}

TEST(LanPlanTest, OneLateMeasurementDoesNotTearALanApart) {
  std::vector<double> ms = Filled(3, 0.4);
  ms[0 * 3 + 2] = 3.9;
  EXPECT_EQ(LansByRoundTrip(ms, 3), (Lans{1, 1, 1}));
  ms[0 * 3 + 2] = kLanWidthMs;
  ms[1 * 3 + 2] = 0.5;
  EXPECT_EQ(LansByRoundTrip(ms, 3), (Lans{1, 1, 0})) << "the nearest pair first";
}

// Houses along a street, each near the next: no LAN holds those of both ends.
TEST(LanPlanTest, AChainEndsAtTheWidth) {
  constexpr std::size_t kHouses = 12;
  std::vector<double> ms = Filled(kHouses, 0);
  for (std::size_t i = 0; i < kHouses; ++i) {
    for (std::size_t j = 0; j < kHouses; ++j) {
      ms[i * kHouses + j] = 1.5 * std::abs(static_cast<double>(i) - static_cast<double>(j));
    }
  }
  const Lans lans = LansByRoundTrip(ms, kHouses);
  for (std::size_t i = 0; i < kHouses; ++i) {
    for (std::size_t j = 0; j < kHouses; ++j) {
      const bool together = lans[i] > 0 && lans[i] == lans[j];
      EXPECT_TRUE(!together || ms[i * kHouses + j] < kLanWidthMs) << i << " " << j;
    }
  }
  EXPECT_GT(*std::max_element(lans.begin(), lans.end()), 2u);
}

TEST(LanPlanTest, EqualsTheReferenceAndKeepsItsPromises) {
  std::mt19937 random(6);
  std::size_t joined = 0;
  for (int round = 0; round < 400; ++round) {
    const std::size_t n = 1 + random() % 10;
    std::vector<double> ms(n * n);
    std::uniform_real_distribution<double> around(0.2, round % 2 == 0 ? 5 : 2.5);
    for (double& one : ms) one = random() % 12 == 0 ? kUnknown : around(random);
    const Reference reference{ms, n};
    const Lans lans = LansByRoundTrip(ms, n);
    ASSERT_EQ(lans, reference.Run());
    for (std::size_t i = 0; i < n; ++i) {
      joined += lans[i] > 0;
      for (std::size_t j = 0; j < n; ++j) {
        if (i != j && lans[i] > 0 && lans[i] == lans[j]) {
          ASSERT_LT(reference.Both(i, j), kLanWidthMs);
        }
      }
    }
    // Whoever is who, the same ones share a LAN.
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<double> other(n * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) other[i * n + j] = ms[order[i] * n + order[j]];
    }
    const Lans moved = LansByRoundTrip(other, n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const bool same = lans[order[i]] > 0 && lans[order[i]] == lans[order[j]];
        ASSERT_EQ(moved[i] > 0 && moved[i] == moved[j], same);
      }
    }
  }
  EXPECT_GT(joined, 500u);
}

TEST(LanPlanTest, HousesAreFoundWhateverTheNoise) {
  std::mt19937 random(7);
  std::exponential_distribution<double> noise(3);
  for (int round = 0; round < 100; ++round) {
    const std::size_t n = 2 + random() % 30;
    std::vector<std::size_t> house(n);
    for (std::size_t& one : house) one = random() % 6;
    std::vector<double> ms(n * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        ms[i * n + j] = (house[i] == house[j] ? 0.2 : 8) + std::min(noise(random), 1.7);
      }
    }
    const Lans lans = LansByRoundTrip(ms, n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        if (i == j) continue;
        ASSERT_EQ(lans[i] > 0 && lans[i] == lans[j], house[i] == house[j]);
      }
    }
  }
}

PeerId Peer(std::uint8_t number) {
  PeerId peer;
  peer.key[0] = number;
  return peer;
}

TEST(LanPlanTest, TheBookKeepsTheLeastOfEachDirection) {
  RoundTripBook book;
  EXPECT_LT(book.Of(Peer(1), Peer(2)), 0);
  book.Add(Peer(1), Peer(2), 3);
  book.Add(Peer(1), Peer(2), 1);
  book.Add(Peer(1), Peer(2), 2);
  book.Add(Peer(2), Peer(1), 7);
  book.Add(Peer(3), Peer(2), 5);
  EXPECT_EQ(book.Of(Peer(1), Peer(2)), 1);
  EXPECT_EQ(book.Of(Peer(2), Peer(1)), 7);
  book.Forget(Peer(1));
  EXPECT_LT(book.Of(Peer(1), Peer(2)), 0);
  EXPECT_LT(book.Of(Peer(2), Peer(1)), 0);
  EXPECT_EQ(book.Of(Peer(3), Peer(2)), 5);
  EXPECT_EQ(book.size(), 1u);
}

TEST(LanPlanTest, TheMethodSaysWhoseLansCount) {
  RunConfig config;
  config.stages = 3;
  config.pipelines = 3;
  PlacementPlan plan(3);
  RoundTripBook book;
  for (std::uint8_t p = 0; p < 3; ++p) {
    for (std::uint8_t s = 0; s < 3; ++s)
      plan[p].push_back(Peer(static_cast<std::uint8_t>(3 * p + s)));
  }
  const auto near = [&](std::size_t p, std::size_t s, std::size_t other_p, std::size_t other_s) {
    book.Add(plan[p][s], plan[other_p][other_s], 0.5);
    book.Add(plan[other_p][other_s], plan[p][s], 0.5);
  };
  near(0, 0, 2, 0);
  near(1, 2, 2, 2);
  near(2, 0, 2, 2);
  config.replica_method = "average";
  EXPECT_EQ(LansOfPlan(config, plan, book), PlanLans{});
  config.replica_method = "qsdp";
  EXPECT_EQ(LansOfPlan(config, plan, book), PlanLans{});
  config.replica_method = "qsdp:lan=1-2";
  PlanLans lans = LansOfPlan(config, plan, book);
  EXPECT_EQ(lans.shared, Lans());
  config.sharing = {0, 2};
  lans = LansOfPlan(config, plan, book);
  EXPECT_EQ(lans.stages, (std::vector<Lans>(3, {0, 1, 1})));
  EXPECT_EQ(lans.shared, (Lans{0, 1, 1, 0, 1, 1})) << "both ends, where there is a LAN";
  config.replica_method = "qsdp:lan=auto";
  lans = LansOfPlan(config, plan, book);
  EXPECT_EQ(lans.stages, (std::vector<Lans>{{1, 0, 1}, {0, 0, 0}, {0, 1, 1}}));
  EXPECT_EQ(lans.shared, (Lans{1, 0, 1, 0, 2, 2})) << "first and last stages of all pipelines";
  config.sharing = {0, 1, 2};
  EXPECT_EQ(LansOfPlan(config, plan, book).shared, (Lans{1, 0, 1, 0, 0, 0, 0, 2, 2}));
  config.pipelines = 1;
  EXPECT_EQ(LansOfPlan(config, plan, book), PlanLans{});
}

}  // namespace
}  // namespace shoal::scheduler
