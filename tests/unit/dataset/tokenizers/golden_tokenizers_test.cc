// Ids of Hugging Face's `tokenizers` and of SentencePiece (tests/models/make_tokenizers.py,
// shared data): tokenizers in the manner of every family.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>

#include "common/file.h"
#include "dataset/sha256.h"
#include "dataset/tokenizer.h"
#include "tests/unit/dataset/test_paths.h"
#include "tests/unit/dataset/tokenizer_checks.h"

namespace shoal::dataset {
namespace {

using Json = nlohmann::json;

std::string Folder() { return Environment("SHOAL_TEST_DATA") + "/tokenizers"; }

// Calls `check` with each object of a file of lines.
template <typename Check>
void ForEachLine(const std::string& path, Check check) {
  std::istringstream lines(Read(path));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) check(Json::parse(line));
  EXPECT_GT(count, 50);
}

class GoldenTokenizers : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenTokenizers, GiveTheIdsAndTextsOfHuggingFace) {
  const std::string folder = Folder() + "/" + GetParam();
  const auto tokenizer = Load(folder);
  ASSERT_NE(tokenizer, nullptr);
  ForEachLine(folder + "/vectors.jsonl", [&](const Json& vector) {
    EXPECT_EQ(Encode(*tokenizer, vector["text"].get<std::string>()), vector["ids"].get<Ids>())
        << vector.dump();
    const auto decoded = tokenizer->Decode(vector["ids"].get<Ids>());
    ASSERT_TRUE(decoded.ok());
    // There a piece of a character is U+FFFD; here it is its byte. SentencePiece writes U+2047 for
    // what is unknown.
    const auto wanted = vector["decoded"].get<std::string>();
    if (wanted.find("\xef\xbf\xbd") == std::string::npos &&
        wanted.find("\xe2\x81\x87") == std::string::npos) {
      EXPECT_EQ(*decoded, wanted) << vector.dump();
    }
  });
}

TEST_P(GoldenTokenizers, GiveTheIdsOfAWholeFile) {
  const Json expected = Json::parse(Read(Folder() + "/index.json"))[GetParam()];
  const auto tokenizer = Load(Folder() + "/" + GetParam());
  ASSERT_NE(tokenizer, nullptr);
  const Ids ids = Encode(*tokenizer, Read(Shakespeare()));
  EXPECT_EQ(ids.size(), expected["tokens"].get<std::size_t>());
  EXPECT_EQ(HashOf(ids), expected["sha256"].get<std::string>());
}

TEST_P(GoldenTokenizers, WrapATextAsThere) {
  const Json expected = Json::parse(Read(Folder() + "/index.json"))[GetParam()];
  const auto tokenizer = Load(Folder() + "/" + GetParam());
  ASSERT_NE(tokenizer, nullptr);
  Ids wrapped = tokenizer->wrapping().before;
  for (const Ids& more : {Encode(*tokenizer, "a"), tokenizer->wrapping().behind}) {
    wrapped.insert(wrapped.end(), more.begin(), more.end());
  }
  EXPECT_EQ(wrapped, expected["around_a"].get<Ids>());
}

TEST_P(GoldenTokenizers, WrapTwoTextsAsThere) {
  const Json expected = Json::parse(Read(Folder() + "/index.json"))[GetParam()];
  const auto tokenizer = Load(Folder() + "/" + GetParam());
  ASSERT_NE(tokenizer, nullptr);
  const std::optional<PairWrapping>& pair = tokenizer->wrapping().pair;
  const std::set<std::string> known = {"bert",   "bert_cased", "deberta", "deberta_spm", "gemma",
                                       "llama2", "llama3",     "mistral", "roberta"};
  ASSERT_EQ(pair.has_value(), known.contains(GetParam()));
  if (!pair) return;  // nothing stands between two texts, or nobody says what
  Ids wrapped = pair->before;
  for (const Ids& more :
       {Encode(*tokenizer, "a"), pair->between, Encode(*tokenizer, "b c"), pair->behind}) {
    wrapped.insert(wrapped.end(), more.begin(), more.end());
  }
  EXPECT_EQ(wrapped, expected["around_pair"].get<Ids>());
  Ids types(wrapped.size(), 0);
  ASSERT_NE(pair->types, PairTypes::kOther);
  if (pair->types == PairTypes::kTwo) {
    const std::size_t first = pair->before.size() + Encode(*tokenizer, "a").size();
    std::fill(types.begin() + static_cast<std::ptrdiff_t>(first + pair->first_type), types.end(),
              1);
  }
  EXPECT_EQ(types, expected["pair_types"].get<Ids>());
}

// Wherever a text may be cut, the halves give the ids of the whole.
TEST_P(GoldenTokenizers, CutWhereItMakesNoDifference) {
  const auto tokenizer = Load(Folder() + "/" + GetParam());
  ASSERT_NE(tokenizer, nullptr);
  const std::string all = Read(Shakespeare());
  std::mt19937 random(5);
  int cuts = 0;
  for (int round = 0; round < 100; ++round) {
    std::string text = all.substr(random() % (all.size() - 500), 400);
    for (const char* odd : {"e\xcc\x81 e", "  x", " \n\ny", "<s> a", "\xff b"}) {
      text.insert(random() % text.size(), odd);
    }
    const std::size_t cut = tokenizer->FindBreak(text, random() % text.size());
    ASSERT_LE(cut, text.size());
    if (cut == text.size()) continue;
    ++cuts;
    Ids halves = Encode(*tokenizer, std::string_view(text).substr(0, cut));
    for (const std::int32_t id : Encode(*tokenizer, std::string_view(text).substr(cut))) {
      halves.push_back(id);
    }
    EXPECT_EQ(halves, Encode(*tokenizer, text)) << text;
  }
  // These know no place: a prefix for every text, patterns that nobody looked at.
  const bool cuts_nowhere = GetParam() == "llama2" || GetParam() == "deepseek" ||
                            GetParam() == "deberta" || GetParam() == "o200k" ||
                            GetParam() == "mixed" || GetParam() == "words" || GetParam() == "gemma";
  EXPECT_EQ(cuts > 50, !cuts_nowhere) << cuts;
}

// A text that is written token by token, or in two pieces, is the text of all.
TEST_P(GoldenTokenizers, DecodeInPieces) {
  const auto tokenizer = Load(Folder() + "/" + GetParam());
  ASSERT_NE(tokenizer, nullptr);
  const Ids ids = Encode(*tokenizer, "The king's  horse, and my lord!");
  ASSERT_GT(ids.size(), 5U);
  const std::string all = *tokenizer->Decode(ids);
  std::string written;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    written += *DecodeBehind(*tokenizer, std::span(ids).first(i + 1), i);
    EXPECT_EQ(*tokenizer->Decode(std::span(ids).first(i)) + *DecodeBehind(*tokenizer, ids, i), all);
  }
  EXPECT_EQ(written, all);
}

TEST_P(GoldenTokenizers, TakeAnyBytes) {
  const auto tokenizer = Load(Folder() + "/" + GetParam());
  ASSERT_NE(tokenizer, nullptr);
  std::mt19937 random(6);
  const bool bytes_come_back = GetParam() == "llama3" || GetParam() == "o200k" ||
                               GetParam() == "deepseek" || GetParam() == "smollm";
  for (int round = 0; round < 100; ++round) {
    std::string bytes(random() % 80, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const auto decoded = tokenizer->Decode(Encode(*tokenizer, bytes));
    ASSERT_TRUE(decoded.ok());
    if (bytes_come_back) {
      EXPECT_EQ(*decoded, bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenTokenizers,
                         ::testing::Values("bert", "bert_cased", "deberta", "deberta_spm",
                                           "deepseek", "gemma", "llama2", "llama3", "mistral",
                                           "mixed", "o200k", "qwen", "roberta", "smollm",
                                           "unigram_bytes", "words"),
                         [](const auto& family) { return family.param; });

TEST(GoldenTokenizers, HaveFingerprintsOfTheirOwn) {
  std::map<std::string, std::string> seen;
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    if (!entry.is_directory()) continue;
    const auto tokenizer = Load(entry.path());
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_TRUE(seen.emplace(tokenizer->fingerprint(), entry.path()).second) << entry.path();
  }
  EXPECT_EQ(seen.size(), 16U);
  // A setting that gives other ids gives another fingerprint.
  TemporaryFolder folder;
  Json json = Json::parse(Read(Folder() + "/llama3/tokenizer.json"));
  json["model"]["ignore_merges"] = false;
  ASSERT_TRUE(WriteFileAtomic(folder / "tokenizer.json", json.dump()).ok());
  const auto changed = Load(folder.path());
  ASSERT_NE(changed, nullptr);
  EXPECT_EQ(seen.count(changed->fingerprint()), 0U);
}

std::string SharedModels() { return Environment("SHOAL_SHARED_DATA") + "/sentencepiece"; }

TEST(SentencePieceTokenizer, GivesTheIdsOfTheLibrary) {
  if (!std::filesystem::exists(SharedModels())) GTEST_SKIP() << "no shared data";
  for (const char* name : {"test_model", "tiny_llama_style_512"}) {
    TemporaryFolder folder;
    std::filesystem::copy_file(SharedModels() + "/" + name + ".model", folder / "tokenizer.model");
    const auto tokenizer = Load(folder.path());
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(tokenizer->wrapping().before, Ids{1});
    EXPECT_EQ(tokenizer->end_of_text(), 2);
    ForEachLine(SharedModels() + "/" + name + ".vectors.jsonl", [&](const Json& vector) {
      const auto ids = vector["ids"].get<Ids>();
      EXPECT_EQ(Encode(*tokenizer, vector["text"].get<std::string>()), ids) << vector.dump();
      if (std::string_view(name) == "test_model") return;  // has no bytes for odd characters
      const auto decoded = tokenizer->Decode(ids);
      ASSERT_TRUE(decoded.ok());
      EXPECT_EQ(*decoded, vector["decoded"].get<std::string>()) << vector.dump();
    });
  }
}

// Whole files, by the Python package of the library.
TEST(SentencePieceTokenizer, GivesTheIdsOfWholeFiles) {
  if (!std::filesystem::exists(SharedModels())) GTEST_SKIP() << "no shared data";
  const struct {
    const char* model;
    std::string text;
    std::size_t tokens;
    const char* sha256;
  } files[] = {
      {"test_model", Shakespeare(), 542180,
       "e35eaa77290630ed8734c220c9287d9c4057652d30950aae58f29ea7a8f10030"},
      {"test_model", SharedModels() + "/botchan.txt", 104466,
       "61ecd789c93169e14cbd2aeb6eca7af52d225d78db8adc9a7770a0899112c73d"},
      {"tiny_llama_style_512", Shakespeare(), 620474,
       "53504f5cbcd261abe56c2d3fac662b19231f707cba4ed80145db084e5807824b"},
      {"tiny_llama_style_512", SharedModels() + "/botchan.txt", 151988,
       "d10f38113592ce75b03e0dc2a0717bfb91485fe2a26ed89a04c5a6141fcb68d9"},
  };
  for (const auto& [model, text, tokens, sha256] : files) {
    TemporaryFolder folder;
    std::filesystem::copy_file(SharedModels() + "/" + model + ".model", folder / "tokenizer.model");
    const auto tokenizer = Load(folder.path());
    ASSERT_NE(tokenizer, nullptr);
    const Ids ids = Encode(*tokenizer, Read(text));
    EXPECT_EQ(ids.size(), tokens) << model << " " << text;
    EXPECT_EQ(HashOf(ids), sha256) << model << " " << text;
  }
}

TEST(SentencePieceTokenizer, FindsTheTokensOfTheFilesBeside) {
  if (!std::filesystem::exists(SharedModels())) GTEST_SKIP() << "no shared data";
  TemporaryFolder folder;
  std::filesystem::copy_file(SharedModels() + "/tiny_llama_style_512.model",
                             folder / "tokenizer.model");
  const Json config = {{"add_bos_token", false},
                       {"add_eos_token", true},
                       {"eos_token", "</s>"},
                       {"added_tokens_decoder", {{"512", {{"content", "<|im_end|>"}}}}}};
  ASSERT_TRUE(WriteFileAtomic(folder / "tokenizer_config.json", config.dump()).ok());
  const auto tokenizer = Load(folder.path());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocabulary(), 513U);
  EXPECT_EQ(tokenizer->wrapping().before, Ids{});
  EXPECT_EQ(tokenizer->wrapping().behind, Ids{2});
  Ids expected = Encode(*tokenizer, "the king");
  expected.push_back(512);
  expected.push_back(2);
  EXPECT_EQ(Encode(*tokenizer, "the king<|im_end|></s>"), expected);
}

TEST(SentencePieceTokenizer, OfDebertaIsRefusedWhereTextsAreChangedBefore) {
  for (const char* key : {"do_lower_case", "split_by_punct"}) {
    TemporaryFolder folder;
    std::filesystem::copy_file(Folder() + "/deberta_spm/spm.model", folder / "spm.model");
    ASSERT_TRUE(WriteFileAtomic(folder / "tokenizer_config.json", Json({{key, true}}).dump()).ok());
    EXPECT_THAT(LoadTokenizer(folder.path()).status().message(), ::testing::HasSubstr(key));
  }
}

TEST(SentencePieceTokenizer, RefusesADamagedModel) {
  TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomic(folder / "tokenizer.model", "\x0a\x05hello").ok());
  const auto tokenizer = LoadTokenizer(folder.path());
  EXPECT_THAT(tokenizer.status().message(), ::testing::HasSubstr("no SentencePiece model"));
}

}  // namespace
}  // namespace shoal::dataset
