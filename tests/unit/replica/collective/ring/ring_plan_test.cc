#include "replica/collective/ring/ring_plan.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <set>
#include <tuple>

namespace shoal::collective {
namespace {

TEST(RingPlanTest, RaggedGroupsAreRings) {
  EXPECT_EQ(TorusOf(8, 4), (Torus{2, 4}));
  EXPECT_EQ(TorusOf(6, 2), (Torus{3, 2}));
  EXPECT_EQ(TorusOf(7, 3), (Torus{1, 7}));
  EXPECT_EQ(TorusOf(7, 0), (Torus{1, 7}));
  EXPECT_EQ(TorusOf(3, 4), (Torus{1, 3}));
  EXPECT_EQ(SquarestTorusOf(12), (Torus{3, 4}));
  EXPECT_EQ(SquarestTorusOf(16), (Torus{4, 4}));
  EXPECT_EQ(SquarestTorusOf(13), (Torus{1, 13}));
  EXPECT_EQ(SquarestTorusOf(1), (Torus{1, 1}));
}

TEST(RingPlanTest, SlicesCoverTheVector) {
  for (const std::size_t n : {0u, 1u, 5u, 64u, 1001u}) {
    std::size_t at = 0;
    for (std::size_t s = 0; s < 7; ++s) {
      const Extent extent = SliceOf(n, s, 7);
      EXPECT_EQ(extent.begin, at);
      EXPECT_LE(extent.size(), n / 7 + 1);
      at = extent.end;
    }
    EXPECT_EQ(at, n);
  }
}

TEST(RingPlanTest, CountsFollowTheHopsAndNotTheRank) {
  // Ring of 4, slice 2 starts at member 2: member 0 is the third on its way, member 1 the last.
  const std::vector<RingStep> third = RingStepsOf(RingOf(4), 0b1111, 0, 2);
  ASSERT_EQ(third.size(), 2u);
  EXPECT_EQ(third[0], (RingStep{RingPhase::kRowReduce, 2, 3, 1, 2, 1}));
  EXPECT_EQ(third[1], (RingStep{RingPhase::kRowGather, 3, 3, std::nullopt, 4, 0}));
  const std::vector<RingStep> last = RingStepsOf(RingOf(4), 0b1111, 1, 2);
  EXPECT_EQ(last[0], (RingStep{RingPhase::kRowReduce, 3, 0, std::nullopt, 3, 1}));
  EXPECT_EQ(last[1], (RingStep{RingPhase::kRowGather, 0, std::nullopt, 2, 4, 0}));
  EXPECT_TRUE(RingStepsOf(RingOf(1), 1, 0, 0).empty());
}

using TorusCase = std::tuple<int, int>;
class RingPlanShapes : public testing::TestWithParam<TorusCase> {
 protected:
  Torus torus{static_cast<std::size_t>(std::get<0>(GetParam())),
              static_cast<std::size_t>(std::get<1>(GetParam()))};
};

// Runs one slice's steps on sets of members until nothing moves any more.
struct SliceRun {
  std::size_t members;
  std::vector<std::vector<RingStep>> steps;
  std::vector<std::set<std::size_t>> have;  // by member: whose values its slice holds
  std::map<std::tuple<std::size_t, int, std::size_t>, std::set<std::size_t>> sent;  // to phase hop
  std::vector<std::size_t> next, sends;

  SliceRun(const Torus& torus, std::uint64_t contributors, std::size_t slice)
      : members(torus.members()), have(members), next(members), sends(members) {
    for (std::size_t m = 0; m < members; ++m) {
      steps.push_back(RingStepsOf(torus, contributors, m, slice));
      if ((contributors >> m & 1) != 0) have[m] = {m};
    }
    while (Move()) {
    }
  }
  bool Move() {
    bool moved = false;
    for (std::size_t m = 0; m < members; ++m) {
      while (next[m] < steps[m].size() && Step(m, steps[m][next[m]])) {
        ++next[m];
        moved = true;
      }
    }
    return moved;
  }
  bool Step(std::size_t m, const RingStep& step) {
    if (step.from) {
      const auto came = sent.find({m, static_cast<int>(step.phase), step.hop - 1});
      if (came == sent.end()) return false;
      EXPECT_EQ(came->second.size(), step.received);
      if (step.gathers()) {
        EXPECT_EQ(step.own, 0u);
        have[m] = came->second;
      } else {
        EXPECT_EQ(have[m].size(), step.own);
        for (const std::size_t other : came->second) {
          EXPECT_TRUE(have[m].insert(other).second) << "counted twice";
        }
      }
      sent.erase(came);
    }
    if (step.to) {
      ++sends[m];
      EXPECT_TRUE(
          sent.emplace(std::tuple(*step.to, static_cast<int>(step.phase), step.hop), have[m])
              .second);
    }
    return true;
  }
};

TEST_P(RingPlanShapes, EverySliceCollectsEachContributorOnceAndReachesAll) {
  const std::size_t members = torus.members();
  for (const std::uint64_t contributors :
       {(1ull << members) - 1, 1ull, 0xaaull & ((1ull << members) - 1), 1ull << (members - 1)}) {
    if (contributors == 0) continue;
    std::vector<std::size_t> sends(members);
    for (std::size_t s = 0; s < members; ++s) {
      SliceRun run(torus, contributors, s);
      EXPECT_TRUE(run.sent.empty()) << "a message that nobody awaits";
      for (std::size_t m = 0; m < members; ++m) {
        EXPECT_EQ(run.next[m], run.steps[m].size()) << "member " << m << " slice " << s;
        EXPECT_EQ(run.have[m].size(), static_cast<std::size_t>(std::popcount(contributors)));
        sends[m] += run.sends[m];
      }
    }
    // 2 (D-1)/D of the vector, for each member.
    for (const std::size_t n : sends) EXPECT_EQ(n, 2 * (members - 1));
  }
}

TEST_P(RingPlanShapes, MembersSendRightAndDownOnly) {
  const std::size_t C = torus.columns;
  for (std::size_t m = 0; m < torus.members(); ++m) {
    const std::size_t right = m / C * C + (m + 1) % C, down = (m + C) % torus.members();
    for (std::size_t s = 0; s < torus.members(); ++s) {
      for (const RingStep& step : RingStepsOf(torus, ~0ull, m, s)) {
        const bool row = step.phase == RingPhase::kRowReduce || step.phase == RingPhase::kRowGather;
        if (step.to) {
          EXPECT_EQ(*step.to, row ? right : down);
        }
      }
    }
  }
}

TEST_P(RingPlanShapes, NoTwoMergesOfASliceShareADraw) {
  for (std::size_t s = 0; s < torus.members(); ++s) {
    std::set<std::uint32_t> draws;
    for (std::size_t m = 0; m < torus.members(); ++m) {
      for (const RingStep& step : RingStepsOf(torus, ~0ull, m, s)) {
        if (step.from && !step.gathers()) {
          EXPECT_TRUE(draws.insert(RingDrawOf(step.phase, step.hop, m)).second);
        }
      }
    }
    EXPECT_EQ(draws.size(), torus.members() - 1);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RingPlanShapes,
                         testing::Values(TorusCase{1, 1}, TorusCase{1, 2}, TorusCase{1, 3},
                                         TorusCase{1, 7}, TorusCase{2, 2}, TorusCase{2, 3},
                                         TorusCase{3, 2}, TorusCase{3, 1}, TorusCase{4, 4},
                                         TorusCase{2, 5}, TorusCase{5, 3}));

}  // namespace
}  // namespace shoal::collective
