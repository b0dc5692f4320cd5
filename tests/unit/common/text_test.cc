#include "common/text.h"

#include <gtest/gtest.h>

#include <string>

namespace shoal {
namespace {

TEST(CleanTextTest, ControlCharactersBecomeSpaces) {
  EXPECT_EQ(CleanText("a\x1b[2Jb\nc\x7f", 100), "a [2Jb c ");
  EXPECT_EQ(CleanText("a\xc2\x9b"
                      "31mb",
                      100),
            "a 31mb")
      << "CSI as one character";
  EXPECT_EQ(CleanText("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9f", 100),
            "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9f");
}

// A text cut within a character went into protobuf strings, which no peer could read any more.
TEST(CleanTextTest, CharactersAreNeverCut) {
  for (const std::string character : {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x90\x9f"}) {
    for (std::size_t fits = 0; fits <= character.size(); ++fits) {
      const std::string text = std::string(10, 'x') + character;
      EXPECT_EQ(CleanText(text, 10 + fits), fits == character.size() ? text : std::string(10, 'x'));
    }
  }
}

TEST(CleanTextTest, WhatIsNoUtf8BecomesQuestionMarks) {
  EXPECT_EQ(CleanText("\xff\xfe", 100), "??");
  EXPECT_EQ(CleanText("\xc3", 100), "?");
  EXPECT_EQ(CleanText("\xc0\xaf", 100), "??") << "longer than needed";
  EXPECT_EQ(CleanText("\xed\xa0\x80", 100), "???") << "a surrogate";
  EXPECT_EQ(CleanText("\xf4\x90\x80\x80", 100), "????") << "above U+10FFFF";
  EXPECT_EQ(CleanText("\xe2\x82x", 100), "??x");
}

}  // namespace
}  // namespace shoal
