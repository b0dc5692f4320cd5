#include "dataset/prepare/class_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<SeenLabel> Seen(const std::vector<std::string>& training,
                            const std::vector<std::string>& validation = {}) {
  std::vector<SeenLabel> labels;
  for (const auto& text : training) labels.push_back({text, "a.tsv, line 3", true});
  for (const auto& text : validation) labels.push_back({text, "v.tsv, line 7", false});
  return labels;
}

TEST(AssignClasses, NumbersAreTheClasses) {
  const auto classes = AssignClasses(Seen({"3", "0", "007"}));
  ASSERT_TRUE(classes.ok());
  EXPECT_THAT(classes->class_of, ElementsAre(3, 0, 7));
  EXPECT_EQ(classes->classes, 8u);
  EXPECT_THAT(classes->names, IsEmpty());
}

TEST(AssignClasses, NamesAreSorted) {
  const auto classes = AssignClasses(Seen({"spam", "ham", "Eggs"}));
  ASSERT_TRUE(classes.ok());
  EXPECT_THAT(classes->class_of, ElementsAre(2, 1, 0));
  EXPECT_EQ(classes->classes, 3u);
  EXPECT_THAT(classes->names, ElementsAre("Eggs", "ham", "spam"));
}

TEST(AssignClasses, WhatIsRefused) {
  const struct {
    std::vector<SeenLabel> labels;
    const char* words;
  } cases[] = {
      {Seen({}), "no text has a label"},
      {Seen({"1"}), "all training texts have the label \"1\""},
      {Seen({"1"}, {"0"}), "all training texts"},
      {Seen({"1", "0", "-1"}), "a.tsv, line 3: label \"-1\" is not a whole number from 0"},
      {Seen({"1", "0.5"}), "\"0.5\" is not a whole number"},
      {Seen({"1", "65536"}), "\"65536\" is not a whole number from 0 to 65535"},
      {Seen({"1", "99999999999"}), "is not a whole number"},
      {Seen({"1", "0", "label\n"}), "label \"label \" is not a whole number"},
      {Seen({"good", "bad", "2"}), "label \"2\" is a number, others are names"},
      {Seen({"good", ""}), "label \"\" is empty"},
      {Seen({"1", "0"}, {"2"}), "v.tsv, line 7: label \"2\" is in no training file"},
      {Seen({"good", "bad"}, {"ugly"}), "label \"ugly\" is in no training file"},
  };
  for (const auto& [labels, words] : cases) {
    const auto classes = AssignClasses(labels);
    ASSERT_FALSE(classes.ok()) << words;
    EXPECT_EQ(classes.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(classes.status().message(), HasSubstr(words));
  }
}

}  // namespace
}  // namespace shoal::dataset
