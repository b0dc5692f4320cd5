#include "dataset/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "common/file.h"
#include "dataset/text_reader.h"
#include "dataset/tokenizer.h"
#include "dataset/tokenizer_config.h"
#include "dataset/tokenizers/tokenizer_files.h"
#include "tests/unit/dataset/test_paths.h"

namespace shoal::dataset {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;
using Json = nlohmann::json;

std::string Source(const char* name) { return TinyGpt2() + "/" + name; }

Json TinyGpt2Json() {
  return Json::parse(ReadFile(Source("tokenizer.json"), std::uint64_t{1} << 30).value());
}

Json Token(int id, const char* content, const char* flags) {
  Json token = {{"id", id}, {"content", content}};
  for (const char* flag : {"special", "single_word", "lstrip", "rstrip", "normalized"}) {
    token[flag] = std::string_view(flags).find(flag) != std::string_view::npos;
  }
  return token;
}

Json WithTokens() {
  Json json = TinyGpt2Json();
  for (const Json& token :
       {Token(1024, "<|im_start|>", "special"), Token(1025, "<|im_end|>", "special rstrip"),
        Token(1026, "\xc3\xa9t\xc3\xa9", "normalized"),
        Token(1027, "foo", "normalized single_word"), Token(1028, "<mask>", "special lstrip"),
        Token(1029, "foobar", "")}) {
    json["added_tokens"].push_back(token);
  }
  return json;
}

class AddedTokensTest : public ::testing::Test {
 protected:
  void Write(const char* name, const std::string& bytes) {
    ASSERT_TRUE(WriteFileAtomic(folder_ / name, bytes).ok());
  }
  void CopyVocabulary() {
    for (const char* name : {"vocab.json", "merges.txt"}) {
      std::filesystem::copy_file(Source(name), folder_ / name);
    }
  }
  std::unique_ptr<Tokenizer> Load() {
    auto tokenizer = LoadTokenizer(folder_.path());
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    return tokenizer.ok() ? std::move(*tokenizer) : nullptr;
  }
  Ids Encode(std::string_view text) {
    Ids ids;
    if (const auto tokenizer = Load()) tokenizer->Encode(text, &ids);
    return ids;
  }
  std::string Refusal() { return LoadTokenizer(folder_.path()).status().message(); }

  TemporaryFolder folder_;
};

// Ids of `tokenizers` 0.23.3 for the same file.
TEST_F(AddedTokensTest, IdsAreThoseOfHuggingFace) {
  Write("tokenizer.json", WithTokens().dump());
  const std::pair<const char*, Ids> cases[] = {
      {"hello<|endoftext|>world", {258, 274, 79, 0, 87, 271, 313}},
      {"<|im_start|>user\nhi<|im_end|> \n there", {1024, 389, 273, 199, 373, 1025, 892, 265}},
      {"un \xc3\xa9t\xc3\xa9, \xc3\xa9t\xc3\xa9t\xc3\xa9",
       {611, 221, 1026, 12, 221, 1026, 84, 128, 103}},
      {"foo foot foobar xfoo _foo foo_ foo.",
       {1027, 691, 295, 221, 1029, 221, 88, 70, 333, 221, 63, 70, 333, 272, 333, 63, 221, 1027,
        14}},
      {"the \t<mask> word", {892, 1028, 709}},
      {"<|im_start", {28, 92, 319, 63, 296, 447}},
      {"<|im_end|>  <mask>", {1025, 1028}},
      {"a\xc2\xa0<mask>\xe3\x80\x80<|im_end|>\xe3\x80\x80\x62",
       {65, 1028, 160, 223, 223, 1025, 66}},
  };
  for (const auto& [text, ids] : cases) EXPECT_EQ(Encode(text), ids) << text;
}

TEST_F(AddedTokensTest, APrefixSpaceStandsBeforeEachPieceOfText) {
  Json json = WithTokens();
  json["pre_tokenizer"]["add_prefix_space"] = true;
  Write("tokenizer.json", json.dump());
  EXPECT_EQ(Encode("hello<|endoftext|>world"), (Ids{293, 274, 79, 0, 867}));
  EXPECT_EQ(Encode(" hello"), (Ids{293, 274, 79}));
  EXPECT_EQ(Encode("foo bar\nbaz"), (Ids{1027, 269, 285, 199, 66, 65, 90}));
  EXPECT_EQ(Encode("<|im_start|>"), (Ids{1024}));
  // tokenizer_config.json overrules, as in transformers.
  Write("tokenizer_config.json", R"({"add_prefix_space": false})");
  EXPECT_EQ(Encode("hello"), (Ids{258, 274, 79}));
  Write("tokenizer.json", WithTokens().dump());
  Write("tokenizer_config.json", R"({"add_prefix_space": true})");
  EXPECT_EQ(Encode("hello"), (Ids{293, 274, 79}));
  Write("tokenizer_config.json", R"({"add_prefix_space": "yes"})");
  EXPECT_THAT(Refusal(), HasSubstr("tokenizer_config.json: add_prefix_space is neither"));
}

TEST_F(AddedTokensTest, DecodeGivesTheirOwnLetters) {
  Write("tokenizer.json", WithTokens().dump());
  const auto tokenizer = Load();
  const std::string text = "<|im_start|>un \xc3\xa9t\xc3\xa9 foobar";
  EXPECT_EQ(tokenizer->Decode(Encode(text)).value(), text);
  // A byte's own token keeps its byte, whatever is added under its name.
  Json json = TinyGpt2Json();
  json["added_tokens"].push_back(
      Token(json["model"]["vocab"]["\xc3\xa9"].get<int>(), "\xc3\xa9", ""));
  const auto model = ParseTokenizerJson(json.dump());
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const auto id = static_cast<std::size_t>(std::get<BpeModel>(model->model).byte_ids[byte]);
    EXPECT_EQ(model->bytes[id], std::string(1, static_cast<char>(byte)));
  }
}

// ---- a slow reference: the rules of added_vocabulary.rs, for ASCII -----------------------------

bool IsWordByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool IsSpaceByte(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

using Pieces = std::vector<std::pair<std::string, std::int32_t>>;

void SlowSplit(const std::vector<AddedToken>& tokens, bool normalized, const std::string& text,
               Pieces* pieces) {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* found = nullptr;
    for (const AddedToken& token : tokens) {
      if (token.normalized != normalized || text.compare(at, token.content.size(), token.content)) {
        continue;
      }
      if (found == nullptr || token.content.size() > found->content.size()) found = &token;
    }
    if (found == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + found->content.size();
    at = end;
    const bool inside =
        (begin > 0 && IsWordByte(text[begin - 1])) || (end < text.size() && IsWordByte(text[end]));
    if (found->single_word && inside) continue;
    while (found->lstrip && begin > 0 && IsSpaceByte(text[begin - 1])) --begin;
    if (found->lstrip) begin = std::max(begin, done);
    while (found->rstrip && end < text.size() && IsSpaceByte(text[end])) ++end;
    if (begin >= end) continue;
    if (done < begin) pieces->emplace_back(text.substr(done, begin - done), -1);
    pieces->emplace_back(text.substr(begin, end - begin), found->id);
    done = end;
  }
  if (done < text.size()) pieces->emplace_back(text.substr(done), -1);
}

TEST(AddedTokens, SplitAsTheSlowReferenceDoes) {
  std::mt19937 random(7);
  const char* const words[] = {"a", "ab", "b c", "  ", "<|x|>", "<|", "_a", "\n", "abc", "c"};
  const auto draw = [&](std::size_t n) { return random() % n; };
  for (int round = 0; round < 300; ++round) {
    std::vector<AddedToken> tokens;
    for (std::size_t i = 0; i < std::size(words); ++i) {
      if (draw(2) == 0) continue;
      tokens.push_back({words[i], static_cast<std::int32_t>(i), draw(3) == 0, draw(3) == 0,
                        draw(3) == 0, draw(2) == 0});
    }
    const auto added = AddedTokens::New(tokens);
    ASSERT_TRUE(added.ok());
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (std::size_t n = draw(12); n > 0; --n) text += draw(3) ? words[draw(10)] : " ";
      Pieces raw, expected, got;
      SlowSplit(tokens, false, text, &raw);
      for (const auto& [piece, id] : raw) {
        if (id >= 0) {
          expected.emplace_back(piece, id);
        } else {
          SlowSplit(tokens, true, piece, &expected);
        }
      }
      for (const TextPiece& piece : (*added)->Split(text)) {
        got.emplace_back(std::string(piece.text), piece.id);
      }
      ASSERT_EQ(got, expected) << round << " '" << text << "'";
    }
  }
}

// ---- cutting texts ----------------------------------------------------------------------------

// A text is read in batches, cut at any length; ids are those of the whole.
TEST_F(AddedTokensTest, BatchesCutNoToken) {
  for (const bool prefix : {false, true}) {
    Json json = WithTokens();
    json["added_tokens"].push_back(Token(1030, "the sea", ""));
    json["added_tokens"].push_back(Token(1031, "end.\nNext", "normalized"));
    json["added_tokens"].push_back(Token(1032, "stop.", "rstrip"));
    json["added_tokens"].push_back(Token(1033, "Go", "lstrip"));
    json["pre_tokenizer"]["add_prefix_space"] = prefix;
    Write("tokenizer.json", json.dump());
    const auto tokenizer = Load();
    std::string text;
    for (int i = 0; i < 6; ++i) {
      text +=
          "by the sea a ship\nat the end.\nNext foo here<|im_end|> \nmany words stop.\nGo on "
          "<mask>foobar<|im_start|>user\nno more words\n";
    }
    Ids whole;
    tokenizer->Encode(text, &whole);
    Write("text", text);
    for (std::size_t target = 1; target < 300; ++target) {
      auto reader = TextReader::Open(folder_ / "text", *tokenizer);
      ASSERT_TRUE(reader.ok());
      Ids ids;
      Sha256 hash;
      std::size_t batches = 0;
      for (TextBatch batch;; ++batches) {
        ASSERT_TRUE(reader->Next(target, &batch, &hash).ok());
        if (batch.file_bytes == 0) break;
        for (const TextPart& part : batch.parts) tokenizer->Encode(part.text, &ids);
      }
      ASSERT_EQ(ids, whole) << target;
      EXPECT_GT(batches, 2U) << target;
    }
  }
}

// ---- the files ----------------------------------------------------------------------------------

TEST_F(AddedTokensTest, EndOfTextIsFoundWithoutATokenizerJson) {
  CopyVocabulary();
  EXPECT_EQ(Encode("hello<|endoftext|>world"), (Ids{258, 274, 79, 0, 87, 271, 313}));
}

TEST_F(AddedTokensTest, FilesBesideTheVocabularyAddTokens) {
  CopyVocabulary();
  Write("added_tokens.json", R"({"<|im_start|>": 1024, "<|im_end|>": 1025})");
  Write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"1026": {"content": "<tool>", "special": true, "rstrip": true},
            "0": {"content": "<|endoftext|>", "special": true}}, "pad_token": "the",
            "mask_token": {"content": "<mask>"}, "additional_special_tokens": ["th", 5]})");
  EXPECT_EQ(Encode("<|im_start|><|endoftext|><tool> the<|im_end|>"),
            (Ids{1024, 0, 1026, Encode("the")[0], 1025}));
  const auto tokenizer = Load();
  EXPECT_EQ(tokenizer->vocabulary(), 1027U);
  ASSERT_EQ(tokenizer->notes().size(), 1U);
  EXPECT_THAT(tokenizer->notes()[0], HasSubstr("\"<mask>\" is not in the vocabulary"));
}

TEST_F(AddedTokensTest, ForeignFilesAreChecked) {
  CopyVocabulary();
  const std::string longest(1024, 'x');
  const struct {
    const char* file;
    std::string text;
    const char* words;
  } cases[] = {
      {"added_tokens.json", "[]", "added_tokens.json: not a JSON object"},
      {"added_tokens.json", R"({"<a>": 1.5})", "not a whole number"},
      {"added_tokens.json", R"({"<a>": 1025})", "the vocabulary ends at 1024"},
      {"added_tokens.json", R"({"the": 5})", "two ids"},
      {"added_tokens.json", R"({")" + longest + R"(y": 1024})", "1024 are the most"},
      {"tokenizer_config.json", "{", "tokenizer_config.json: not a JSON object"},
      {"tokenizer_config.json", R"({"added_tokens_decoder": 5})", "is not an object"},
      {"tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "a"}}})",
       "not a whole number"},
      {"tokenizer_config.json", R"({"added_tokens_decoder": {"1": {}}})", "has no content"},
      {"tokenizer_config.json", std::string(100000, '['), "not a JSON object"},
  };
  for (const auto& [file, text, words] : cases) {
    Write(file, text);
    EXPECT_THAT(Refusal(), HasSubstr(words)) << text.substr(0, 60);
    std::filesystem::remove(folder_ / file);
  }
  Write("added_tokens.json", R"({")" + longest + R"(": 1024})");
  EXPECT_EQ(Encode(longest), (Ids{1024}));
}

TEST_F(AddedTokensTest, TruncationAndPaddingAreNotLeftOutInSilence) {
  Json json = TinyGpt2Json();
  json["truncation"] = {{"max_length", 4}};
  json["padding"] = {{"length", 9}};
  Write("tokenizer.json", json.dump());
  const auto tokenizer = Load();
  ASSERT_EQ(tokenizer->notes().size(), 2U);
  EXPECT_THAT(tokenizer->notes()[0], HasSubstr("\"truncation\" is not applied: rows are cut"));
  EXPECT_THAT(tokenizer->notes()[1], HasSubstr("\"padding\" is not applied"));
  EXPECT_GT(Encode("a text of many words, all of them").size(), 9U);
}

}  // namespace
}  // namespace shoal::dataset
