#include "dataset/prepare/row_preview.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/dataset/prepare/byte_tokenizer.h"

namespace shoal::dataset {
namespace {

using ::testing::ElementsAre;
using Ids = std::vector<std::int32_t>;

// One row.
class OneRow final : public PreparedData {
 public:
  OneRow(DataKind kind, std::string tokens, Ids labels, Ids segments)
      : tokens_(std::move(tokens)), labels_(std::move(labels)), segments_(std::move(segments)) {
    info_.row_tokens = static_cast<std::uint32_t>(tokens_.size());
    info_.train_rows = 1;
    info_.kind = kind;
    info_.segmented = !segments_.empty();
  }
  const DataInfo& info() const override { return info_; }
  Status AppendRow(SampleId, Ids* tokens, Ids* labels, Ids* segments) const override {
    tokens->assign(tokens_.begin(), tokens_.end());
    *labels = labels_;
    *segments = segments_;
    return Status::Ok();
  }
  std::uint32_t LabelCount(SampleId) const override { return 0; }

 private:
  DataInfo info_;
  std::string tokens_;
  Ids labels_, segments_;
};

std::vector<PreviewPiece> Preview(const OneRow& row) {
  const auto pieces = PreviewRow(row, SampleId{0}, ByteTokenizer());
  EXPECT_TRUE(pieces.ok());
  return pieces.ok() ? *pieces : std::vector<PreviewPiece>{};
}

constexpr std::int32_t kNo = kIgnoreLabel;

TEST(PreviewRow, TokensThatCountAreApart) {
  EXPECT_THAT(Preview(OneRow(DataKind::kSamples, "abcd..", {kNo, 'c', 'd', kNo, kNo, kNo}, {})),
              ElementsAre(PreviewPiece{"ab", false, true}, PreviewPiece{"cd", true, false}));
  EXPECT_THAT(Preview(OneRow(DataKind::kText, "abc", {'b', 'c', 'd'}, {})),
              ElementsAre(PreviewPiece{"a", false, true}, PreviewPiece{"bc", true, false}));
}

TEST(PreviewRow, SamplesAreApartAndPaddingIsLeftOut) {
  EXPECT_THAT(Preview(OneRow(DataKind::kSamples, "abcd.", {'b', kNo, 'd', kNo, kNo},
                             {0, 0, 1, 1, kPaddingSegment})),
              ElementsAre(PreviewPiece{"a", false, true}, PreviewPiece{"b", true, false},
                          PreviewPiece{"c", false, true}, PreviewPiece{"d", true, false}));
}

TEST(PreviewRow, OfClassesNothingCounts) {
  EXPECT_THAT(
      Preview(OneRow(DataKind::kClasses, "abc.", {2, kNo, kNo, kNo}, {0, 0, 0, kPaddingSegment})),
      ElementsAre(PreviewPiece{"abc", false, true}));
}

TEST(Escaped, NothingThatMovesATerminal) {
  EXPECT_EQ(Escaped("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9f", 100),
            "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9f");
  EXPECT_EQ(Escaped("a\n\r\t\\\x1b[31m\x7f", 100), "a\\n\\r\\t\\\\\\x1b[31m\\x7f");
  // No UTF-8: a lone byte, a cut character, an overlong one, half of a pair, beyond Unicode.
  EXPECT_EQ(Escaped("\x80 \xe2\x82 \xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80", 100),
            "\\x80 \\xe2\\x82 \\xc0\\x80 \\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80");
  // Controls of Latin-1, and what turns the direction of writing.
  EXPECT_EQ(Escaped("\xc2\x9b \xe2\x80\xae \xe2\x81\xa6", 100),
            "\\xc2\\x9b \\xe2\\x80\\xae \\xe2\\x81\\xa6");
}

TEST(Escaped, LongTextsLoseTheirMiddle) {
  EXPECT_EQ(Escaped("0123456789", 10), "0123456789");
  EXPECT_EQ(Escaped("0123456789a", 4), "01 ... 9a");
}

TEST(FormatPreview, MarksAndColours) {
  const PreviewPiece pieces[] = {
      {"Q\n", false, true}, {"A", true, false}, {"q", false, true}, {"a", true, false}};
  EXPECT_EQ(FormatPreview(pieces, false), "Q\\n{+A+} | q{+a+}");
  EXPECT_EQ(FormatPreview(pieces, true), "Q\\n\x1b[32mA\x1b[0m | q\x1b[32ma\x1b[0m");
  const std::vector<PreviewPiece> many(17, {"x", true, false});
  EXPECT_THAT(FormatPreview(many, false), testing::EndsWith("{+x+} ..."));
}

}  // namespace
}  // namespace shoal::dataset
