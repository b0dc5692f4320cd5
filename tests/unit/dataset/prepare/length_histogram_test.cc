#include "dataset/prepare/length_histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace shoal::dataset {
namespace {

using ::testing::ElementsAre;
using Lengths = std::vector<std::uint32_t>;

TEST(HistogramOf, BarsEndAtPowersOfTwo) {
  EXPECT_TRUE(HistogramOf({}).empty());
  EXPECT_THAT(HistogramOf(Lengths{7}), ElementsAre(LengthBar{7, 7, 1}));
  EXPECT_THAT(HistogramOf(Lengths{5, 8, 9, 16, 17, 40}),
              ElementsAre(LengthBar{5, 8, 2}, LengthBar{9, 16, 2}, LengthBar{17, 32, 1},
                          LengthBar{33, 40, 1}));
  EXPECT_THAT(HistogramOf(Lengths{0, 1}), ElementsAre(LengthBar{0, 1, 2}));
}

TEST(HistogramOf, EveryLengthIsInItsBar) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    Lengths lengths(1 + random() % 50);
    for (auto& length : lengths)
      length = static_cast<std::uint32_t>(random()) >> random() % 33 % 32;
    const auto bars = HistogramOf(lengths);
    ASSERT_LE(bars.size(), 8u);
    EXPECT_EQ(bars.front().from, *std::ranges::min_element(lengths));
    EXPECT_EQ(bars.back().to, *std::ranges::max_element(lengths));
    for (std::size_t i = 0; i < bars.size(); ++i) {
      EXPECT_EQ(bars[i].from, i == 0 ? bars[0].from : bars[i - 1].to + 1);
      EXPECT_EQ(bars[i].samples, static_cast<std::uint64_t>(
                                     std::ranges::count_if(lengths, [&](std::uint32_t length) {
                                       return length >= bars[i].from && length <= bars[i].to;
                                     })));
    }
  }
}

TEST(FormatHistogram, LongestBarIsFull) {
  const LengthBar bars[] = {{5, 8, 80}, {9, 16, 1}, {17, 20, 0}};
  EXPECT_EQ(FormatHistogram(bars), "            5-8          80  " + std::string(40, '#') +
                                       "\n           9-16           1  #\n"
                                       "          17-20           0  \n");
}

}  // namespace
}  // namespace shoal::dataset
