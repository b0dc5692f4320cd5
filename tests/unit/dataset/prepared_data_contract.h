// What every PreparedData does: one suite, run on files and on what tests make up.

#ifndef SHOAL_TESTS_UNIT_DATASET_PREPARED_DATA_CONTRACT_H_
#define SHOAL_TESTS_UNIT_DATASET_PREPARED_DATA_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "dataset/prepared_data.h"

namespace shoal::dataset {

// With rows.
using MakePreparedData = std::shared_ptr<const PreparedData> (*)();

class PreparedDataContract : public testing::TestWithParam<MakePreparedData> {
 protected:
  using Ids = std::vector<std::int32_t>;
  struct Row {
    Ids tokens, labels, segments;
    bool operator==(const Row&) const = default;
  };

  void SetUp() override {
    ASSERT_NE(data_, nullptr);
    ASSERT_GT(rows(), 0u);
  }
  std::uint64_t rows() const { return data_->info().train_rows + data_->info().validation_rows; }
  Row At(std::uint64_t row) const {
    Row read;
    const Status status =
        data_->AppendRow(SampleId{row}, &read.tokens, &read.labels, &read.segments);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return read;
  }
  bool classes() const { return data_->info().kind == DataKind::kClasses; }

  const std::shared_ptr<const PreparedData> data_ = GetParam()();
};

TEST_P(PreparedDataContract, RowsAreOfOneLengthAndIdsOfTheVocabulary) {
  const auto known = [this](std::int32_t id) {
    return id >= 0 && static_cast<std::uint32_t>(id) < data_->info().vocabulary;
  };
  for (std::uint64_t row = 0; row < rows(); ++row) {
    const Row read = At(row);
    EXPECT_EQ(read.tokens.size(), data_->info().row_tokens);
    EXPECT_EQ(read.labels.size(), data_->info().row_tokens);
    EXPECT_TRUE(std::ranges::all_of(read.tokens, known)) << "row " << row;
    EXPECT_EQ(read.segments.size(), data_->info().segmented ? data_->info().row_tokens : 0);
    EXPECT_TRUE(std::ranges::all_of(
        read.labels, [&](std::int32_t label) { return label == kIgnoreLabel || known(label); }))
        << "row " << row;
  }
}

TEST_P(PreparedDataContract, TokenTypesBeginWithinTheRow) {
  bool seen = false;
  for (std::uint64_t row = 0; row <= rows(); ++row) {
    const std::uint32_t border = data_->TypeBorder(SampleId{row});
    EXPECT_GE(border, 1u) << "row " << row;
    EXPECT_LE(border, data_->info().row_tokens) << "row " << row;
    if (border == data_->info().row_tokens) continue;
    seen = true;
    ASSERT_LT(row, rows());
    EXPECT_TRUE(!data_->info().segmented || At(row).segments[border] >= 0) << "row " << row;
  }
  EXPECT_EQ(seen, data_->info().typed);
}

TEST_P(PreparedDataContract, ClassesAreOfRowsOfClassesOnly) {
  EXPECT_EQ(data_->info().classes > 0, classes());
  if (!classes()) return;
  for (std::uint64_t row = 0; row < rows(); ++row) {
    const Row read = At(row);
    EXPECT_TRUE(read.labels[0] >= 0 &&
                static_cast<std::uint32_t>(read.labels[0]) < data_->info().classes)
        << "row " << row;
    EXPECT_EQ(data_->LabelCount(SampleId{row}), 1u);
  }
}

TEST_P(PreparedDataContract, SegmentsCountUpAndPaddingIsBehindThem) {
  if (!data_->info().segmented) return;
  for (std::uint64_t row = 0; row < rows(); ++row) {
    const Row read = At(row);
    EXPECT_EQ(read.segments[0], 0) << "row " << row;
    for (std::size_t i = 0; i + 1 < read.segments.size(); ++i) {
      const std::int32_t here = read.segments[i], next = read.segments[i + 1];
      const bool padding = next == kPaddingSegment;
      EXPECT_TRUE(padding || (here >= 0 && (next == here || next == here + 1)))
          << "row " << row << ", token " << i;
    }
  }
}

TEST_P(PreparedDataContract, LabelsDoNotCrossSegments) {
  if (!data_->info().segmented || classes()) return;
  for (std::uint64_t row = 0; row < rows(); ++row) {
    const Row read = At(row);
    for (std::size_t i = 0; i < read.segments.size(); ++i) {
      if (read.labels[i] == kIgnoreLabel) continue;
      ASSERT_LT(i + 1, read.segments.size()) << "row " << row;
      EXPECT_EQ(read.segments[i], read.segments[i + 1]) << "row " << row << ", token " << i;
    }
  }
}

TEST_P(PreparedDataContract, ALabelIsTheNextToken) {
  if (classes()) return;
  for (std::uint64_t row = 0; row < rows(); ++row) {
    const Row read = At(row);
    for (std::size_t i = 0; i + 1 < read.tokens.size(); ++i) {
      if (read.labels[i] == kIgnoreLabel) continue;
      EXPECT_EQ(read.labels[i], read.tokens[i + 1]) << "row " << row << ", token " << i;
    }
  }
}

// By which a scheduler knows what a step's gradients are divided by.
TEST_P(PreparedDataContract, LabelsThatCountAreCounted) {
  for (std::uint64_t row = 0; row < rows(); ++row) {
    const Row read = At(row);
    EXPECT_EQ(data_->LabelCount(SampleId{row}),
              read.labels.size() - std::ranges::count(read.labels, kIgnoreLabel))
        << "row " << row;
  }
}

TEST_P(PreparedDataContract, ARowGoesBehindWhatIsThereAndIsTheSameAgain) {
  const Row first = At(0), last = At(rows() - 1);
  Row both = first;
  ASSERT_TRUE(
      data_->AppendRow(SampleId{rows() - 1}, &both.tokens, &both.labels, &both.segments).ok());
  Row expected = first;
  expected.tokens.insert(expected.tokens.end(), last.tokens.begin(), last.tokens.end());
  expected.labels.insert(expected.labels.end(), last.labels.begin(), last.labels.end());
  expected.segments.insert(expected.segments.end(), last.segments.begin(), last.segments.end());
  EXPECT_EQ(both, expected);
}

TEST_P(PreparedDataContract, ARowThatIsNotThereIsAnErrorAndHasNoLabels) {
  for (const std::uint64_t row : {rows(), rows() + 7, ~std::uint64_t{0}}) {
    Row read{{1}, {2}, {3}};
    EXPECT_EQ(data_->AppendRow(SampleId{row}, &read.tokens, &read.labels, &read.segments).code(),
              StatusCode::kOutOfRange);
    EXPECT_EQ(read, (Row{{1}, {2}, {3}}));
    EXPECT_EQ(data_->LabelCount(SampleId{row}), 0u);
  }
}

}  // namespace shoal::dataset

#endif  // SHOAL_TESTS_UNIT_DATASET_PREPARED_DATA_CONTRACT_H_
