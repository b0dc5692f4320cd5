#include "storage/files/foreign_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::storage {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ForeignText, KeysThatStandTwiceInAnObject) {
  for (const char* text :
       {R"({"a": 1, "a": 2})", R"([{"b": {"c": 1, "a": 2, "a": {}}}])",
        R"({"x": [1, {"y": 0}], "z": 1, "a": {"a": 1}, "a": 3})", R"({"a": 1, "\u0061": 2})"}) {
    EXPECT_THAT(CheckRepeatedKeys(text, "x.json").message(),
                AllOf(HasSubstr("x.json has the key 'a' twice"), HasSubstr("remove one")))
        << text;
  }
  EXPECT_FALSE(CheckRepeatedKeys(R"({"": 1, "": 2})", "x").ok());
  for (const char* text : {R"({"a": {"a": 1}, "b": {"a": 2}})", R"([{"a": 1}, {"a": 2}])",
                           R"({"a": "\"a\": 1"})", "3", "", R"({"a": 1)", "]}"}) {
    EXPECT_TRUE(CheckRepeatedKeys(text, "x.json").ok()) << text;
  }
  EXPECT_THAT(CheckRepeatedKeys("{\"\n\": 1, \"\\n\": 1, \"\\n\": 2}", "x").message(),
              testing::Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace shoal::storage
