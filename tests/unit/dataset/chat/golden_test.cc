// What transformers 5.24 writes: tests/models/make_chat_templates.py made the files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/file.h"
#include "dataset/chat/chat_template.h"
#include "tests/unit/dataset/test_paths.h"

namespace shoal::dataset {
namespace {

using Json = nlohmann::ordered_json;

std::string Data(const std::string& name) {
  const auto text = ReadFile(test_support::Environment("SHOAL_TEST_DATA") + "/chat/" + name,
                             std::uint64_t{1} << 24);
  EXPECT_TRUE(text.ok()) << text.status().ToString();
  return text.ok() ? *text : std::string();
}

ChatValue ValueOf(const Json& json) { return ParseChatValue(json.dump()).value(); }

ChatOptions OptionsOf(const Json& json, std::int64_t now) {
  ChatOptions options;
  options.now = std::chrono::sys_seconds(std::chrono::seconds(now));
  for (const auto& [name, value] : json.items()) {
    if (name == "add_generation_prompt") {
      options.add_generation_prompt = value.get<bool>();
    } else {
      options.variables.emplace(name, ValueOf(value));
    }
  }
  return options;
}

std::map<std::string, ChatValue> VariablesOf(const Json& json) {
  std::map<std::string, ChatValue> variables;
  for (const auto& [name, value] : json.items()) variables.emplace(name, ValueOf(value));
  return variables;
}

TEST(ChatGolden, ConversationsAreThoseOfTransformers) {
  const Json root = Json::parse(Data("cases.json"));
  std::map<std::string, ChatTemplate> templates;
  for (const auto& [name, tokens] : root["tokens"].items()) {
    const auto parsed = ChatTemplate::Parse(Data("templates/" + name + ".jinja"), name);
    ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
    templates.emplace(name, parsed->With(VariablesOf(tokens)));
  }
  int written = 0, refused = 0;
  for (const Json& each : root["cases"]) {
    const auto name = each["template"].get<std::string>();
    const auto messages =
        ParseMessages(root["conversations"][each["conversation"].get<std::string>()].dump());
    ASSERT_TRUE(messages.ok()) << messages.status().ToString();
    std::vector<ByteRange> generated;
    const auto text = templates.at(name).Render(
        *messages, OptionsOf(each["options"], root["now"].get<std::int64_t>()), &generated);
    const std::string which = name + " " + each["conversation"].dump() + each["options"].dump();
    if (each.contains("refused")) {
      ++refused;
      EXPECT_FALSE(text.ok()) << which << " gives " << *text;
      if (!text.ok()) {
        EXPECT_THAT(text.status().message(), ::testing::StartsWith(name + ", line "));
      }
      continue;
    }
    ++written;
    ASSERT_TRUE(text.ok()) << which << ": " << text.status().ToString();
    EXPECT_EQ(*text, each["text"].get<std::string>()) << which;
    std::vector<ByteRange> marked;
    for (const Json& range : each.value("generated", Json::array())) {
      marked.push_back({range[0].get<std::size_t>(), range[1].get<std::size_t>()});
    }
    EXPECT_TRUE(generated == marked) << which;
  }
  EXPECT_GT(written, 300);
  EXPECT_GT(refused, 80);
}

TEST(ChatGolden, SnippetsAreThoseOfJinja) {
  const Json root = Json::parse(Data("snippets.json"));
  ChatOptions options = OptionsOf(Json::object(), 1741529107);
  options.variables = VariablesOf(root["variables"]);
  int written = 0, refused = 0;
  for (const Json& each : root["snippets"]) {
    const auto text = each["template"].get<std::string>();
    const auto parsed = ChatTemplate::Parse(text, "t");
    const bool is_refused = each.contains("refused");
    (is_refused ? refused : written) += 1;
    if (!parsed.ok()) {
      EXPECT_TRUE(is_refused) << text << ": " << parsed.status().ToString();
      continue;
    }
    const auto rendered = parsed->Render({}, options);
    if (is_refused) {
      EXPECT_FALSE(rendered.ok()) << text << " gives " << *rendered;
      continue;
    }
    EXPECT_TRUE(rendered.ok()) << text << ": " << rendered.status().ToString();
    if (rendered.ok()) {
      EXPECT_EQ(*rendered, each["text"].get<std::string>()) << text;
    }
  }
  EXPECT_GT(written, 140);
  EXPECT_GT(refused, 90);
}

}  // namespace
}  // namespace shoal::dataset
