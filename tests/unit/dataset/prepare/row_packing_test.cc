#include "dataset/prepare/row_packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace shoal::dataset {
namespace {

using ::testing::ElementsAre;

// Looks at each row in turn.
std::vector<std::uint64_t> SlowFirstFit(const std::vector<std::uint32_t>& lengths,
                                        std::uint32_t row_tokens) {
  std::vector<std::uint64_t> rows;
  std::vector<std::uint32_t> used;
  for (const std::uint32_t length : lengths) {
    std::size_t row = 0;
    while (row < used.size() && used[row] + length > row_tokens) ++row;
    if (row == used.size()) used.push_back(0);
    used[row] += length;
    rows.push_back(row);
  }
  return rows;
}

TEST(PackFirstFit, SmallCases) {
  EXPECT_TRUE(PackFirstFit({}, 8).empty());
  const std::vector<std::uint32_t> lengths = {5, 4, 3, 8, 4, 1};
  EXPECT_THAT(PackFirstFit(lengths, 8), ElementsAre(0, 1, 0, 2, 1, 3));
}

TEST(PackFirstFit, IsTheSlowOne) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t row_tokens = 2 + random() % 40;
    std::vector<std::uint32_t> lengths(random() % 200);
    for (std::uint32_t& length : lengths) length = 1 + random() % row_tokens;
    EXPECT_EQ(PackFirstFit(lengths, row_tokens), SlowFirstFit(lengths, row_tokens));
  }
}

}  // namespace
}  // namespace shoal::dataset
