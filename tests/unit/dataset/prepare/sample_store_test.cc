#include "dataset/prepare/sample_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  const std::vector<std::uint32_t> class_of = {0, 0, 0, 0, 0, 2, 0, 3};
  store.MapLabels(class_of);
  EXPECT_THAT(store.labels(), ElementsAre(3, 2));
}

}  // namespace
}  // namespace shoal::dataset
