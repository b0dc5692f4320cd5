#include "dataset/answer_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/file.h"
#include "tests/unit/dataset/test_paths.h"

namespace shoal::dataset {
namespace {

using ::testing::HasSubstr;

class AnswerRecords : public ::testing::Test {
 protected:
  Result<std::vector<AnswerRecord>> Read(const std::string& text,
                                         const std::string& name = "a.jsonl") {
    EXPECT_TRUE(WriteFileAtomic(folder_ / name, text).ok());
    return ReadAnswerRecords(folder_ / name);
  }
  std::string Error(const std::string& text, const std::string& name = "a.jsonl") {
    const auto records = Read(text, name);
    EXPECT_EQ(records.status().code(), StatusCode::kInvalidArgument);
    return records.status().message();
  }

  TemporaryFolder folder_;
};

TEST_F(AnswerRecords, ReadsLinesAndArrays) {
  const auto lines = Read(
      "{\"prompt\": \" 1 + 1 =\", \"answer\": \" 2\\n\", \"id\": 7}\n\n"
      "{\"answer\": \"\\u00e4\", \"prompt\": \"a\"}\r\n");
  ASSERT_TRUE(lines.ok()) << lines.status().ToString();
  ASSERT_EQ(lines->size(), 2u);
  EXPECT_EQ((*lines)[0].prompt, " 1 + 1 =");
  EXPECT_EQ((*lines)[0].answer, " 2\n");
  EXPECT_EQ((*lines)[0].line, 1u);
  EXPECT_EQ((*lines)[1].answer, "\u00e4");
  EXPECT_EQ((*lines)[1].line, 3u);
  const auto array = Read(
      "[{\"prompt\": \"a\", \"answer\": \"b\"},\n {\"prompt\": \"c\",\n"
      "\"answer\": \"d\"}]");
  ASSERT_TRUE(array.ok()) << array.status().ToString();
  ASSERT_EQ(array->size(), 2u);
  EXPECT_EQ((*array)[1].line, 2u);
  const auto one = Read("{\"prompt\": \"a\", \"answer\": \"b\"}\n");
  ASSERT_TRUE(one.ok()) << one.status().ToString();
  EXPECT_EQ(one->size(), 1u);
}

TEST_F(AnswerRecords, NamesTheLineAndTheCause) {
  const std::string good = "{\"prompt\": \"a\", \"answer\": \"b\"}\n";
  const std::pair<const char*, const char*> cases[] = {
      {"{\"prompt\": \"a\"}", "no field \"answer\""},
      {"{\"prompt\": 3, \"answer\": \"b\"}", "its field \"prompt\" is not a string"},
      {"{\"prompt\": \"a\", \"answer\": [\"b\"]}", "its field \"answer\" is not a string"},
      {"{\"prompt\": \"a\", \"answer\": \" \\n\"}", "its field \"answer\" is blank"},
      {"{\"prompt\": \"\", \"answer\": \"b\"}", "its field \"prompt\" is blank"},
      {"{\"prompt\": \"a\", \"answer\"", "not well-formed JSON"},
      {"[\"a\", \"b\"]", "not a JSON object like {\"prompt\""}};
  for (const auto& [line, cause] : cases) {
    EXPECT_THAT(Error(good + line), AllOf(HasSubstr("a.jsonl, line 2: "), HasSubstr(cause)))
        << line;
  }
}

TEST_F(AnswerRecords, RefusesOtherFiles) {
  EXPECT_THAT(Error("some text\n", "a.txt"), HasSubstr("a.txt holds no JSON lines"));
  EXPECT_THAT(Error("[]"), HasSubstr("neither a JSON object on each line"));
  EXPECT_THAT(Error("\n\n"), HasSubstr("has no answers"));
  EXPECT_EQ(ReadAnswerRecords(folder_ / "none").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace shoal::dataset
