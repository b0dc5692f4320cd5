#include "dataset/prepare/sample_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace shoal::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SampleStore, LongSamplesAreCut) {
  SampleStore store(4);
  EXPECT_TRUE(store.Add({{1, 2, 3, 4, 5, 6}, {0, 0, 1, 0, 1, 1}, 0, ""}, 0, LongSamples::kCut));
  // The loss counts on nothing that is left of it.
  EXPECT_FALSE(store.Add({{1, 2, 3, 4, 5}, {0, 0, 0, 0, 1}, 0, ""}, 0, LongSamples::kCut));
  EXPECT_FALSE(store.Add({{1, 2}, {0, 0}, 0, ""}, 0, LongSamples::kCut));
  // The first token has none before it.
  EXPECT_FALSE(store.Add({{1}, {1}, 0, ""}, 0, LongSamples::kCut));
  EXPECT_FALSE(store.Add({}, 0, LongSamples::kCut));
  EXPECT_THAT(store.ids(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(store.counts(), ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(store.lengths(), ElementsAre(4));
  EXPECT_THAT(store.whole_lengths(), ElementsAre(6, 5, 2, 1, 0));
  EXPECT_EQ(store.whole_tokens(), 14u);
  EXPECT_EQ(store.cuts().cut_samples, 1u);
  EXPECT_EQ(store.cuts().cut_tokens, 2u);
  EXPECT_EQ(store.cuts().dropped_samples, 4u);
}

TEST(SampleStore, DocumentsGoOn) {
  SampleStore store(4);
  EXPECT_TRUE(store.Add({{1, 2, 3, 4, 5, 6, 7, 8, 9}, {0, 1, 1, 1, 1, 1, 1, 1, 1}, 0, ""}, 0,
                        LongSamples::kDivide));
  EXPECT_THAT(store.ids(), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_THAT(store.counts(), ElementsAre(0, 1, 1, 1, 0, 1, 1, 1));
  EXPECT_THAT(store.lengths(), ElementsAre(4, 4));
  EXPECT_EQ(store.cuts().cut_samples, 1u);
  EXPECT_EQ(store.cuts().cut_tokens, 1u);
  EXPECT_EQ(store.cuts().dropped_samples, 0u);
}

TEST(SampleStore, ClassesKeepTheirTail) {
  SampleStore store(4);
  EXPECT_TRUE(store.Add({{1, 2, 3, 4, 5, 9}, {}, 1, "x"}, 7, LongSamples::kCut));
  EXPECT_TRUE(store.Add({{1, 9}, {}, 1, ""}, 5, LongSamples::kCut));
  EXPECT_FALSE(store.Add({{}, {}, 0, "x"}, 5, LongSamples::kCut));
  EXPECT_THAT(store.ids(), ElementsAre(1, 2, 3, 9, 1, 9));
  EXPECT_THAT(store.counts(), IsEmpty());
  EXPECT_THAT(store.labels(), ElementsAre(7, 5));
  EXPECT_THAT(store.type_borders(), testing::ElementsAreArray(store.lengths()));
  EXPECT_FALSE(store.typed());
  const std::vector<std::uint32_t> class_of = {0, 0, 0, 0, 0, 2, 0, 3};
  store.MapLabels(class_of);
  EXPECT_THAT(store.labels(), ElementsAre(3, 2));
}

// The ids of a pair in a row, by dropping one id at a time from the text that is longer.
std::vector<std::int32_t> SlowlyCut(std::vector<std::int32_t> first,
                                    std::vector<std::int32_t> second, std::size_t row) {
  const bool first_was_longer = first.size() > second.size();
  while (first.size() + second.size() + 4 > row) {
    const bool drop_first =
        first.size() == second.size() ? !first_was_longer : first.size() > second.size();
    (drop_first ? first : second).pop_back();
  }
  std::vector<std::int32_t> ids = {90};
  ids.insert(ids.end(), first.begin(), first.end());
  ids.insert(ids.end(), {91, 92});
  ids.insert(ids.end(), second.begin(), second.end());
  ids.push_back(93);
  return ids;
}

TEST(SampleStore, OfAPairTheLongerTextIsCut) {
  for (std::size_t row = 6; row < 16; ++row) {
    for (std::size_t sizes = 0; sizes < 12 * 12; ++sizes) {
      std::vector<std::int32_t> first(sizes / 12), second(sizes % 12);
      std::iota(first.begin(), first.end(), 1);
      std::iota(second.begin(), second.end(), 20);
      EncodedSample sample;
      sample.ids = SlowlyCut(first, second, 1000);
      const std::size_t middle = 1 + first.size();
      sample.pair = {1, middle, middle + 2, middle + 2 + second.size()};
      sample.type_border = middle + 1;  // at 92
      SampleStore store(static_cast<std::uint32_t>(row));
      ASSERT_TRUE(store.Add(sample, 0, LongSamples::kCut));
      ASSERT_EQ(std::vector<std::int32_t>(store.ids().begin(), store.ids().end()),
                SlowlyCut(first, second, row))
          << row << ' ' << first.size() << ' ' << second.size();
      ASSERT_EQ(store.ids()[store.type_borders()[0]], 92);
      ASSERT_TRUE(store.typed());
      ASSERT_EQ(store.cuts().cut_tokens,
                sample.ids.size() > row ? sample.ids.size() - row : std::size_t{0});
    }
  }
}

}  // namespace
}  // namespace shoal::dataset
