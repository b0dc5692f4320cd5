#include "replica/methods/stage_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace shoal::replica {
namespace {

using testing::HasSubstr;
using Stages = std::vector<bool>;

TEST(StageSelection, ListsAndRanges) {
  EXPECT_EQ(ParseStageSelection("all", 3)->chosen, Stages({true, true, true}));
  EXPECT_EQ(ParseStageSelection("none", 2)->chosen, Stages({false, false}));
  EXPECT_EQ(ParseStageSelection("0-2", 4)->chosen, Stages({true, true, true, false}));
  EXPECT_EQ(ParseStageSelection("3,0-1", 4)->chosen, Stages({true, true, false, true}));
  EXPECT_EQ(ParseStageSelection("2", 4)->chosen, Stages({false, false, true, false}));
  EXPECT_TRUE(ParseStageSelection("auto", 4)->automatic);
  EXPECT_FALSE(ParseStageSelection("all", 4)->automatic);
}

TEST(StageSelection, ErrorsSayWhatIsAllowed) {
  const auto error = [](const char* text) {
    const auto parsed = ParseStageSelection(text, 4);
    return parsed.ok() ? std::string("accepted") : std::string(parsed.status().message());
  };
  EXPECT_THAT(error("4"), HasSubstr("'4' is no stage or range of stages; write all, none, auto or "
                                    "stages from 0 to 3, as 0 or 0-3"));
  for (const char* text :
       {"", ",", "0,", "1-", "-1", "2-1", "0-4", "x", "0 1", "0-1-2", "+1", "99999999999"}) {
    EXPECT_THAT(error(text), HasSubstr("is no stage or range")) << text;
  }
  EXPECT_THAT(error("0-2,2"), HasSubstr("stage 2 is named twice"));
}

// The end of a step with these stages compressed.
double End(const std::vector<StageExchange>& stages, const Stages& chosen) {
  double end = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    end = std::max(end,
                   stages[s].backward_end + (chosen[s] ? stages[s].compressed : stages[s].exact));
  }
  return end;
}

// The first stage ends its backward last; with equal exchanges it is the one to compress.
TEST(StageSelection, AutoTakesTheStagesThatWouldEndLast) {
  const std::vector<StageExchange> stages{{1.0, 1, 0.1}, {0.8, 1, 0.1}, {0.2, 1, 0.1}, {0, 1, 0.1}};
  EXPECT_EQ(AutoStages(stages), Stages({true, true, true, false}));
  // An exchange that hides behind another one that cannot be made shorter stays exact.
  const std::vector<StageExchange> bound{{1.0, 0.5, 0.1}, {0.5, 2, 2}};
  EXPECT_EQ(AutoStages(bound), Stages({false, false}));
  EXPECT_EQ(AutoStages({}), Stages());
}

TEST(StageSelection, AutoIsTheSmallestOfAllChoicesThatEndFirst) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> seconds(0, 1);
  for (int round = 0; round < 200; ++round) {
    std::vector<StageExchange> stages(1 + random() % 6);
    for (auto& stage : stages) stage = {seconds(random), seconds(random), seconds(random) / 2};
    double best = 1e9;
    long fewest = 0;
    for (unsigned choice = 0; choice < 1U << stages.size(); ++choice) {
      Stages chosen;
      for (std::size_t s = 0; s < stages.size(); ++s) chosen.push_back((choice >> s & 1) != 0);
      const double end = End(stages, chosen);
      const long count = std::count(chosen.begin(), chosen.end(), true);
      if (end < best || (end == best && count < fewest)) {
        best = end;
        fewest = count;
      }
    }
    const Stages chosen = AutoStages(stages);
    ASSERT_EQ(End(stages, chosen), best);
    ASSERT_EQ(std::count(chosen.begin(), chosen.end(), true), fewest);
  }
}

}  // namespace
}  // namespace shoal::replica
