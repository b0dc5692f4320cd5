#include "dataset/end_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "common/file.h"
#include "dataset/prepare/prepare_data.h"
#include "dataset/tokenizer.h"
#include "tests/unit/dataset/test_paths.h"

namespace shoal::dataset {
namespace {

using ::testing::HasSubstr;

TEST(FindEndToken, TheFirstFileWhoseTokenIsKnownCounts) {
  const std::vector<std::string> names = {"a", "b", "</s>", "<|end|>"};
  const struct {
    EndTokenFiles files;
    std::optional<std::int32_t> id;
  } cases[] = {
      {{}, std::nullopt},
      {{R"({"eos_token": "</s>"})", "", ""}, 2},
      {{R"({"eos_token": {"content": "<|end|>", "lstrip": false}})", "", ""}, 3},
      {{"", R"({"eos_token": "</s>"})", ""}, 2},
      {{"", R"({"eos_token": {"content": "b"}})", ""}, 1},
      {{"", "", R"({"eos_token_id": 3})"}, 3},
      {{"", "", R"({"eos_token_id": [2, 3]})"}, 2},
      {{R"({"eos_token": "</s>"})", R"({"eos_token": "a"})", R"({"eos_token_id": 3})"}, 2},
      // What is not in the vocabulary, or is no name or id, is as good as absent.
      {{R"({"eos_token": "<unknown>"})", R"({"eos_token": "a"})", R"({"eos_token_id": 3})"}, 0},
      {{R"({"eos_token": null})", R"({"eos_token": {"id": 1}})", R"({"eos_token_id": 3})"}, 3},
      {{R"({"eos_token": 5})", R"({})", R"({"eos_token_id": 50256})"}, std::nullopt},
      {{"", "", R"({"eos_token_id": -1})"}, std::nullopt},
      {{"", "", R"({"eos_token_id": []})"}, std::nullopt},
      {{"", "", R"({"eos_token_id": "3"})"}, std::nullopt},
      {{"", "", R"({"eos_token_id": 2.5})"}, std::nullopt},
  };
  for (const auto& [files, id] : cases) {
    const auto found = FindEndToken(files, names);
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(*found, id) << files.tokenizer_config << files.special_tokens_map
                          << files.model_config;
  }
}

TEST(FindEndToken, ADamagedFileIsNamed) {
  const std::vector<std::string> names = {"a"};
  EXPECT_THAT(FindEndToken({"{", "", ""}, names).status().message(),
              HasSubstr("tokenizer_config.json is not a JSON object"));
  EXPECT_THAT(FindEndToken({"", "[]", ""}, names).status().message(),
              HasSubstr("special_tokens_map.json"));
  EXPECT_THAT(FindEndToken({"", "", std::string(100000, '[')}, names).status().message(),
              HasSubstr("config.json"));
}

// The vocabulary of the example without its config.json, whose "<|endoftext|>" has another name.
class EndTokenTest : public ::testing::Test {
 protected:
  EndTokenTest() {
    const std::string vocabulary = *ReadFile(TinyGpt2() + "/vocab.json", 1 << 20);
    const std::string name = "<|endoftext|>";
    const std::size_t at = vocabulary.find(name);
    EXPECT_NE(at, std::string::npos);
    Write("vocab.json", std::string(vocabulary).replace(at, name.size(), "<|stop|>"));
    Write("merges.txt", *ReadFile(TinyGpt2() + "/merges.txt", 1 << 20));
    options_.tokenizer_directory = folder_.path();
    options_.output = folder_ / "out.shoal";
    options_.row_tokens = 2;
    options_.validation_fraction = 0;
    options_.threads = 1;
  }

  std::string Write(const std::string& name, const std::string& bytes) {
    EXPECT_TRUE(WriteFileAtomic(folder_ / name, bytes).ok());
    return folder_ / name;
  }

  PrepareReport Prepare(const std::string& lines) {
    options_.text_files = {Write("a.jsonl", lines)};
    const auto report = PrepareData(options_);
    EXPECT_TRUE(report.ok()) << report.status().ToString();
    return report.ok() ? *report : PrepareReport{};
  }

  TemporaryFolder folder_;
  PrepareOptions options_;
};

constexpr char kTwoLines[] = "{\"text\": \"a\"}\n{\"text\": \"b\"}\n";

TEST_F(EndTokenTest, DocumentsThatNoTokenSeparatesAreSaid) {
  const PrepareReport report = Prepare(kTwoLines);
  EXPECT_FALSE(report.separated);
  EXPECT_EQ(report.documents, 2U);
  EXPECT_EQ(report.info.tokens, 2U);
}

TEST_F(EndTokenTest, AnEndTokenOfAnotherNameSeparates) {
  Write("tokenizer_config.json", R"({"eos_token": "<|stop|>"})");
  const PrepareReport report = Prepare(kTwoLines);
  EXPECT_TRUE(report.separated);
  EXPECT_EQ(report.documents, 2U);
  EXPECT_EQ(report.info.tokens, 3U);
  const auto tokenizer = LoadTokenizer(folder_.path());
  ASSERT_TRUE(tokenizer.ok());
  ASSERT_TRUE((*tokenizer)->end_of_text());
  const auto data = OpenPreparedData(options_.output);
  ASSERT_TRUE(data.ok());
  std::vector<std::int32_t> tokens, labels, segments;
  ASSERT_TRUE((*data)->AppendRow(SampleId{0}, &tokens, &labels, &segments).ok());
  EXPECT_EQ(tokens[1], *(*tokenizer)->end_of_text());
  std::string text = *(*tokenizer)->Decode(tokens);
  EXPECT_EQ(text, "a<|stop|>");
}

TEST_F(EndTokenTest, ADamagedFileBesideTheTokenizerIsRefused) {
  Write("tokenizer_config.json", "{");
  const auto tokenizer = LoadTokenizer(folder_.path());
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_THAT(tokenizer.status().message(), HasSubstr("tokenizer_config.json"));
}

}  // namespace
}  // namespace shoal::dataset
