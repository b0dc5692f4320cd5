#include "dataset/prepare/raw_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace shoal::dataset {
namespace {

using ::testing::HasSubstr;

TEST(FormOfObject, FieldsDecide) {
  const struct {
    const char* json;
    SampleForm form;
  } cases[] = {
      {R"({"text": "a"})", SampleForm::kDocument},
      {R"({"text": "a", "prompt": "b"})", SampleForm::kDocument},
      {R"({"text": "a", "label": 1})", SampleForm::kClass},
      {R"({"prompt": "a", "completion": "b", "text": "c"})", SampleForm::kCompletion},
      {R"({"prompt": [], "completion": []})", SampleForm::kConversation},
      {R"({"messages": [], "prompt": "a", "completion": "b"})", SampleForm::kConversation},
      {R"({"conversations": [], "text": "a"})", SampleForm::kConversation},
  };
  for (const auto& [json, form] : cases) {
    const auto found = FormOfObject(json, {});
    ASSERT_TRUE(found.ok()) << json;
    EXPECT_EQ(*found, form) << json;
  }
  EXPECT_EQ(*FormOfObject(R"({"sentence": "a"})", {"sentence", "grade"}), SampleForm::kClass);
  EXPECT_THAT(FormOfObject(R"({"dialog": [], "id": 1})", {}).status().message(),
              HasSubstr("but \"dialog\", \"id\""));
  EXPECT_THAT(FormOfObject("[]", {}).status().message(), HasSubstr("not a JSON object"));
  EXPECT_THAT(FormOfObject("{", {}).status().message(), HasSubstr("not well-formed"));
}

RawSample Parsed(const char* json, SampleForm form, const SampleColumns& columns = {}) {
  const auto sample = ParseSample(json, form, columns);
  EXPECT_TRUE(sample.ok()) << json << ": " << sample.status().ToString();
  return sample.ok() ? *sample : RawSample{};
}

TEST(ParseSample, Conversations) {
  const RawSample sample = Parsed(R"({"messages": [{"role": "user", "content": "Hi"},
                              {"role": "assistant", "content": "Ho"}],
                 "tools": [{"name": "f"}]})",
                                  SampleForm::kConversation);
  ASSERT_EQ(sample.messages.size(), 2u);
  EXPECT_EQ(*sample.messages[1].dict()->Find("content")->string(), "Ho");
  EXPECT_EQ(sample.prompt_answers, 0u);
  EXPECT_EQ(sample.variables.count("tools"), 1u);
  const RawSample divided = Parsed(
      R"({"prompt": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}],
          "completion": [{"role": "assistant", "content": "c"}]})",
      SampleForm::kConversation);
  EXPECT_EQ(divided.messages.size(), 3u);
  EXPECT_EQ(divided.prompt_answers, 1u);
  EXPECT_EQ(divided.form, SampleForm::kConversation);
}

// Role and content of each message.
std::vector<std::pair<std::string, std::string>> Turns(const RawSample& sample) {
  std::vector<std::pair<std::string, std::string>> turns;
  for (const ChatValue& message : sample.messages) {
    const ChatDict& fields = *message.dict();
    EXPECT_EQ(fields.items.size(), 2U);
    turns.emplace_back(*fields.Find("role")->string(), *fields.Find("content")->string());
  }
  return turns;
}

// The same conversation as messages, and in the three ways in which ShareGPT's files have it.
constexpr const char* kMessages = R"json({"messages": [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi \u00e9"},
    {"role": "assistant", "content": ""}, {"role": "tool", "content": "{}"},
    {"role": "assistant", "content": "Ho"}], "tools": [{"name": "f"}]})json";
constexpr const char* kSystemAmongTurns = R"json({"conversations": [
    {"from": "system", "value": "Be brief."},
    {"from": "human", "value": "Hi \u00e9", "weight": null}, {"from": "gpt", "value": ""},
    {"from": "tool", "value": "{}"}, {"from": "gpt", "value": "Ho"}],
    "tools": [{"name": "f"}]})json";
constexpr const char* kSystemBeside = R"json({"system": "Be brief.", "conversations": [
    {"from": "human", "value": "Hi \u00e9", "weight": null}, {"from": "gpt", "value": ""},
    {"from": "tool", "value": "{}"}, {"from": "gpt", "value": "Ho"}],
    "tools": [{"name": "f"}]})json";
constexpr const char* kToolsAsText = R"json({"conversations": [
    {"from": "system", "value": "Be brief."},
    {"from": "human", "value": "Hi \u00e9", "weight": null}, {"from": "gpt", "value": ""},
    {"from": "tool", "value": "{}"}, {"from": "gpt", "value": "Ho"}],
    "tools": "[{\"name\": \"f\"}]"})json";

TEST(ParseSample, ShareGptIsTheSameTurnsAsMessages) {
  const auto wanted = Turns(Parsed(kMessages, SampleForm::kConversation));
  ASSERT_EQ(wanted.size(), 5U);
  EXPECT_EQ(wanted[1], std::pair(std::string("user"), std::string("Hi \u00e9")));
  for (const char* json : {kSystemAmongTurns, kSystemBeside, kToolsAsText}) {
    const RawSample sample = Parsed(json, SampleForm::kConversation);
    EXPECT_EQ(Turns(sample), wanted) << json;
    ASSERT_EQ(sample.variables.count("tools"), 1U) << json;
    ASSERT_NE(sample.variables.at("tools").sequence(), nullptr) << json;
    EXPECT_EQ(sample.variables.at("tools").sequence()->items.size(), 1U) << json;
    EXPECT_EQ(sample.prompt_answers, 0U) << json;
  }
}

TEST(ParseSample, ShareGptTakesRolesAndEmptyFields) {
  const RawSample roles = Parsed(
      R"json({"system": "", "tools": "", "conversations": [{"role": "user", "content": "a"}]})json",
      SampleForm::kConversation);
  EXPECT_THAT(Turns(roles), testing::ElementsAre(testing::Pair("user", "a")));
  EXPECT_TRUE(roles.variables.empty());
}

TEST(ParseSample, TextsAndLabels) {
  const RawSample completion =
      Parsed(R"({"prompt": "2 + 2 =", "completion": " 4"})", SampleForm::kCompletion);
  EXPECT_EQ(completion.text, "2 + 2 =");
  EXPECT_EQ(completion.completion, " 4");
  EXPECT_EQ(Parsed(R"({"text": "a"})", SampleForm::kDocument).text, "a");
  const std::pair<const char*, const char*> labels[] = {
      {R"({"text": "a", "label": 3})", "3"},
      {R"({"text": "a", "label": "x"})", "x"},
      {R"({"text": "a", "label": -1})", "-1"},
      {R"({"text": "a", "label": true})", "true"}};
  for (const auto& [json, label] : labels) {
    EXPECT_EQ(Parsed(json, SampleForm::kClass).label, label);
  }
  const RawSample named = Parsed(R"({"text": "no", "sentence": "a", "grade": "B"})",
                                 SampleForm::kClass, {"sentence", "grade"});
  EXPECT_EQ(named.text, "a");
  EXPECT_EQ(named.label, "B");
}

TEST(ParseSample, SecondTexts) {
  const char* json = R"({"text": "a", "text_pair": "b", "label": 1, "more": "c"})";
  EXPECT_EQ(Parsed(json, SampleForm::kClass).pair, "b");
  EXPECT_EQ(Parsed(json, SampleForm::kClass, {"", "", "more"}).pair, "c");
  // Who names the text says what the sample is.
  EXPECT_EQ(Parsed(json, SampleForm::kClass, {"text", ""}).pair, std::nullopt);
  EXPECT_EQ(Parsed(R"({"text": "a", "text_pair": null, "label": 1})", SampleForm::kClass).pair,
            std::nullopt);
  EXPECT_EQ(Parsed(R"({"text": "a", "label": 1})", SampleForm::kClass).pair, std::nullopt);
  EXPECT_EQ(*FormOfObject(R"({"a": "a"})", {"", "", "a"}), SampleForm::kClass);
  const auto missing = ParseSample(json, SampleForm::kClass, {"", "", "other"});
  EXPECT_THAT(missing.status().message(), HasSubstr("no field \"other\""));
}

TEST(ParseSample, WhatIsWrongIsSaid) {
  const struct {
    const char* json;
    SampleForm form;
    const char* words;
  } cases[] = {
      {R"({"txt": "a"})", SampleForm::kDocument, "no field \"text\""},
      {R"({"text": 5})", SampleForm::kDocument, "\"text\" is not a string"},
      {R"({"text": "a"})", SampleForm::kConversation, "no field \"messages\""},
      {R"({"messages": "a"})", SampleForm::kConversation, "is not a list of messages"},
      {R"({"messages": [{"content": "a"}]})", SampleForm::kConversation, "\"messages\""},
      {R"({"prompt": [], "completion": "a"})", SampleForm::kConversation, "\"completion\""},
      {R"({"conversations": {}})", SampleForm::kConversation, "is not a list of messages"},
      {R"({"conversations": ["a"]})", SampleForm::kConversation,
       "message 0 of its field \"conversations\" is no object with"},
      {R"({"conversations": [{"from": "human"}]})", SampleForm::kConversation,
       "has no text \"value\""},
      {R"({"conversations": [{"from": 1, "value": "a"}]})", SampleForm::kConversation,
       "has no text \"from\""},
      {R"({"conversations": [{"from": "human", "value": "a"}, {"from": "b\n", "value": "c"}]})",
       SampleForm::kConversation, "message 1 of its field \"conversations\" is from \"b \"; known"},
      {R"({"conversations": [], "system": 5})", SampleForm::kConversation, "\"system\" is not a"},
      {R"({"conversations": [], "tools": "[1"})", SampleForm::kConversation, "\"tools\""},
      {R"({"prompt": "a"})", SampleForm::kCompletion, "no field \"completion\""},
      {R"({"prompt": ["a"], "completion": "a"})", SampleForm::kCompletion, "\"prompt\" is not a"},
      {R"({"text": "a"})", SampleForm::kClass, "no field \"label\""},
      {R"({"text": "a", "label": 1, "text_pair": 2})", SampleForm::kClass,
       "\"text_pair\" is not a"},
      {R"({"text": "a", "label": []})", SampleForm::kClass, "neither a number nor a name"},
      {R"({"text": "a", "label": null})", SampleForm::kClass, "neither a number nor a name"},
  };
  for (const auto& [json, form, words] : cases) {
    const auto sample = ParseSample(json, form, {});
    ASSERT_FALSE(sample.ok()) << json;
    EXPECT_EQ(sample.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(sample.status().message(), HasSubstr(words));
  }
}

TEST(ParseSample, RandomObjectsNeverCrash) {
  std::mt19937 random(9);
  const std::string good =
      R"({"messages": [{"role": "user", "content": "a\ud83d\ude00b"}], "x": [1, {"y": null}]})";
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good.substr(0, random() % good.size());
    EXPECT_FALSE(FormOfObject(bad, {}).ok()) << bad;
    EXPECT_FALSE(ParseSample(bad, SampleForm::kConversation, {}).ok()) << bad;
    bad = good;
    bad[random() % bad.size()] = static_cast<char>(random());
    const auto sample = ParseSample(bad, SampleForm::kConversation, {});
    EXPECT_EQ(sample.ok(), sample.status().message().empty()) << bad;
    EXPECT_EQ(sample.status().message().find('\n'), std::string::npos) << bad;
    if (sample.ok()) {
      EXPECT_LE(sample->messages.size(), 1U) << bad;
    }
  }
  EXPECT_TRUE(ParseSample(good, SampleForm::kConversation, {}).ok());
}

}  // namespace
}  // namespace shoal::dataset
