#include "dataset/word_splitter.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "common/file.h"
#include "tests/unit/dataset/test_paths.h"

namespace shoal::dataset {
namespace {

std::vector<std::string> Split(std::string_view text) {
  auto pattern = WordPattern::Compile();
  EXPECT_TRUE(pattern.ok());
  WordSplitter splitter(*pattern);
  splitter.Start(text);
  std::vector<std::string> words;
  for (std::string_view word; splitter.Next(&word);) words.emplace_back(word);
  return words;
}

using Words = std::vector<std::string>;

TEST(WordSplitter, SplitsAsGpt2) {
  EXPECT_EQ(Split(""), Words{});
  EXPECT_EQ(Split("Hello  world"), (Words{"Hello", " ", " world"}));
  EXPECT_EQ(Split("a\n\n\nb"), (Words{"a", "\n\n", "\n", "b"}));
  EXPECT_EQ(Split("a \n"), (Words{"a", " \n"}));
  EXPECT_EQ(Split(" \n x"), (Words{" \n", " x"}));
  EXPECT_EQ(Split("we'll 'tis 'S"), (Words{"we", "'ll", " '", "tis", " '", "S"}));
  EXPECT_EQ(Split("x12 34!?a"), (Words{"x", "12", " 34", "!?", "a"}));
  // No-break space, ideographic space and next line are white space; U+180E is not.
  EXPECT_EQ(Split("a\xc2\xa0\xe3\x80\x80z"), (Words{"a", "\xc2\xa0", "\xe3\x80\x80", "z"}));
  EXPECT_EQ(Split("a\xc2\x85z"), (Words{"a", "\xc2\x85", "z"}));
  EXPECT_EQ(Split("a\xe1\xa0\x8ez"), (Words{"a", "\xe1\xa0\x8e", "z"}));
  EXPECT_EQ(Split(std::string("a\0b", 3)), (Words{"a", std::string(1, '\0'), "b"}));
}

TEST(WordSplitter, IllFormedBytesStandAlone) {
  EXPECT_EQ(Split("ab\xff\xfe cd"), (Words{"ab", "\xff", "\xfe", " cd"}));
  EXPECT_EQ(Split("x  \x80y"), (Words{"x", "  ", "\x80", "y"}));
  // A surrogate, an overlong form, a character beyond Unicode, a character cut short.
  for (const std::string bad : {"\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80", "\xe6\x97"}) {
    const Words words = Split("a" + bad);
    EXPECT_EQ(words.size(), bad.size() + 1);
  }
}

TEST(Utf8Length, KnowsWellFormedCharacters) {
  EXPECT_EQ(Utf8Length(""), 0U);
  EXPECT_EQ(Utf8Length(std::string_view("\0", 1)), 1U);
  EXPECT_EQ(Utf8Length("\x7f"), 1U);
  EXPECT_EQ(Utf8Length("\xc2\x80"), 2U);
  EXPECT_EQ(Utf8Length("\xe0\xa0\x80"), 3U);
  EXPECT_EQ(Utf8Length("\xed\x9f\xbf"), 3U);
  EXPECT_EQ(Utf8Length("\xee\x80\x80"), 3U);
  EXPECT_EQ(Utf8Length("\xf0\x90\x80\x80"), 4U);
  EXPECT_EQ(Utf8Length("\xf4\x8f\xbf\xbf"), 4U);
  for (const char* bad : {"\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc2", "\xe1\x80", "\xc2 "}) {
    EXPECT_EQ(Utf8Length(bad), 0U) << bad;
  }
}

// What lets several threads share a text: at every break the halves give the words of the whole.
TEST(FindWordBreak, NeverChangesTheWords) {
  std::mt19937 random(1);
  const std::string kPieces[] = {" ",  "\n", "a",    "bc",       "'",  "'s", "5",
                                 "\t", "!",  "\xc3", "\xc3\xa9", "\r", "  ", "\xe3\x80\x80"};
  int breaks = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (std::size_t i = random() % 30; i > 0; --i) {
      text += kPieces[random() % (round % 2 == 0 ? 5 : std::size(kPieces))];
    }
    const Words whole = Split(text);
    for (std::size_t p = 0; (p = FindWordBreak(text, p)) < text.size(); ++p) {
      Words halves = Split(text.substr(0, p));
      for (std::string& word : Split(text.substr(p))) halves.push_back(std::move(word));
      ASSERT_EQ(halves, whole) << text << " at " << p;
      ++breaks;
    }
  }
  EXPECT_GT(breaks, 1000);
}

TEST(FindWordBreak, FindsBreaksInProse) {
  const auto text = ReadFile(Shakespeare(), 1 << 24);
  ASSERT_TRUE(text.ok());
  for (std::size_t from = 0; from + 1000 < text->size(); from += 997) {
    const std::size_t p = FindWordBreak(*text, from);
    EXPECT_GE(p, from);
    EXPECT_LT(p, from + 200);
  }
  EXPECT_EQ(FindWordBreak("", 0), 0U);
  EXPECT_EQ(FindWordBreak("abc", 7), 3U);
  EXPECT_EQ(FindWordBreak("a b", 0), 3U);  // not before place 2
}

}  // namespace
}  // namespace shoal::dataset
