#include "dataset/tokenizers/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "dataset/tokenizers/charsmap.h"
#include "dataset/tokenizers/normalizer.h"
#include "dataset/tokenizers/regex.h"

namespace shoal::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

std::vector<std::string> Words(const Json& json, std::string_view text, bool first = true) {
  const auto made = PreTokenizer::Parse(json);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  WordList list;
  if (made.ok()) made->Split(text, first, &list);
  return {list.words.begin(), list.words.end()};
}

Json SplitBy(const char* pattern, const char* behavior, bool invert = false) {
  return {{"type", "Split"},
          {"pattern", {{"String", pattern}}},
          {"behavior", behavior},
          {"invert", invert}};
}

// The examples of the documentation of `tokenizers`: "the-final--countdown" by "-".
TEST(PreTokenizer, BehavesAsNamed) {
  constexpr char kText[] = "the-final--countdown";
  EXPECT_THAT(Words(SplitBy("-", "Removed"), kText), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(Words(SplitBy("-", "Isolated"), kText),
              ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(Words(SplitBy("-", "MergedWithPrevious"), kText),
              ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(Words(SplitBy("-", "MergedWithNext"), kText),
              ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(Words(SplitBy("-", "Contiguous"), kText),
              ElementsAre("the", "-", "final", "--", "countdown"));
  EXPECT_THAT(Words(SplitBy("-", "Removed", true), kText), ElementsAre("-", "-", "-"));
}

TEST(PreTokenizer, MetaspaceBeginsTheFirstWordOnly) {
  const Json json = {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "first"}};
  EXPECT_THAT(Words(json, "a b"), ElementsAre("_a", "_b"));
  EXPECT_THAT(Words(json, "a b", /*first=*/false), ElementsAre("a", "_b"));
  EXPECT_THAT(Words(json, " a"), ElementsAre("_a"));
}

TEST(PreTokenizer, RefusesWhatItDoesNotHave) {
  const std::pair<Json, const char*> cases[] = {
      {{{"type", "UnicodeScripts"}}, "UnicodeScripts"},
      {{{"type", "Sequence"}}, "list"},
      {{{"type", "Split"}, {"pattern", {{"Regex", "("}}}}, "regular expression"},
      {{{"type", "Split"}, {"pattern", {{"Regex", "^a"}}}}, "'^'"},
      {SplitBy("-", "Sideways"), "Sideways"},
      {{{"type", "Metaspace"}, {"prepend_scheme", "last"}}, "last"},
      {{{"type", "Sequence"},
        {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "WhitespaceSplit"}}}}},
       "behind"}};
  for (const auto& [json, words] : cases) {
    EXPECT_THAT(PreTokenizer::Parse(json).status().message(), HasSubstr(words)) << json;
  }
  Json deep = {{"type", "WhitespaceSplit"}};
  for (int i = 0; i < 20; ++i) deep = {{"type", "Sequence"}, {"pretokenizers", {deep}}};
  EXPECT_THAT(PreTokenizer::Parse(deep).status().message(), HasSubstr("deeply"));
}

TEST(Normalizer, RefusesWhatItDoesNotHave) {
  EXPECT_THAT(Normalizer::Parse({{"type", "ByteLevel"}}).status().message(),
              HasSubstr("ByteLevel"));
  EXPECT_THAT(Normalizer::Parse({{"type", "Replace"}}).status().message(), HasSubstr("pattern"));
  EXPECT_THAT(Normalizer::Parse({{"type", "Precompiled"}, {"precompiled_charsmap", "@"}})
                  .status()
                  .message(),
              HasSubstr("base64"));
}

TEST(Charsmap, RefusesDamage) {
  using namespace std::string_literals;
  for (const std::string& bytes : {""s, "\x04"s, "\x04\0\0\0"s, "\x04\0\0\0abcd"s,
                                   "\x03\0\0\0abcd\0"s, "\x04\0\0\0abcdxyz"s}) {
    EXPECT_FALSE(Charsmap::Parse(bytes).ok()) << bytes.size();
  }
  // An array that leads outside of itself finds nothing.
  const auto map = Charsmap::Parse("\x04\0\0\0\xff\xff\xff\xff\0"s);
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(map->Replace("abc"), "abc");
}

TEST(Regex, HasTheClassesOfOniguruma) {
  EXPECT_EQ(*PcrePattern("\\u0041[^\\s]"), "\\x{0041}[^\\p{Z}\\t-\\r\\x{85}]");
  for (const char* refused : {"a$", "^a", "[a[b]]", "[a&&b]", "\\h", "(a)\\1", "\\bword", "[a",
                              "[\\S]", "\\uZZZZ", "a\\"}) {
    EXPECT_FALSE(PcrePattern(refused).ok()) << refused;
  }
  const auto regex = Regex::Compile("[^]x]\\p{L}+|[[:digit:]]");
  ASSERT_TRUE(regex.ok()) << regex.status().ToString();
  std::size_t begin = 0, end = 0;
  // U+31350, a letter since Unicode 15.
  ASSERT_TRUE(regex->Find("x \xf0\xb1\x8d\x90y 7", 0, &begin, &end));
  EXPECT_EQ(begin, 1U);
  EXPECT_EQ(end, 7U);
  ASSERT_TRUE(regex->Find("x \xf0\xb1\x8d\x90y 7", end, &begin, &end));
  EXPECT_EQ(begin, 8U);
  EXPECT_FALSE(regex->Find("xx", 0, &begin, &end));
}

TEST(Regex, APatternThatTakesForeverIsAnError) {
  const auto regex = Regex::Compile("(a+)+[bc]");
  ASSERT_TRUE(regex.ok());
  std::size_t begin = 0, end = 0;
  EXPECT_THROW(static_cast<void>(regex->Find(std::string(60, 'a'), 0, &begin, &end)),
               std::runtime_error);
}

}  // namespace
}  // namespace shoal::dataset
