#include "dataset/stop_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/file.h"
#include "tests/unit/dataset/test_paths.h"

namespace shoal::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Data(const std::string& path) { return Environment("SHOAL_TEST_DATA") + "/" + path; }

class StopTokens : public ::testing::Test {
 protected:
  std::unique_ptr<Tokenizer> Load(const std::string& name) const {
    auto tokenizer = LoadTokenizer(Data("tokenizers/" + name));
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    return *std::move(tokenizer);
  }
  std::int32_t Id(const std::string& name) const {
    const auto id = IdOfToken(*qwen_, name);
    EXPECT_TRUE(id.has_value()) << name;
    return id.value_or(-1);
  }

  const std::unique_ptr<Tokenizer> qwen_ = Load("qwen");
  const std::int32_t text_ = Id("<|endoftext|>"), turn_ = Id("<|im_end|>");
};

TEST_F(StopTokens, AreThoseOfAllFiles) {
  ASSERT_NE(text_, turn_);
  ASSERT_EQ(qwen_->end_of_text(), text_);
  const std::string turn = std::to_string(turn_);
  const StopTokenFiles cases[] = {{"{\"eos_token_id\": [" + turn + "]}", "", "", ""},
                                  {"{\"eos_token_id\": " + turn + "}", "", "", ""},
                                  {"", "{\"eos_token_id\": [-1, 1000000, " + turn + "]}", "", ""},
                                  {"", "", "{\"eos_token\": \"<|im_end|>\"}", ""},
                                  {"", "", "", "{\"eos_token\": {\"content\": \"<|im_end|>\"}}"}};
  const std::vector<std::int32_t> both = {std::min(text_, turn_), std::max(text_, turn_)};
  for (const StopTokenFiles& files : cases) {
    const auto ids = FindStopTokens(files, *qwen_);
    ASSERT_TRUE(ids.ok()) << ids.status().ToString();
    EXPECT_EQ(*ids, both);
  }
}

TEST_F(StopTokens, WhatNamesNoTokenAddsNone) {
  const StopTokenFiles cases[] = {
      {},
      {"{}", "{\"eos_token_id\": null}", "{\"eos_token\": null}", "{\"eos_token\": 3}"},
      {"{\"eos_token_id\": []}", "", "{\"eos_token\": \"two words\"}", ""}};
  for (const StopTokenFiles& files : cases) {
    const auto ids = FindStopTokens(files, *qwen_);
    ASSERT_TRUE(ids.ok()) << ids.status().ToString();
    EXPECT_THAT(*ids, ElementsAre(text_));
  }
}

TEST_F(StopTokens, ADamagedFileIsNamed) {
  const auto error = [&](const StopTokenFiles& files) {
    const auto ids = FindStopTokens(files, *qwen_);
    EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
    return ids.status().message();
  };
  EXPECT_THAT(error({"[", "", "", ""}), HasSubstr("generation_config.json: not a JSON object"));
  EXPECT_THAT(error({"{\"eos_token_id\": \"2\"}", "", "", ""}),
              HasSubstr("generation_config.json: eos_token_id"));
  EXPECT_THAT(error({"", "{\"eos_token_id\": [1, 2.5]}", "", ""}), HasSubstr("eos_token_id"));
  EXPECT_THAT(error({"", "", std::string(100000, '['), ""}), HasSubstr("tokenizer_config.json"));
  EXPECT_THAT(error({"", "", "", "7"}), HasSubstr("special_tokens_map.json"));
}

TEST_F(StopTokens, AreLoadedFromAFolder) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomic(folder / "generation_config.json",
                              "{\"eos_token_id\": " + std::to_string(turn_) + "}")
                  .ok());
  const auto ids = LoadStopTokens(folder.path(), *qwen_);
  ASSERT_TRUE(ids.ok()) << ids.status().ToString();
  EXPECT_EQ(ids->size(), 2u);
  ASSERT_TRUE(WriteFileAtomic(folder / "generation_config.json", "7").ok());
  EXPECT_THAT(LoadStopTokens(folder.path(), *qwen_).status().message(), HasSubstr(folder.path()));
}

// The token that ends a turn, of templates that people use.
TEST_F(StopTokens, TheTemplateNamesTheEndOfATurn) {
  const auto end = [&](const std::string& text) {
    const auto parsed = ChatTemplate::Parse(text, "template");
    EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
    return FindEndOfTurn(parsed->With({{"eos_token", ChatValue("<|endoftext|>")}}), {}, *qwen_);
  };
  const auto of_file = [](const std::string& name) {
    return ReadFile(Data("chat/templates/" + name + ".jinja"), 1 << 20).value();
  };
  EXPECT_EQ(end(of_file("chatml")), turn_);
  EXPECT_EQ(end(of_file("qwen2")), turn_);
  EXPECT_EQ(end(of_file("mistral")), text_);  // eos_token
  const std::string turns =
      "{% for message in messages %}{{ message['role'] }}: "
      "{{ message['content'] }}";
  EXPECT_EQ(end(turns + " \n<|im_end|>{% endfor %}"), turn_);
  EXPECT_EQ(end(turns + "\n{% endfor %}"), std::nullopt);
  EXPECT_EQ(end(turns + "<|no_such_token|>{% endfor %}"), std::nullopt);
  EXPECT_EQ(end("{{ raise_exception('no') }}"), std::nullopt);
}

}  // namespace
}  // namespace shoal::dataset
