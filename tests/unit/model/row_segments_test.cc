#include "model/blocks/row_segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace shoal::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Numbers = std::vector<std::int32_t>;

TEST(RowSegments, AreFoundRowByRow) {
  const Numbers numbers = {0,  0, 1,  -1,  //
                           -7, 5, -1, 0,   //
                           0,  0, 0,  0};
  const auto segments = FindSegments(numbers, 4);
  ASSERT_TRUE(segments.ok());
  EXPECT_THAT(*segments, ElementsAre(RowSegment{0, 0, 2}, RowSegment{0, 2, 1}, RowSegment{1, 1, 1},
                                     RowSegment{1, 3, 1}, RowSegment{2, 0, 4}));
  EXPECT_THAT(PositionsOf(*segments, 3, 4), ElementsAre(0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3));
  EXPECT_FALSE(AreWholeRows(*segments, 3, 4));
}

TEST(RowSegments, RowsOfOneSegmentAreWhole) {
  const auto same = FindSegments(Numbers{3, 3, 3, 3}, 2);
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->size(), 2U) << "a number is a row's own";
  EXPECT_TRUE(AreWholeRows(*same, 2, 2));
  EXPECT_FALSE(AreWholeRows(*FindSegments(Numbers{0, 1, 0, 0}, 2), 2, 2));
  EXPECT_FALSE(AreWholeRows(*FindSegments(Numbers{0, 0, -1, -1}, 2), 2, 2));
  EXPECT_TRUE(FindSegments(Numbers{-1, -1}, 2)->empty());
}

TEST(RowSegments, AnotherPieceOfASegmentIsRefused) {
  for (const Numbers& numbers : {Numbers{0, 1, 0}, Numbers{2, -1, 2}}) {
    const auto segments = FindSegments(numbers, 3);
    ASSERT_FALSE(segments.ok());
    EXPECT_EQ(segments.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(segments.status().message(), HasSubstr("lies in two places"));
  }
}

// Against a count of every position's predecessors with the same number.
TEST(RowSegments, PositionsCountWithinTheSegment) {
  constexpr std::int64_t kRows = 40, kTokens = 17;
  std::mt19937 random(1);
  Numbers numbers, wanted;
  for (std::int64_t row = 0; row < kRows; ++row) {
    Numbers line;
    for (std::int32_t next = 0; static_cast<std::int64_t>(line.size()) < kTokens;) {
      const std::int32_t number = random() % 4 == 0 ? -1 : next++;
      line.insert(line.end(), 1 + random() % 6, number);
    }
    line.resize(kTokens);
    for (std::size_t token = 0; token < line.size(); ++token) {
      std::int32_t before = 0;
      for (std::size_t i = 0; i < token && line[token] >= 0; ++i) before += line[i] == line[token];
      wanted.push_back(before);
    }
    numbers.insert(numbers.end(), line.begin(), line.end());
  }
  const auto segments = FindSegments(numbers, kTokens);
  ASSERT_TRUE(segments.ok());
  EXPECT_EQ(PositionsOf(*segments, kRows, kTokens), wanted);
}

}  // namespace
}  // namespace shoal::model
