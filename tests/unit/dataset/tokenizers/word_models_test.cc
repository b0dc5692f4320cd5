#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "dataset/tokenizers/bpe_words.h"
#include "dataset/tokenizers/unigram_words.h"
#include "dataset/tokenizers/wordpiece_words.h"

namespace shoal::dataset {
namespace {

using Ids = std::vector<std::int32_t>;
using Names = std::vector<std::string>;

Ids Encode(const WordModel& model, std::string_view word) {
  Ids ids;
  model.Encode(word, &ids);
  return ids;
}

std::string RandomWord(std::mt19937& random, std::size_t most) {
  std::string word;
  for (std::size_t i = random() % most + 1; i > 0; --i) word.push_back("abcx"[random() % 4]);
  return word;
}

// All ways to cut a word into names, the largest sum of scores; -inf: there is none.
double BestSum(const Names& names, const std::vector<double>& scores, std::string_view word) {
  if (word.empty()) return 0;
  double best = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!word.starts_with(names[i])) continue;
    best = std::max(best, scores[i] + BestSum(names, scores, word.substr(names[i].size())));
  }
  return best;
}

TEST(UnigramWords, FindsTheLargestSum) {
  const Names names = {"<unk>", "a", "b", "c", "ab", "bc", "abc", "ca", "aa", "bca"};
  UnigramModel model;
  model.scores = {0, -2.1, -2.3, -2.7, -3.3, -3.9, -5.2, -4.4, -3.1, -6.6};
  model.unknown = 0;
  const auto words = NewUnigramWords(model, names);
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string word = RandomWord(random, 12);
    std::erase(word, 'x');
    if (word.empty()) continue;
    double sum = 0;
    std::string joined;
    for (const std::int32_t id : Encode(*words, word)) {
      sum += model.scores[static_cast<std::size_t>(id)];
      joined += names[static_cast<std::size_t>(id)];
    }
    EXPECT_EQ(joined, word);
    EXPECT_NEAR(sum, BestSum(names, model.scores, word), 1e-12) << word;
  }
}

TEST(UnigramWords, UnknownCharactersAreOneTokenOrBytes) {
  const Names names = {"<unk>", "a", "<0xC3>", "<0xA9>"};
  UnigramModel model;
  model.scores = {0, -1, -9, -9};
  model.unknown = 0;
  model.byte_ids.fill(-1);
  EXPECT_EQ(Encode(*NewUnigramWords(model, names), "axx\xc3\xa9"), (Ids{1, 0}));
  model.byte_fallback = true;
  model.byte_ids[0xc3] = 2;
  model.byte_ids[0xa9] = 3;
  const auto words = NewUnigramWords(model, names);
  EXPECT_EQ(Encode(*words, "a\xc3\xa9"), (Ids{1, 2, 3}));
  EXPECT_EQ(Encode(*words, "a\xc3\xa9x"), (Ids{1, 0}));  // x has no byte: all of it is unknown
}

TEST(WordPieceWords, TakesTheLongestFromTheLeft) {
  const Names names = {"[UNK]", "ab", "abc", "##x", "##xa", "a", "##b", "b"};
  WordPieceModel model;
  const auto words = NewWordPieceWords(model, names);
  EXPECT_EQ(Encode(*words, "abcx"), (Ids{2, 3}));
  EXPECT_EQ(Encode(*words, "abxa"), (Ids{1, 4}));
  EXPECT_EQ(Encode(*words, "abxab"), (Ids{1, 4, 6}));
  EXPECT_EQ(Encode(*words, "abca"), (Ids{0}));  // ab, then nothing begins with c
  EXPECT_EQ(Encode(*words, "xa"), (Ids{0}));
  EXPECT_EQ(Encode(*words, std::string(100, 'b')), [] {
    Ids ids = {7};
    ids.resize(100, 6);
    return ids;
  }());
  EXPECT_EQ(Encode(*words, std::string(101, 'b')), (Ids{0}));
}

BpeModel CharacterModel() {
  BpeModel model;
  model.byte_level = false;
  model.byte_ids.fill(-1);
  model.unknown = 0;
  model.merges = {{1, 2, 4}, {4, 3, 5}};  // a b, ab c
  return model;
}
const Names kNames = {"<unk>", "a", "b", "c", "ab", "abc", "<0xC3>", "<0xA9>", "whole"};

TEST(BpeWords, CharactersWithoutTokenAreUnknownOrBytes) {
  BpeModel model = CharacterModel();
  EXPECT_EQ(Encode(*NewBpeWords(model, kNames), "abcxxab"), (Ids{5, 0, 0, 4}));
  model.fuse_unknown = true;
  EXPECT_EQ(Encode(*NewBpeWords(model, kNames), "abcxxab"), (Ids{5, 0, 4}));
  model.byte_fallback = true;
  model.byte_ids[0xc3] = 6;
  model.byte_ids[0xa9] = 7;
  EXPECT_EQ(Encode(*NewBpeWords(model, kNames), "a\xc3\xa9xb"), (Ids{1, 6, 7, 0, 2}));
  model.unknown.reset();
  EXPECT_EQ(Encode(*NewBpeWords(model, kNames), "axb"), (Ids{4}));  // x is left out
}

TEST(BpeWords, AWholeWordIsNotMerged) {
  BpeModel model = CharacterModel();
  EXPECT_EQ(Encode(*NewBpeWords(model, kNames), "whole").size(), 5U);
  model.whole_words = true;
  EXPECT_EQ(Encode(*NewBpeWords(model, kNames), "whole"), (Ids{8}));
}

TEST(WordModel, KnowsWhetherALetterOnlyBeginsTokens) {
  BpeModel model = CharacterModel();
  EXPECT_TRUE(NewBpeWords(model, kNames)->OnlyBegins("a"));
  EXPECT_FALSE(NewBpeWords(model, kNames)->OnlyBegins("b"));
  EXPECT_FALSE(NewBpeWords(model, kNames)->OnlyBegins("z"));  // no token: it may be unknown
  EXPECT_FALSE(StandsBehind("__", "____x"));
  EXPECT_TRUE(StandsBehind("__", "__x__"));
}

}  // namespace
}  // namespace shoal::dataset
