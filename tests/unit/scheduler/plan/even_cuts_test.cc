#include "scheduler/plan/even_cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace shoal::scheduler {
namespace {

double Cost(const std::vector<std::uint32_t>& cuts, std::size_t stage, const ChainCosts& costs) {
  double cost = costs.layer * (cuts[stage + 1] - cuts[stage]);
  if (stage == 0) cost += costs.embedding;
  if (stage + 2 == cuts.size()) cost += costs.head;
  return cost;
}

double Worst(const std::vector<std::uint32_t>& cuts, const ChainCosts& costs) {
  double worst = 0;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) worst = std::max(worst, Cost(cuts, s, costs));
  return worst;
}

// Tries all cuts.
double BestWorst(std::vector<std::uint32_t>* cuts, std::uint32_t layers, std::uint32_t stages,
                 const ChainCosts& costs) {
  if (cuts->size() == stages) {
    cuts->push_back(layers);
    const double worst = Worst(*cuts, costs);
    cuts->pop_back();
    return worst;
  }
  double best = 1e300;
  for (std::uint32_t next = cuts->back() + 1; next < layers; ++next) {
    cuts->push_back(next);
    best = std::min(best, BestWorst(cuts, layers, stages, costs));
    cuts->pop_back();
  }
  return best;
}

TEST(EvenCutsTest, HeadTakesLayersAway) {
  EXPECT_EQ(EvenCuts(4, 2, {0, 1, 0}), (std::vector<std::uint32_t>{0, 2, 4}));
  EXPECT_EQ(EvenCuts(4, 2, {0, 1, 2}), (std::vector<std::uint32_t>{0, 3, 4}));
  EXPECT_EQ(EvenCuts(5, 1, {1, 1, 1}), (std::vector<std::uint32_t>{0, 5}));
  EXPECT_EQ(EvenCuts(3, 3, {0, 1, 9}), (std::vector<std::uint32_t>{0, 1, 2, 3}));
}

TEST(EvenCutsTest, AsGoodAsTryingAll) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t layers = 1 + random() % 9;
    const std::uint32_t stages = 1 + random() % layers;
    const ChainCosts costs{static_cast<double>(random() % 5), 1.0 + random() % 5,
                           static_cast<double>(random() % 20)};
    const auto cuts = EvenCuts(layers, stages, costs);
    ASSERT_EQ(cuts.size(), stages + 1u);
    EXPECT_EQ(cuts.front(), 0u);
    EXPECT_EQ(cuts.back(), layers);
    EXPECT_TRUE(std::is_sorted(cuts.begin(), cuts.end(), std::less_equal<>()));
    std::vector<std::uint32_t> trial = {0};
    EXPECT_DOUBLE_EQ(Worst(cuts, costs), BestWorst(&trial, layers, stages, costs));
  }
}

}  // namespace
}  // namespace shoal::scheduler
