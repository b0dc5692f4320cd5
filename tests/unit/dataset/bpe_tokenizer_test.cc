#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "common/file.h"
#include "dataset/sha256.h"
#include "dataset/tokenizer.h"
#include "dataset/tokenizers/tokenizer_files.h"
#include "dataset/word_splitter.h"
#include "tests/unit/dataset/test_paths.h"
#include "tests/unit/dataset/tokenizer_checks.h"

namespace shoal::dataset {
namespace {

using Json = nlohmann::json;

void ExpectVectors(const Tokenizer& tokenizer, const std::string& file) {
  std::istringstream lines(Read(file));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json vector = Json::parse(line);
    const auto text = vector["text"].get<std::string>();
    // The vectors are of an encoder that knows no special tokens.
    const bool special = text == "<|endoftext|>";
    EXPECT_EQ(Encode(tokenizer, text),
              special ? Ids{*tokenizer.end_of_text()} : vector["ids"].get<Ids>())
        << line;
    const auto decoded = tokenizer.Decode(vector["ids"].get<Ids>());
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, text);
  }
  EXPECT_GT(count, 30);
}

BpeModel LoadModel(const std::string& directory) {
  const auto file = LoadTokenizerFile(directory);
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  return file.ok() ? std::get<BpeModel>(file->model) : BpeModel();
}

// Byte pair encoding as its definition says, one merge at a time over the whole list of merges.
Ids SlowWord(const BpeModel& model, std::string_view word) {
  static std::map<const BpeModel*, std::map<std::pair<int, int>, std::pair<int, int>>> tables;
  auto& table = tables[&model];
  if (table.empty()) {
    int rank = 0;
    for (const BpeMerge& merge : model.merges) {
      table[{merge.left, merge.right}] = {rank++, merge.merged};
    }
  }
  Ids ids;
  for (const char c : word) ids.push_back(model.byte_ids[static_cast<unsigned char>(c)]);
  for (;;) {
    std::pair<int, int> best = {std::numeric_limits<int>::max(), 0};
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = table.find({ids[i], ids[i + 1]});
      if (found != table.end() && found->second.first < best.first) {
        best = found->second;
        place = i;
      }
    }
    if (best.first == std::numeric_limits<int>::max()) return ids;
    ids[place] = best.second;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

std::string RandomBytes(std::mt19937& random, std::size_t size) {
  static const std::string kPieces[] = {" ",  "\n", "the", "'ll", "\xc3\xa9", "\xe6\x97\xa5",
                                        "12", "!",  "\t",  "a",   "\xff",     "\xf0\x9f\x98\x80"};
  std::string bytes;
  while (bytes.size() < size) {
    if (random() % 4 == 0) {
      bytes.push_back(static_cast<char>(random()));
    } else {
      bytes += kPieces[random() % std::size(kPieces)];
    }
  }
  return bytes;
}

TEST(BpeTokenizer, EncodesTheDemoTextLikeHuggingFace) {
  const auto tokenizer = Load(TinyGpt2());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocabulary(), 1024U);
  EXPECT_EQ(tokenizer->end_of_text(), 0);
  ExpectVectors(*tokenizer, Environment("SHOAL_TEST_DATA") + "/tiny_gpt2_vectors.jsonl");
  const Ids ids = Encode(*tokenizer, Read(Shakespeare()));
  EXPECT_EQ(ids.size(), 459913U);
  EXPECT_EQ(HashOf(ids), "f73daade681e684a637a81255059aeb56f53dd73e3f427ba99865fb0cff095a3");
}

TEST(BpeTokenizer, BothFileFormsHaveOneFingerprint) {
  TemporaryFolder folder;
  for (const auto& [from, to] :
       {std::pair("vocab.json", "encoder.json"), std::pair("merges.txt", "vocab.bpe")}) {
    std::filesystem::copy_file(TinyGpt2() + "/" + from, folder / to);
  }
  const auto one = Load(TinyGpt2());
  const auto other = Load(folder.path());
  ASSERT_TRUE(one != nullptr && other != nullptr);
  EXPECT_EQ(one->fingerprint(), other->fingerprint());
  EXPECT_EQ(one->fingerprint().size(), 64U);

  std::string merges = Read(TinyGpt2() + "/merges.txt");
  merges.erase(merges.rfind('\n', merges.size() - 2) + 1);  // without the last merge
  ASSERT_TRUE(WriteFileAtomic(folder / "vocab.bpe", merges).ok());
  EXPECT_NE(Load(folder.path())->fingerprint(), one->fingerprint());
}

TEST(BpeTokenizer, EqualsTheSlowDefinition) {
  const auto tokenizer = Load(TinyGpt2());
  const BpeModel model = LoadModel(TinyGpt2());
  auto pattern = WordPattern::Compile();
  ASSERT_TRUE(tokenizer != nullptr && pattern.ok());
  WordSplitter splitter(*pattern);
  std::mt19937 random(7);
  const std::string shakespeare = Read(Shakespeare());
  for (int round = 0; round < 200; ++round) {
    std::string text = round % 2 == 0 ? RandomBytes(random, random() % 400)
                                      : shakespeare.substr(random() % shakespeare.size(), 300);
    if (round % 5 == 0) std::erase(text, ' ');  // long words
    if (round % 7 == 0) text.append(random() % 300, 'a');
    Ids expected;
    splitter.Start(text);
    for (std::string_view word; splitter.Next(&word);) {
      const Ids ids = SlowWord(model, word);
      expected.insert(expected.end(), ids.begin(), ids.end());
    }
    EXPECT_EQ(Encode(*tokenizer, text), expected) << text;
  }
}

// Merges whose later member comes first in the list, and a pair that overlaps itself.
TEST(BpeTokenizer, MergesInTheOrderOfTheListWhateverItIs) {
  const BpeModel model = LoadModel(TinyGpt2());
  const auto file = LoadTokenizerFile(TinyGpt2());
  ASSERT_TRUE(file.ok());
  Json vocab;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    vocab[file->names[static_cast<std::size_t>(model.byte_ids[byte])]] = byte;
  }
  int next = 256;
  for (const char* name : {"abc", "ab", "aa", "aaa", "bc"}) vocab[name] = next++;
  TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomic(folder / "vocab.json", vocab.dump()).ok());
  ASSERT_TRUE(WriteFileAtomic(folder / "merges.txt", "ab c\naa a\na b\na a\nb c\n").ok());
  const auto tokenizer = Load(folder.path());
  const BpeModel own = LoadModel(folder.path());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_FALSE(tokenizer->end_of_text().has_value());
  EXPECT_EQ(Encode(*tokenizer, "abcabc"), (Ids{256, 256}));
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string word;
    for (std::size_t i = random() % 120 + 1; i > 0; --i) word.push_back("abc"[random() % 3]);
    EXPECT_EQ(Encode(*tokenizer, word), SlowWord(own, word)) << word;
  }
}

TEST(BpeTokenizer, AnyBytesComeBack) {
  const auto tokenizer = Load(TinyGpt2());
  ASSERT_NE(tokenizer, nullptr);
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const std::string bytes = RandomBytes(random, random() % 200);
    const auto decoded = tokenizer->Decode(Encode(*tokenizer, bytes));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(*decoded, bytes);
  }
  // A byte that is no UTF-8 stands alone.
  const Ids around = Encode(*tokenizer, "the\xff the");
  Ids expected = Encode(*tokenizer, "the");
  expected.push_back(LoadModel(TinyGpt2()).byte_ids[255]);
  for (const std::int32_t id : Encode(*tokenizer, " the")) expected.push_back(id);
  EXPECT_EQ(around, expected);
}

TEST(BpeTokenizer, HugeWordsAndRunsAreFine) {
  const auto tokenizer = Load(TinyGpt2());
  ASSERT_NE(tokenizer, nullptr);
  for (const char c : {'a', ' ', '\n', '7', '!', '\x80'}) {
    const std::string text(2'000'000, c);
    const auto decoded = tokenizer->Decode(Encode(*tokenizer, text));
    ASSERT_TRUE(decoded.ok());
    EXPECT_TRUE(*decoded == text) << static_cast<int>(c);
  }
}

TEST(BpeTokenizer, SeveralThreadsEncodeAtOnce) {
  const auto tokenizer = Load(TinyGpt2());
  ASSERT_NE(tokenizer, nullptr);
  const std::string text = Read(Shakespeare()).substr(0, 100000);
  const Ids expected = Encode(*tokenizer, text);
  std::vector<Ids> got(4);
  {
    std::vector<std::jthread> threads;
    for (Ids& ids : got) threads.emplace_back([&] { ids = Encode(*tokenizer, text); });
  }
  for (const Ids& ids : got) EXPECT_EQ(ids, expected);
}

TEST(BpeTokenizer, DecodeRefusesForeignIds) {
  const auto tokenizer = Load(TinyGpt2());
  ASSERT_NE(tokenizer, nullptr);
  for (const std::int32_t id : {-1, 1024, std::numeric_limits<std::int32_t>::max()}) {
    const auto text = tokenizer->Decode(Ids{5, id});
    EXPECT_EQ(text.status().code(), StatusCode::kOutOfRange);
  }
  EXPECT_EQ(*tokenizer->Decode(Ids{0}), "<|endoftext|>");
}

TEST(BpeTokenizer, RefusesWhatItWouldReadWrongly) {
  const Json good = Json::parse(Read(TinyGpt2() + "/tokenizer.json"));
  ASSERT_TRUE(ParseTokenizerJson(good.dump()).ok());
  const struct {
    const char* pointer;
    Json value;
    const char* words;
  } cases[] = {
      {"/model/type", "WordPiece", "WordPiece"},
      {"/model/type", "WordLevel", "WordLevel"},
      {"/model/dropout", 0.1, "dropout"},
      {"/model/byte_fallback", 1, "byte_fallback"},
      {"/model/unk_token", "<none>", "<none>"},
      {"/model/end_of_word_suffix", "</w>", "end_of_word_suffix"},
      {"/model/continuing_subword_prefix", "##", "continuing_subword_prefix"},
      {"/model/merges/3", "one two three", "merge 4"},
      {"/model/merges/3", Json::array({"x"}), "merge 4"},
      {"/model/merges/3", Json::array({"Q", "\xc4\xa0zz"}), "vocabulary"},
      {"/model/merges/3", Json::array({"\xc4\xa0", "t"}), "listed twice"},
      {"/model/merges", 5, "merges"},
      {"/model/vocab", Json::object(), "byte 0"},
      {"/model/vocab/a", -1, "\"a\""},
      {"/model/vocab/a", 1.5, "\"a\""},
      {"/model/vocab/a", 99999, "99999"},
      {"/model/vocab/a", 70, "each once"},
      {"/normalizer", {{"type", "NFX"}}, "NFX"},
      {"/pre_tokenizer/type", "UnicodeScripts", "UnicodeScripts"},
      {"/pre_tokenizer/use_regex", 0, "use_regex"},
      {"/post_processor", {{"type", "TemplateProcessing"}}, "TemplateProcessing"},
      {"/decoder", {{"type", "Metaspace"}}, "Metaspace"},
      {"/added_tokens/0/id", 7, "two ids"},
      {"/added_tokens/0", "x", "added_tokens"},
      {"/model", nullptr, "model"},
  };
  for (const auto& [pointer, value, words] : cases) {
    Json bad = good;
    bad[Json::json_pointer(pointer)] = value;
    const auto model = ParseTokenizerJson(bad.dump());
    ASSERT_FALSE(model.ok()) << pointer;
    EXPECT_THAT(model.status().message(), ::testing::HasSubstr(words)) << pointer;
    EXPECT_THAT(model.status().message(), ::testing::Not(::testing::HasSubstr("\n")));
  }
}

TEST(BpeTokenizer, AddedTokensMayFollowTheVocabulary) {
  Json json = Json::parse(Read(TinyGpt2() + "/tokenizer.json"));
  json["added_tokens"].push_back({{"id", 1024}, {"content", "<one more>"}, {"special", true}});
  const auto model = ParseTokenizerJson(json.dump());
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->bytes[1024], "<one more>");
  EXPECT_NE(FingerprintOf(*model), Load(TinyGpt2())->fingerprint());
}

TEST(BpeTokenizer, MissingFilesGiveTheNextStep) {
  TemporaryFolder folder;
  auto tokenizer = LoadTokenizer(folder.path());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(tokenizer.status().message(), ::testing::HasSubstr("vocab.json and merges.txt"));
  std::filesystem::copy_file(TinyGpt2() + "/vocab.json", folder / "vocab.json");
  tokenizer = LoadTokenizer(folder.path());
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(tokenizer.status().message(), ::testing::HasSubstr("merges.txt"));
}

TEST(BpeTokenizer, DamagedFilesNeverCrash) {
  const std::string good = Read(TinyGpt2() + "/tokenizer.json");
  std::mt19937 random(5);
  for (int round = 0; round < 150; ++round) {
    EXPECT_FALSE(ParseTokenizerJson(good.substr(0, random() % (good.size() - 2))).ok());
    std::string damaged = good;
    for (int i = 0; i < 3; ++i) damaged[random() % damaged.size()] = static_cast<char>(random());
    (void)ParseTokenizerJson(damaged);
    (void)ParseVocabAndMerges(RandomBytes(random, 300), RandomBytes(random, 300));
  }
  EXPECT_FALSE(ParseTokenizerJson(std::string(100000, '[')).ok());
}

std::string SharedGpt2() { return Environment("SHOAL_SHARED_DATA") + "/gpt2-bpe"; }

TEST(BpeTokenizer, EncodesLikeGpt2) {
  if (!std::filesystem::exists(SharedGpt2())) GTEST_SKIP() << "no shared data";
  const auto tokenizer = Load(SharedGpt2());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->vocabulary(), 50257U);
  EXPECT_EQ(tokenizer->end_of_text(), 50256);
  ExpectVectors(*tokenizer, SharedGpt2() + "/gpt2_vectors.jsonl");

  TemporaryFolder folder;
  for (const char* name : {"encoder.json", "vocab.bpe"}) {
    std::filesystem::copy_file(SharedGpt2() + "/" + name, folder / name);
  }
  const auto other = Load(folder.path());
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->fingerprint(), tokenizer->fingerprint());
  ExpectVectors(*other, SharedGpt2() + "/gpt2_vectors.jsonl");
}

TEST(BpeTokenizer, EncodesWholeFilesLikeGpt2) {
  if (!std::filesystem::exists(SharedGpt2())) GTEST_SKIP() << "no shared data";
  const auto tokenizer = Load(SharedGpt2());
  ASSERT_NE(tokenizer, nullptr);
  const struct {
    const char* file;
    std::size_t tokens;
    const char* sha256;
  } files[] = {
      {"tinyshakespeare/input.txt", 338025,
       "25c01b32b32f41897a6359dd222ec114992dc30c357bcafbfe6c56672f76cd31"},
      {"wikitext-2/train.txt.zst", 2448382,
       "6f6e4b8e337e6ca2543efc87c8ab83441094e4f66dc4e9cc806c40c8d2444bf5"},
      {"wikitext-2/valid.txt.zst", 258659,
       "17bc83b54d943c68889ab3b9cb01f17b86fe0216e9738ee39806d2631aac2ef9"},
      {"wikitext-2/test.txt.zst", 295877,
       "33d3634d89dfb45a09164ac72a5e7939b90eeffce49f82cc738dc5dbc652cf3c"},
  };
  for (const auto& [file, tokens, sha256] : files) {
    std::string text = Read(Environment("SHOAL_SHARED_DATA") + "/" + file);
    if (std::string_view(file).ends_with(".zst")) {
      std::string plain(std::size_t{16} << 20, '\0');
      const std::size_t size =
          ZSTD_decompress(plain.data(), plain.size(), text.data(), text.size());
      ASSERT_FALSE(ZSTD_isError(size)) << file;
      plain.resize(size);
      text = std::move(plain);
    }
    const Ids ids = Encode(*tokenizer, text);
    EXPECT_EQ(ids.size(), tokens) << file;
    EXPECT_EQ(HashOf(ids), sha256) << file;
  }
}

}  // namespace
}  // namespace shoal::dataset
