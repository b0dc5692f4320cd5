#include "tests/quality/text_windows.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/dataset/prepared_data_contract.h"

namespace shoal::dataset {
namespace {

INSTANTIATE_TEST_SUITE_P(TextWindows, PreparedDataContract,
                         testing::Values(+[]() -> std::shared_ptr<const PreparedData> {
                           const auto text =
                               std::make_shared<const std::vector<std::int32_t>>(4000, 97);
                           return std::make_shared<quality::TextWindows>(
                               256, quality::RandomWindows(text, 20, 1),
                               quality::RandomWindows(text, 3, 2));
                         }));

}  // namespace
}  // namespace shoal::dataset

namespace shoal::quality {
namespace {

Text Numbered(std::size_t tokens) {
  std::vector<std::int32_t> text;
  for (std::size_t i = 0; i < tokens; ++i) text.push_back(static_cast<std::int32_t>(i * 31 % 997));
  return std::make_shared<const std::vector<std::int32_t>>(text);
}

TEST(EncodeText, GivesBytesWithoutATokenizer) {
  EXPECT_EQ(*EncodeText("a\xff b", nullptr), (std::vector<std::int32_t>{97, 255, 32, 98}));
}

TEST(TextWindows, ARowIsItsTokensAndEachLabelTheNextToken) {
  const Text text = Numbered(1000);
  const TextWindows data(997, {{text, 5}, {text, 300}}, {{text, 871}});
  EXPECT_EQ(data.info().train_rows, 2u);
  EXPECT_EQ(data.info().validation_rows, 1u);
  const std::uint64_t offsets[] = {5, 300, 871};
  for (std::uint64_t row = 0; row < 3; ++row) {
    std::vector<std::int32_t> tokens, labels, segments;
    ASSERT_TRUE(data.AppendRow({row}, &tokens, &labels, &segments).ok());
    ASSERT_EQ(tokens.size(), kRowTokens);
    ASSERT_EQ(labels.size(), kRowTokens);
    for (std::size_t i = 0; i < kRowTokens; ++i) {
      EXPECT_EQ(tokens[i], static_cast<std::int32_t>((offsets[row] + i) * 31 % 997));
      EXPECT_EQ(labels[i], static_cast<std::int32_t>((offsets[row] + i + 1) * 31 % 997));
    }
  }
}

TEST(TextWindows, SpacedWindowsReachBothEndsAndNoFurther) {
  const Text text = Numbered(1400);
  const auto windows = SpacedWindows(text, 8);
  ASSERT_EQ(windows.size(), 8u);
  EXPECT_EQ(windows.front().offset, 0u);
  EXPECT_EQ(windows.back().offset + kWindowTokens, 1400u);
  for (std::size_t i = 1; i < windows.size(); ++i) {
    const std::uint64_t step = windows[i].offset - windows[i - 1].offset;
    EXPECT_NEAR(static_cast<double>(step), (1400.0 - 129) / 7, 1);
  }
}

TEST(TextWindows, RandomWindowsStayInsideAndFollowTheSeed) {
  const Text text = Numbered(200);
  const auto windows = RandomWindows(text, 500, 3);
  std::set<std::uint64_t> offsets;
  for (const Window& window : windows) {
    EXPECT_LE(window.offset + kWindowTokens, 200u);
    offsets.insert(window.offset);
  }
  EXPECT_EQ(offsets.size(), 72u) << "every place of so few is drawn";
  EXPECT_EQ(RandomWindows(text, 500, 3)[77].offset, windows[77].offset);
  EXPECT_NE(RandomWindows(text, 500, 4)[77].offset, windows[77].offset);
}

}  // namespace
}  // namespace shoal::quality
