#include "scheduler/plan/dealing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "common/checksum.h"
#include "scheduler/plan/counting_pipelines.h"

namespace shoal::scheduler {
namespace {

using ::testing::ElementsAre;
using Lists = std::map<std::uint32_t, std::vector<std::uint32_t>>;  // by pipeline

// Lists of micro-batches, moved from one to the other.
Lists Slowly(const std::vector<Pipelines>& dealing, std::uint32_t micro_batches) {
  Lists has;
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

// The same with homes: each that moves goes to the one with most preference that has room, and in
// a later turn to the one with most preference of those with least that got least.
Lists SlowlyByHome(const Dealing& dealing, std::uint32_t micro_batches) {
  const auto preference = [](std::uint32_t micro_batch, std::uint32_t home) {
    const std::array<std::uint32_t, 2> key = {micro_batch, home};  // little-endian
    return Checksum64(std::as_bytes(std::span(key)));
  };
  Lists has;
  std::vector<std::uint32_t> moved;
  for (std::uint32_t i = 0; i < micro_batches; ++i) {
    bool at_home = false;
    for (const std::uint32_t p : dealing.turns[0]) {
      if (dealing.homes.of[p] != i % dealing.homes.count) continue;
      has[p].push_back(i);
      at_home = true;
    }
    if (!at_home) moved.push_back(i);
  }
  for (const Pipelines& left : dealing.turns) {
    for (auto& [pipeline, batches] : has) {
      if (std::ranges::count(left, pipeline) > 0) continue;
      moved.insert(moved.end(), batches.begin(), batches.end());
      batches.clear();
    }
    std::ranges::sort(moved);
    std::map<std::uint32_t, std::size_t> got;
    for (const std::uint32_t i : std::exchange(moved, {})) {
      Pipelines may = left;
      const auto keep_least = [&may](auto of) {
        const auto least = of(std::ranges::min(may, {}, of));
        std::erase_if(may, [&](std::uint32_t p) { return of(p) > least; });
      };
      if (&left == &dealing.turns.front()) {
        std::erase_if(
            may, [&](std::uint32_t p) { return has[p].size() * left.size() >= micro_batches; });
      } else {
        keep_least([&](std::uint32_t p) { return got[p]; });
        keep_least([&](std::uint32_t p) { return has[p].size(); });
      }
      const std::uint32_t to = std::ranges::max(
          may, {}, [&](std::uint32_t p) { return preference(i, dealing.homes.of[p]); });
      has[to].push_back(i);
      ++got[to];
    }
    // What is dealt out in the first turn is in order.
    if (&left == &dealing.turns.front()) {
      for (auto& [pipeline, batches] : has) std::ranges::sort(batches);
    }
  }
  return has;
}

Dealing RandomDealing(std::mt19937* random, bool with_homes) {
  Dealing dealing{{}, {{}}};
  const std::uint32_t pipelines = 1 + (*random)() % 6;
  for (std::uint32_t p = 0; p < pipelines; ++p) dealing.turns[0].push_back(p);
  if (with_homes) {
    dealing.homes.count = pipelines + (*random)() % 4;
    for (std::uint32_t h = 0; h < dealing.homes.count; ++h) dealing.homes.of.push_back(h);
    std::ranges::shuffle(dealing.homes.of, *random);
    dealing.homes.of.resize(pipelines);
    if ((*random)() % 2 == 0 && pipelines > 1) {  // not all of the plan count
      dealing.turns[0].erase(dealing.turns[0].begin() +
                             static_cast<std::ptrdiff_t>((*random)() % pipelines));
    }
  }
  while (dealing.last().size() > 1 && (*random)() % 3 > 0) {
    Pipelines left = dealing.last();
    left.erase(left.begin() + static_cast<std::ptrdiff_t>((*random)() % left.size()));
    dealing.turns.push_back(std::move(left));
  }
  return dealing;
}

TEST(Dealing, MovesWhatPipelinesThatLeaveHave) {
  std::mt19937 random(5);
  for (int round = 0; round < 1000; ++round) {
    const bool with_homes = round % 2 == 1;
    const Dealing dealing = RandomDealing(&random, with_homes);
    const std::uint32_t micro_batches = random() % 20;
    const std::vector<Dealt> dealt = Deal(dealing, micro_batches);
    Lists expected =
        with_homes ? SlowlyByHome(dealing, micro_batches) : Slowly(dealing.turns, micro_batches);
    for (std::uint32_t p = 0; p < 6; ++p) {
      std::vector<std::uint32_t> has;
      for (std::uint32_t turn = 0; turn < dealing.turns.size(); ++turn) {
        for (std::uint32_t i = 0; i < micro_batches; ++i) {
          if (dealt[i].pipeline == p && dealt[i].turn == turn) has.push_back(i);
        }
      }
      EXPECT_EQ(has, expected[p]);
      EXPECT_EQ(MicroBatchesOf(dealing, micro_batches, p), has.size());
    }
  }
}

std::vector<std::uint32_t> PipelinesOf(const Dealing& dealing, std::uint32_t micro_batches) {
  std::vector<std::uint32_t> pipelines;
  for (const Dealt& dealt : Deal(dealing, micro_batches)) pipelines.push_back(dealt.pipeline);
  return pipelines;
}

// A log is read with this.
TEST(Dealing, ByHomeIsPinned) {
  const Homes homes{4, {3, 0, 1}};  // home 2 is nobody's
  EXPECT_THAT(PipelinesOf({homes, {{0, 1, 2}}}, 10), ElementsAre(1, 2, 0, 0, 1, 2, 0, 0, 1, 2));
  EXPECT_THAT(PipelinesOf({homes, {{0, 1, 2}, {0, 2}}}, 10),
              ElementsAre(2, 2, 0, 0, 0, 2, 0, 0, 2, 2));
}

TEST(Dealing, AllPipelinesOfARunHaveWhatTheSamplerSays) {
  EXPECT_THAT(PipelinesOf({{3, {0, 1, 2}}, {{0, 1, 2}}}, 7), ElementsAre(0, 1, 2, 0, 1, 2, 0));
}

// Of 64 micro-batches of 16 pipelines: how many change their pipeline when one of those that count
// goes, although it is not theirs. Without homes: more than half of all.
TEST(Dealing, FewMicroBatchesMoveWhenOthersGo) {
  constexpr std::uint32_t kMicroBatches = 64, kHomes = 16;
  Homes homes{kHomes, {}};
  Pipelines left;
  for (std::uint32_t h = 0; h < kHomes; ++h) {
    homes.of.push_back(h);
    left.push_back(h);
  }
  std::mt19937 random(7);
  std::vector<std::uint32_t> before = PipelinesOf({homes, {left}}, kMicroBatches);
  while (left.size() > 1) {
    const std::uint32_t goes = left[random() % left.size()];
    std::erase(left, goes);
    const std::vector<std::uint32_t> after = PipelinesOf({homes, {left}}, kMicroBatches);
    std::uint32_t needless = 0;
    for (std::uint32_t i = 0; i < kMicroBatches; ++i) {
      needless += before[i] != goes && before[i] != after[i] ? 1 : 0;
    }
    EXPECT_LE(needless, kMicroBatches / 8) << left.size();
    for (const std::uint32_t p : left) {
      EXPECT_LE(std::ranges::count(after, p) - 1, (kMicroBatches - 1) / left.size());
    }
    before = after;
  }
}

std::vector<PeerId> Peers(std::initializer_list<std::uint8_t> numbers) {
  std::vector<PeerId> peers;
  for (const std::uint8_t number : numbers) peers.push_back(PeerId{{number}});
  return peers;
}

std::map<PeerId, std::uint32_t> LastHomes(std::initializer_list<std::uint32_t> homes) {
  std::map<PeerId, std::uint32_t> last;  // of peers 1, 2, ..
  for (const std::uint32_t home : homes) {
    last[PeerId{{static_cast<std::uint8_t>(last.size() + 1)}}] = home;
  }
  return last;
}

TEST(Homes, StayWithThePeersOfAPipeline) {
  EXPECT_EQ(HomesOf({}, Peers({1, 2, 3, 4, 5, 6}), 2, 3), (Homes{3, {0, 1, 2}}));
  const auto last = LastHomes({0, 0, 1, 1, 2, 2});
  EXPECT_EQ(HomesOf(last, Peers({1, 2, 5, 6}), 2, 3), (Homes{3, {0, 2}}))
      << "the second one is gone";
  EXPECT_EQ(HomesOf(last, Peers({7, 8, 5, 6, 1, 2}), 2, 3), (Homes{3, {1, 2, 0}}))
      << "new peers get the home that is free";
  EXPECT_EQ(HomesOf(last, Peers({1, 4, 5, 9}), 2, 3), (Homes{3, {0, 2}}))
      << "what is left of two goes on as the first of them";
  EXPECT_EQ(HomesOf(last, Peers({1, 4, 3, 2}), 2, 3), (Homes{3, {0, 1}}));
  EXPECT_EQ(HomesOf(LastHomes({2, 2, 0, 0, 3, 3, 1, 1}), Peers({5, 2, 6, 9}), 2, 4),
            (Homes{4, {2, 3}}))
      << "one has a peer of each, and the other has only one";
  EXPECT_EQ(HomesOf(last, Peers({9, 2, 1, 4, 3, 5}), 2, 3), (Homes{3, {0, 1, 2}}));
}

// Whoever comes back first.
TEST(Homes, AreThoseOfPeersThatWereAway) {
  const auto last = LastHomes({0, 1, 2, 3});
  EXPECT_EQ(HomesOf(last, Peers({1, 4, 3}), 1, 4), (Homes{4, {0, 3, 2}}));
  EXPECT_EQ(HomesOf(last, Peers({1, 4, 3, 2}), 1, 4), (Homes{4, {0, 3, 2, 1}}));
}

TEST(Homes, OfARunThatWantsFewerPipelines) {
  EXPECT_EQ(HomesOf(LastHomes({2, 1, 0}), Peers({1, 2}), 1, 2), (Homes{2, {0, 1}}))
      << "home 2 is no more";
}

TEST(CountingPipelines, StepsThatAreDealtOutAreDealtOutAgain) {
  CountingPipelines counting;
  const Homes homes{3, {2, 0, 1}};
  counting.Begin(4, homes, {0, 1, 2});
  EXPECT_TRUE(counting.Left(5, 8, {0, 2}));
  EXPECT_EQ(counting.DealingAt(4), (Dealing{homes, {{0, 1, 2}}}));
  EXPECT_EQ(counting.DealingAt(7), (Dealing{homes, {{0, 1, 2}, {0, 2}}}));
  EXPECT_EQ(counting.DealingAt(8), (Dealing{homes, {{0, 2}}}));
  EXPECT_TRUE(counting.Left(7, 10, {2}));
  EXPECT_EQ(counting.AmendmentsOf(6), 1u);
  EXPECT_EQ(counting.AmendmentsOf(7), 2u);
  EXPECT_EQ(counting.DealingAt(9), (Dealing{homes, {{0, 2}, {2}}}));
  EXPECT_EQ(counting.At(9), (Pipelines{2}));
  EXPECT_EQ(counting.DealingAt(10), (Dealing{homes, {{2}}}));
  EXPECT_FALSE(counting.Left(9, 11, {0})) << "it does not count any more";
}

}  // namespace
}  // namespace shoal::scheduler
