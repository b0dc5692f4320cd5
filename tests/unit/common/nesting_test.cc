#include "common/nesting.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <string>

namespace shoal {
namespace {

std::string Repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(NestingTest, CountsBracketsOutsideOfStrings) {
  EXPECT_FALSE(JsonNestsDeeper("[[[]]]", 3));
  EXPECT_TRUE(JsonNestsDeeper("[[[]]]", 2));
  EXPECT_TRUE(JsonNestsDeeper("{\"a\":[{\"b\":1}]}", 2));
  EXPECT_FALSE(JsonNestsDeeper("[[],[],[{}]]", 3));
  EXPECT_FALSE(JsonNestsDeeper("[\"[[[[\", \"\\\"[[[[\", \"\\\\\"]", 1));
  EXPECT_TRUE(JsonNestsDeeper("[\"\\\\\",[[", 2));
  EXPECT_FALSE(JsonNestsDeeper("\"[[[[[", 1)) << "an open string";
  EXPECT_FALSE(JsonNestsDeeper("\"\\", 1));
}

TEST(NestingTest, ParseJsonDiscardsWhatIsTooDeepOrBroken) {
  EXPECT_EQ(ParseJson<nlohmann::json>("{\"a\": [1]}")["a"][0], 1);
  EXPECT_TRUE(ParseJson<nlohmann::json>("{").is_discarded());
  // Copying or printing this value would overflow the stack.
  EXPECT_TRUE(
      ParseJson<nlohmann::json>(Repeat("[", 131'000) + Repeat("]", 131'000)).is_discarded());
  EXPECT_TRUE(ParseJson<nlohmann::ordered_json>(Repeat("{\"a\":", 131'000)).is_discarded());
}

TEST(NestingTest, CountsThePartsOfKeys) {
  EXPECT_FALSE(TomlKeysNestDeeper("a.b.c = 1.5\nd.e = 2\n", 3));
  EXPECT_TRUE(TomlKeysNestDeeper("a.b.c.d = 1", 3));
  EXPECT_TRUE(TomlKeysNestDeeper("[a . \"b.c\".'d'.e]", 3));
  EXPECT_FALSE(TomlKeysNestDeeper("[a . \"b.c.d.e.f\"]", 3));
  EXPECT_FALSE(TomlKeysNestDeeper("x = \"a.b.c.d.e\" # f.g.h.i.j.k\ny = ['1.2.3.4.5']", 3));
  EXPECT_TRUE(TomlKeysNestDeeper("x = { a.b.c.d = 1 }", 3));
  EXPECT_FALSE(TomlKeysNestDeeper("listen = \"127.0.0.1:1\"\n# 1.2.3.4.5.6.7.8", 3));
  EXPECT_TRUE(TomlKeysNestDeeper(Repeat("a.", 100'000) + "a = 1", 16));
}

// One quote inside a string of three hid all keys that followed.
TEST(NestingTest, StringsOfThreeQuotesHideNoKeys) {
  for (const char* before : {"x = '''it's'''\n", "x = \"\"\"a\"b\"\"\"\n", "x = '''a'''''\n",
                             "x = \"\"\"\\\"\"\"\"\n", "x = 'open\n", "x = \"\"\n", "x = ''\n"}) {
    EXPECT_TRUE(TomlKeysNestDeeper(before + std::string("a.b.c.d = 1\n"), 3)) << before;
  }
  EXPECT_FALSE(TomlKeysNestDeeper("x = '''\na.b.c.d = 1\n'''\n", 3));
}

}  // namespace
}  // namespace shoal
