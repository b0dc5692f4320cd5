#include "model/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace shoal::model {
namespace {

using ::testing::HasSubstr;

storage::ModelConfig Config(std::uint32_t layers, std::uint32_t vocabulary) {
  storage::ModelConfig config;
  config.layers = layers;
  config.hidden = 64;
  config.heads = 4;
  config.inner = 256;
  config.vocabulary = vocabulary;
  config.positions = 128;
  return config;
}

double Largest(const storage::ModelConfig& config, const std::vector<StageRange>& ranges) {
  double largest = 0;
  for (const StageRange& range : ranges) {
    largest = std::max(largest, StageCost(config, EstimatePartCosts(config, 128), range));
  }
  return largest;
}

// The least possible largest cost, over all cuts.
double BestByTrying(const storage::ModelConfig& config, std::uint32_t stages) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<StageRange> ranges;
  const std::function<void(std::uint32_t)> extend = [&](std::uint32_t first) {
    if (ranges.size() + 1 == stages) {
      ranges.push_back({first, config.layers});
      best = std::min(best, Largest(config, ranges));
      ranges.pop_back();
      return;
    }
    for (std::uint32_t last = first + 1; last < config.layers; ++last) {
      ranges.push_back({first, last});
      extend(last);
      ranges.pop_back();
    }
  };
  extend(0);
  return best;
}

TEST(Partition, EvenCutsAreTheBestOfAllCuts) {
  for (std::uint32_t vocabulary : {10u, 1000u, 3000u}) {
    const storage::ModelConfig config = Config(8, vocabulary);
    for (std::uint32_t stages = 1; stages <= 8; ++stages) {
      const auto ranges = EvenPartition(config, stages, 128);
      ASSERT_TRUE(ranges.ok());
      ASSERT_EQ(ranges->size(), stages);
      EXPECT_EQ(Largest(config, *ranges), BestByTrying(config, stages));
      const auto parsed = ParsePartition(config, FormatPartition(*ranges));
      ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
      EXPECT_EQ(*parsed, *ranges);
    }
  }
}

TEST(Partition, TheHeadCosts) {
  const auto small = EvenPartition(Config(8, 10), 2, 128);
  EXPECT_EQ(FormatPartition(*small), "0-4,4-8");
  // A layer has 6 * (4 + 8) * 64^2 + attention; this head weighs about two layers.
  const auto large = EvenPartition(Config(8, 2048), 2, 128);
  EXPECT_EQ(FormatPartition(*large), "0-5,5-8");
}

TEST(Partition, RefusesImpossibleStageCounts) {
  EXPECT_THAT(EvenPartition(Config(4, 10), 5, 8).status().message(), HasSubstr("1 to 4"));
  EXPECT_FALSE(EvenPartition(Config(4, 10), 0, 8).ok());
}

TEST(Partition, ReadsCutLists) {
  const auto ranges = ParsePartition(Config(4, 10), "0-1,1-4");
  ASSERT_TRUE(ranges.ok());
  EXPECT_EQ(*ranges, (std::vector<StageRange>{{0, 1}, {1, 4}}));
  for (const char* text : {"", ",", "0-4,", "0-2", "1-4", "0-2,3-4", "0-3,2-4", "0-0,0-4", "0-5",
                           "0-2,2-", "0-2;2-4", "0-x", "0-4294967300", "-1-4", " 0-4", "0-2,2-2"}) {
    EXPECT_FALSE(ParsePartition(Config(4, 10), text).ok()) << text;
  }
  EXPECT_THAT(ParsePartition(Config(4, 10), "0-2").status().message(), HasSubstr("4 layers"));
}

}  // namespace
}  // namespace shoal::model
