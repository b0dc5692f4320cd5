#include "model/answer_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal::model {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(TrimSpaces, TakesThemFromBothEnds) {
  EXPECT_EQ(TrimSpaces(" \n a b\t\r\n"), "a b");
  EXPECT_EQ(TrimSpaces("a"), "a");
  EXPECT_EQ(TrimSpaces(" \n"), "");
  EXPECT_EQ(TrimSpaces(""), "");
}

TEST(TakeAnswer, TakesAsManyLinesAsTheWantedOneHas) {
  const struct {
    const char *written, *wanted, *text;
    bool complete;
  } cases[] = {
      {"", "x", "", false},
      {" \n ", "x", "", false},
      {" Paris", "Paris", "Paris", false},
      {" Paris\n", "Paris", "Paris", true},
      {"\n\n Paris \r\nFrance", " Lyon\n", "Paris", true},
      {"a\nb", "x\ny", "a\nb", false},
      {"a\nb\n", "x\ny", "a\nb", true},
      {"a\n\nb\nc", "x\n\ny", "a\n\nb", true},
      {"a\nb\nc", "x\ny\nz", "a\nb\nc", false},
  };
  for (const auto& [written, wanted, text, complete] : cases) {
    const TakenAnswer taken = TakeAnswer(written, wanted);
    EXPECT_EQ(taken.text, text) << written;
    EXPECT_EQ(taken.complete, complete) << written;
  }
}

TEST(OneLine, EscapesWhatIsNoTextAndShortens) {
  EXPECT_EQ(OneLine("a\nb\tc\r\x1b[1m\x7f", 100), "a\\nb\\tc\\r?[1m?");
  EXPECT_EQ(OneLine("abcdef", 6), "abcdef");
  EXPECT_EQ(OneLine("abcdefg", 6), "abc...");
  EXPECT_EQ(OneLine("abcdefg", 6, true), "...efg");
  EXPECT_EQ(OneLine("abcdefg", 3), "...");
  EXPECT_EQ(OneLine("abcdefg", 2, true), "..");
  EXPECT_EQ(OneLine("abc", 0), "");
}

TEST(OneLine, CountsCharactersAndCutsNone) {
  EXPECT_EQ(OneLine("\u00e4\u00f6\u00fc\u00df", 4), "\u00e4\u00f6\u00fc\u00df");
  EXPECT_EQ(OneLine("\u00e4\u00f6\u00fc\u00df\u20ac", 4), "\u00e4...");
  EXPECT_EQ(OneLine("\u00e4\u00f6\u00fc\u00df\u20ac", 4, true), "...\u20ac");
}

TEST(Describe, FitsTheWidthAndSharesIt) {
  const WrongAnswer wrong = {12, std::string(200, 'p') + "?", "short", std::string(90, 'g')};
  const std::string line = Describe(wrong, 80);
  EXPECT_EQ(line.size(), 80u);
  EXPECT_THAT(line, StartsWith("line 12: ...p"));
  EXPECT_THAT(line, HasSubstr("p? | wanted short | got gggggggggggggggg"));
  EXPECT_THAT(line, EndsWith("g..."));
  EXPECT_EQ(Describe({3, "a", "b", "c"}, 80), "line 3: a | wanted b | got c");
  EXPECT_THAT(Describe(wrong, 0), HasSubstr(wrong.prompt));
  EXPECT_THAT(Describe(wrong, 0), EndsWith(wrong.got));
  // Too narrow for anything: some of each all the same.
  EXPECT_THAT(Describe(wrong, 5), HasSubstr("short"));
}

}  // namespace
}  // namespace shoal::model
