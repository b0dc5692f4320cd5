#include "dataset/prepare/table_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace shoal::dataset {
namespace {

using ::testing::HasSubstr;
using Fields = std::vector<std::string>;

const Fields kCola = {"gj04", "1", "", "Our friends won't buy this."};

TEST(FindColumns, Found) {
  const struct {
    Fields first;
    SampleColumns wanted;
    std::size_t text, label;
    bool header;
  } cases[] = {
      {{"text", "label"}, {}, 0, 1, true},
      {{"id", "Label", "Sentence"}, {}, 2, 1, true},
      {{"title", "text", "content", "class"}, {}, 1, 3, true},
      {{"premise", "quality"}, {"premise", "quality"}, 0, 1, true},
      {{"premise", "quality"}, {"1", "QUALITY"}, 0, 1, true},
      {kCola, {"4", "2"}, 3, 1, false},
      // A number, an empty field and one that is there twice are no names.
      {{"text", "1"}, {"1", "2"}, 0, 1, false},
      {{"text", "label", ""}, {"1", "2"}, 0, 1, false},
      {{"text", "text"}, {"1", "2"}, 0, 1, false},
  };
  for (const auto& [first, wanted, text, label, header] : cases) {
    const auto columns = FindColumns(first, wanted);
    ASSERT_TRUE(columns.ok()) << columns.status().ToString();
    EXPECT_EQ(columns->text, text);
    EXPECT_EQ(columns->label, label);
    EXPECT_EQ(columns->count, first.size());
    EXPECT_EQ(columns->header, header) << first[0] << " " << first[1];
  }
}

TEST(FindColumns, SecondTexts) {
  const auto pair = [](const Fields& first, const SampleColumns& wanted) {
    return FindColumns(first, wanted)->pair;
  };
  const Fields named = {"label", "text", "Text_pair", "more"};
  EXPECT_EQ(pair(named, {}), 2U);
  EXPECT_EQ(pair(named, {"", "", "more"}), 3U);
  EXPECT_EQ(pair(named, {"more", ""}), std::nullopt);
  EXPECT_EQ(pair({"text", "label"}, {}), std::nullopt);
  EXPECT_EQ(pair(kCola, {"4", "2", "1"}), 0U);
  EXPECT_TRUE(FindColumns(Fields{"premise", "hypothesis", "a"}, {"1", "3", "hypothesis"})->header);
}

TEST(FindColumns, ErrorsNameColumnsAndOption) {
  const struct {
    Fields first;
    SampleColumns wanted;
    const char* words;
    const char* option;
  } cases[] = {
      {kCola, {}, "4 columns without names, first gj04, 1, ", "--label-column, by its number"},
      {kCola, {"", "2"}, "4 columns without names", "--text-column, by its number"},
      {kCola, {"5", "2"}, "no column 5", "--text-column"},
      {kCola, {"0", "2"}, "no column 0", "--text-column"},
      {kCola, {"4", "grade"}, "no column grade", "--label-column"},
      {{"text", "grade"}, {}, "its columns are text, grade", "--label-column"},
      {{"text", "label"},
       {"body", ""},
       "no column body; its columns are text, label",
       "--text-column"},
      {{"text", "label"}, {"label", ""}, "the same column", "--text-column"},
      {{"text", "label"}, {"", "", "text"}, "the second text is one of them", "--pair-column"},
      {{"text", "label"}, {"", "", "2"}, "the second text is one of them", "--pair-column"},
      {{"text", "label"}, {"", "", "b"}, "no column b; its columns are", "--pair-column"},
  };
  for (const auto& [first, wanted, words, option] : cases) {
    const auto columns = FindColumns(first, wanted);
    ASSERT_FALSE(columns.ok()) << words;
    EXPECT_THAT(columns.status().message(), HasSubstr(words));
    EXPECT_THAT(columns.status().message(), HasSubstr(option));
  }
}

}  // namespace
}  // namespace shoal::dataset
