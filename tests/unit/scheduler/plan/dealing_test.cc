#include "scheduler/plan/dealing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "scheduler/plan/counting_pipelines.h"

namespace shoal::scheduler {
namespace {

// Lists of micro-batches, moved from one to the other.
std::map<std::uint32_t, std::vector<std::uint32_t>> Slowly(const Dealing& dealing,
                                                           std::uint32_t micro_batches) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> has;
  for (std::uint32_t i = 0; i < micro_batches; ++i) {
    has[dealing[0][i % dealing[0].size()]].push_back(i);
  }
  for (std::size_t turn = 1; turn < dealing.size(); ++turn) {
    std::vector<std::uint32_t> moved;
    for (auto& [pipeline, batches] : has) {
      if (std::ranges::count(dealing[turn], pipeline) > 0) continue;
      moved.insert(moved.end(), batches.begin(), batches.end());
      batches.clear();
    }
    std::ranges::sort(moved);
    for (std::size_t k = 0; k < moved.size(); ++k) {
      has[dealing[turn][k % dealing[turn].size()]].push_back(moved[k]);
    }
  }
  return has;
}

TEST(Dealing, MovesWhatPipelinesThatLeaveHave) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    Dealing dealing(1);
    const std::uint32_t pipelines = 1 + random() % 6, micro_batches = random() % 20;
    for (std::uint32_t p = 0; p < pipelines; ++p) dealing[0].push_back(p);
    while (dealing.back().size() > 1 && random() % 3 > 0) {
      Pipelines left = dealing.back();
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(random() % left.size()));
      dealing.push_back(std::move(left));
    }
    const std::vector<Dealt> dealt = Deal(dealing, micro_batches);
    auto expected = Slowly(dealing, micro_batches);
    for (std::uint32_t p = 0; p < pipelines; ++p) {
      std::vector<std::uint32_t> has;
      for (std::uint32_t turn = 0; turn < dealing.size(); ++turn) {
        for (std::uint32_t i = 0; i < micro_batches; ++i) {
          if (dealt[i].pipeline == p && dealt[i].turn == turn) has.push_back(i);
        }
      }
      EXPECT_EQ(has, expected[p]);
      EXPECT_EQ(MicroBatchesOf(dealing, micro_batches, p), has.size());
    }
  }
}

TEST(CountingPipelines, StepsThatAreDealtOutAreDealtOutAgain) {
  CountingPipelines counting;
  counting.Begin(4, {0, 1, 2});
  counting.Left(5, 8, {0, 2});
  EXPECT_EQ(counting.DealingAt(4), (Dealing{{0, 1, 2}}));
  EXPECT_EQ(counting.DealingAt(7), (Dealing{{0, 1, 2}, {0, 2}}));
  EXPECT_EQ(counting.DealingAt(8), (Dealing{{0, 2}}));
  counting.Left(7, 10, {2});
  EXPECT_EQ(counting.AmendmentsOf(6), 1u);
  EXPECT_EQ(counting.AmendmentsOf(7), 2u);
  EXPECT_EQ(counting.DealingAt(9), (Dealing{{0, 2}, {2}}));
  EXPECT_EQ(counting.At(9), (Pipelines{2}));
  EXPECT_EQ(counting.DealingAt(10), (Dealing{{2}}));
}

}  // namespace
}  // namespace shoal::scheduler
