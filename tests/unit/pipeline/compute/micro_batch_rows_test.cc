#include "pipeline/compute/micro_batch_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kTokens = 3;

// Row i: tokens 10 i, 10 i + 1, ..., labels behind them, the last token of each another segment.
class CountedRows final : public dataset::PreparedData {
 public:
  explicit CountedRows(bool segmented) { info_.segmented = segmented; }
  const dataset::DataInfo& info() const override { return info_; }
  Status AppendRow(SampleId sample, std::vector<std::int32_t>* tokens,
                   std::vector<std::int32_t>* labels,
                   std::vector<std::int32_t>* segments) const override {
    for (std::uint32_t i = 0; i < kTokens; ++i) {
      const auto token = static_cast<std::int32_t>(10 * sample.value + i);
      tokens->push_back(token);
      labels->push_back(token + 1);
      if (info_.segmented) segments->push_back(i + 1 == kTokens ? 1 : 0);
    }
    return Status::Ok();
  }
  std::uint32_t TypeBorder(SampleId sample) const override { return sample.value == 4 ? 2 : 3; }
  std::uint32_t LabelCount(SampleId) const override { return kTokens; }
  void SetTyped() { info_.typed = true; }

 private:
  dataset::DataInfo info_;
};

model::MicroBatch TwoRows() {
  model::MicroBatch batch;
  batch.rows = 2;
  batch.tokens = kTokens;
  batch.samples = {SampleId{4}, SampleId{1}};
  return batch;
}

TEST(MicroBatchRows, EachStageGetsWhatItNeeds) {
  const CountedRows plain(false), segmented(true);
  for (const bool with_segments : {false, true}) {
    const CountedRows* data = with_segments ? &segmented : &plain;
    for (const bool first : {false, true}) {
      for (const bool last : {false, true}) {
        model::MicroBatch batch = TwoRows();
        BatchRows rows;
        ASSERT_TRUE(ReadRows(data, first, last, &batch, &rows).ok());
        const auto list = [](auto span) {
          return std::vector<std::int32_t>(span.begin(), span.end());
        };
        if (first) {
          EXPECT_THAT(list(batch.token_ids), ElementsAre(40, 41, 42, 10, 11, 12));
        } else {
          EXPECT_THAT(list(batch.token_ids), IsEmpty());
        }
        if (last) {
          EXPECT_THAT(list(batch.labels), ElementsAre(41, 42, 43, 11, 12, 13));
        } else {
          EXPECT_THAT(list(batch.labels), IsEmpty());
        }
        if (with_segments) {
          EXPECT_THAT(list(batch.segments), ElementsAre(0, 0, 1, 0, 0, 1));
        } else {
          EXPECT_THAT(list(batch.segments), IsEmpty());
        }
      }
    }
  }
}

TEST(MicroBatchRows, TokenTypesAreOfTheFirstStage) {
  CountedRows data(true);
  for (const bool typed : {false, true}) {
    for (const bool first : {false, true}) {
      model::MicroBatch batch = TwoRows();
      BatchRows rows;
      ASSERT_TRUE(ReadRows(&data, first, true, &batch, &rows).ok());
      const std::vector<std::uint32_t> borders(batch.type_borders.begin(),
                                               batch.type_borders.end());
      EXPECT_EQ(borders,
                first && typed ? std::vector<std::uint32_t>({2, 3}) : std::vector<std::uint32_t>());
    }
    data.SetTyped();
  }
}

TEST(MicroBatchRows, OnlyAStageBetweenNeedsNoData) {
  model::MicroBatch batch = TwoRows();
  BatchRows rows;
  EXPECT_TRUE(ReadRows(nullptr, false, false, &batch, &rows).ok());
  EXPECT_FALSE(ReadRows(nullptr, true, false, &batch, &rows).ok());
  EXPECT_FALSE(ReadRows(nullptr, false, true, &batch, &rows).ok());
}

TEST(MicroBatchRows, RowsOfAnotherLengthAreAnError) {
  const CountedRows data(true);
  model::MicroBatch batch = TwoRows();
  batch.tokens = kTokens + 1;
  BatchRows rows;
  EXPECT_FALSE(ReadRows(&data, false, false, &batch, &rows).ok());
}

}  // namespace
}  // namespace shoal::pipeline
