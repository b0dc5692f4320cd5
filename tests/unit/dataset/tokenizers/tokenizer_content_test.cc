#include "dataset/tokenizer_content.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "common/file.h"
#include "dataset/tokenizer.h"
#include "tests/support/temporary_folder.h"

namespace shoal::dataset {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string Folder(const std::string& name) {
  return std::string(std::getenv("SHOAL_TEST_DATA")) + "/tokenizers/" + name;
}

json FileOf(const std::string& name) {
  return json::parse(ReadFile(Folder(name) + "/tokenizer.json", 64 << 20).value());
}

Result<TokenizerContent> ContentOf(const json& file, const std::string& config = "") {
  const test_support::TemporaryFolder folder;
  EXPECT_TRUE(WriteFileAtomic(folder / "tokenizer.json", file.dump()).ok());
  if (!config.empty()) {
    EXPECT_TRUE(WriteFileAtomic(folder / "tokenizer_config.json", config).ok());
  }
  return LoadTokenizerContent(folder.path());
}

std::string ErrorOf(const json& file) { return ContentOf(file).status().message(); }

// <unk> <s> </s>, bytes, then pieces; scores are given by the order of merges.
json SmallPieces() {
  json vocabulary = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary[std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">"] = 3 + byte;
  }
  int id = 259;
  for (const char* piece : {"\xe2\x96\x81", "a", "b", "ab",
                            "\xe2\x96\x81"
                            "ab",
                            "aba"}) {
    vocabulary[piece] = id++;
  }
  return {
      {"model",
       {{"type", "BPE"},
        {"vocab", vocabulary},
        {"merges", {"a b", "\xe2\x96\x81 ab", "ab a"}},
        {"unk_token", "<unk>"},
        {"byte_fallback", true},
        {"fuse_unk", true}}},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "Prepend"}, {"prepend", "\xe2\x96\x81"}},
          {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\xe2\x96\x81"}}}}}},
      {"decoder", {{"type", "ByteFallback"}}}};
}

TEST(TokenizerContent, WordsHaveLlamaCppsNames) {
  const std::map<std::string, std::string> names = {
      {"llama3", "llama-bpe"}, {"qwen", "qwen2"}, {"smollm", "smollm"}, {"o200k", "gpt-4o"}};
  for (const auto& [folder, name] : names) {
    const auto content = LoadTokenizerContent(Folder(folder));
    ASSERT_TRUE(content.ok()) << content.status().ToString();
    EXPECT_EQ(content->words, name);
    EXPECT_EQ(content->model, "gpt2");
    const json file = FileOf(folder);
    ASSERT_EQ(content->merges.size(), file["model"]["merges"].size());
    for (const std::size_t i : {std::size_t{0}, content->merges.size() - 1}) {
      const json& merge = file["model"]["merges"][i];
      EXPECT_EQ(content->merges[i],
                merge.is_array() ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
                                 : merge.get<std::string>());
    }
    for (const auto& [token, id] : file["model"]["vocab"].items()) {
      EXPECT_EQ(content->tokens.at(id.get<std::size_t>()), token);
    }
    EXPECT_EQ(content->kinds.size(), content->tokens.size());
    EXPECT_TRUE(content->scores.empty());
  }
  const auto gpt2 =
      LoadTokenizerContent(std::string(std::getenv("SHOAL_SOURCE_DIR")) + "/examples/tiny-gpt2");
  ASSERT_TRUE(gpt2.ok()) << gpt2.status().ToString();
  EXPECT_EQ(gpt2->words, "gpt-2");
}

TEST(TokenizerContent, Llama3WithoutWholeWordsIsAnotherRule) {
  json file = FileOf("llama3");
  file["model"]["ignore_merges"] = false;
  EXPECT_EQ(ContentOf(file)->words, "dbrx");
}

TEST(TokenizerContent, RulesThatLlamaCppLacksAreNamed) {
  EXPECT_THAT(LoadTokenizerContent(Folder("deepseek")).status().message(),
              HasSubstr("pre_tokenizer is \"Split\" and more"));
  EXPECT_THAT(LoadTokenizerContent(Folder("roberta")).status().message(),
              HasSubstr("add_prefix_space"));
  EXPECT_THAT(LoadTokenizerContent(Folder("bert")).status().message(), HasSubstr("WordPiece"));
  EXPECT_THAT(LoadTokenizerContent(Folder("unigram_bytes")).status().message(),
              HasSubstr("Unigram"));
  EXPECT_THAT(LoadTokenizerContent(Folder("mixed")).status().message(), HasSubstr("byte_fallback"));
  // Trained as byte pairs, not by SentencePiece.
  EXPECT_THAT(LoadTokenizerContent(Folder("llama2")).status().message(),
              HasSubstr("merges are not those of a SentencePiece model"));
  json file = FileOf("qwen");
  file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\p{L}+";
  EXPECT_THAT(ErrorOf(file), HasSubstr("pre_tokenizer is \"\\\\p{L}+\""));
  file = FileOf("qwen");
  file["normalizer"] = {{"type", "NFKC"}};
  EXPECT_THAT(ErrorOf(file), HasSubstr("normalizer is \"NFKC\""));
  file = FileOf("qwen");
  file["model"]["ignore_merges"] = true;
  EXPECT_THAT(ErrorOf(file), HasSubstr("ignore_merges"));
  const test_support::TemporaryFolder empty;
  EXPECT_THAT(LoadTokenizerContent(empty.path()).status().message(), HasSubstr("no tokenizer in"));
  EXPECT_THAT(LoadTokenizerContent(empty / "none").status().message(),
              HasSubstr("there is no folder '" + empty / "none" + "'"));
  EXPECT_FALSE(HasTokenizer(empty.path()) || HasTokenizer(empty / "none"));
  for (const char* name : {"qwen", "llama2"}) EXPECT_TRUE(HasTokenizer(Folder(name))) << name;
}

// Null is as good as nothing to the parser of tokenizer.json.
TEST(TokenizerContent, NullFieldsAreThoseThatLack) {
  json file = FileOf("qwen");
  json& steps = file["pre_tokenizer"]["pretokenizers"];
  steps[0]["invert"] = nullptr;
  steps[0]["behavior"] = nullptr;
  EXPECT_EQ(ContentOf(file)->words, "qwen2");
  steps[1]["add_prefix_space"] = nullptr;  // true
  EXPECT_THAT(ErrorOf(file), HasSubstr("add_prefix_space"));
  file = SmallPieces();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "Metaspace"},
                           {"replacement", "\xe2\x96\x81"},
                           {"split", false},
                           {"prepend_scheme", nullptr},
                           {"add_prefix_space", false}};
  EXPECT_FALSE(ContentOf(file)->prefix_space);
  file["pre_tokenizer"]["prepend_scheme"] = "first";
  EXPECT_TRUE(ContentOf(file)->prefix_space);
}

TEST(TokenizerContent, SpecialTokensAndWrapping) {
  const auto content =
      ContentOf(FileOf("llama3"), R"({"eos_token":"<|eot_id|>","chat_template":"{{ messages }}",
                            "added_tokens_decoder":{"702":{"content":"<|eot_id|>"}}})");
  ASSERT_TRUE(content.ok()) << content.status().ToString();
  EXPECT_EQ(content->begin, 700);
  EXPECT_TRUE(content->add_begin);
  EXPECT_EQ(content->end, 702);
  EXPECT_FALSE(content->add_end);
  EXPECT_EQ(content->kinds[701], TokenKind::kControl);
  EXPECT_EQ(content->chat_template, "{{ messages }}");
  json file = FileOf("llama3");
  file["added_tokens"][1]["special"] = false;
  EXPECT_EQ(ContentOf(file)->kinds[701], TokenKind::kUserDefined);
}

TEST(TokenizerContent, MergesOfSentencePieceBecomeScores) {
  const auto content = ContentOf(SmallPieces(), R"({"bos_token":"<s>","eos_token":"</s>"})");
  ASSERT_TRUE(content.ok()) << content.status().ToString();
  EXPECT_EQ(content->model, "llama");
  EXPECT_EQ(content->words, "default");
  EXPECT_TRUE(content->prefix_space);
  EXPECT_TRUE(content->merges.empty());
  EXPECT_EQ(content->begin, 1);
  EXPECT_EQ(content->unknown, 0);
  EXPECT_EQ(content->kinds[0], TokenKind::kUnknown);
  EXPECT_EQ(content->kinds[1], TokenKind::kControl);
  EXPECT_EQ(content->kinds[3], TokenKind::kByte);
  EXPECT_EQ(content->kinds[262], TokenKind::kNormal);
  EXPECT_GT(content->scores[262], content->scores[263]);
  EXPECT_GT(content->scores[263], content->scores[264]);
  EXPECT_GT(content->scores[264], content->scores[260]);  // which no merge makes
}

TEST(TokenizerContent, OtherMergesAreNotScores) {
  json file = SmallPieces();
  file["model"]["vocab"]["ba"] = 265;
  file["model"]["merges"].push_back("b a");
  // "aba" is "a" and "ba", too: SentencePiece would merge them.
  EXPECT_THAT(ErrorOf(file), HasSubstr("put the model's tokenizer.model beside"));
  file["model"]["merges"].push_back("a ba");
  EXPECT_THAT(ErrorOf(file), HasSubstr("merges"));  // not side by side with "ab a"
  file["model"]["merges"] = {"a b", "\xe2\x96\x81 ab", "ab a", "a ba", "b a"};
  EXPECT_TRUE(ContentOf(file).ok());
  file["normalizer"] = {{"type", "NFC"}};
  EXPECT_THAT(ErrorOf(file), HasSubstr("normalizer and pre_tokenizer"));
}

}  // namespace
}  // namespace shoal::dataset
