#include "dataset/chat/chat_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "dataset/chat/characters.h"
#include "dataset/chat/python_values.h"
#include "dataset/chat/template_lexer.h"

namespace shoal::dataset {
namespace {

std::string Text(std::string_view json) {
  const auto value = ParseChatValue(json);
  if (!value.ok()) return "error: " + value.status().message();
  ChatWork work(ChatLimits{});
  return JsonText(*value, {}, &work).value();
}

TEST(ChatValue, KeepsJson) {
  for (const char* json : {"null", "true", "-5", "1.5", "1e+20", "\"\xc3\xa9\\n\"", "[]", "{}",
                           R"({"b": [1, {"a": 2.0}], "a": null})"}) {
    EXPECT_EQ(Text(json), json);
  }
  EXPECT_EQ(Text(R"({"a": 1, "b": 2, "a": 3})"), R"({"a": 3, "b": 2})");
  EXPECT_EQ(Text("1E2"), "100.0");
}

TEST(ChatValue, RefusesOtherJson) {
  for (const char* json : {"", "{", "nan", "[1,]", "\"\xff\"", "\"\\ud800\"", "1 2", "'a'"}) {
    EXPECT_EQ(Text(json), "error: not well-formed JSON (or not UTF-8)") << json;
  }
  EXPECT_EQ(Text("9223372036854775807"), "9223372036854775807");
  EXPECT_EQ(Text("9223372036854775808"), "error: a whole number beyond 64 bits");
  EXPECT_EQ(Text("[-99999999999999999999]"), "error: a whole number beyond 64 bits");
  EXPECT_EQ(Text(std::string(64, '[') + std::string(64, ']')).substr(0, 3), "[[[");
  EXPECT_EQ(Text(std::string(65, '[') + std::string(65, ']')),
            "error: JSON that nests deeper than 64");
}

TEST(ChatValue, ChecksMessages) {
  const auto error = [](const char* json) {
    const auto messages = ParseMessages(json);
    return messages.ok() ? "none" : messages.status().message();
  };
  EXPECT_EQ(error(R"([{"role": "user", "content": 5, "x": [1]}, {"role": ""}])"), "none");
  EXPECT_EQ(error("[]"), "none");
  EXPECT_THAT(error(R"({"role": "user"})"), ::testing::StartsWith("not a list of messages"));
  EXPECT_EQ(error(R"([{"role": "user"}, 5])"), "message 1 is no object with a \"role\"");
  EXPECT_EQ(error(R"([{"content": "a"}])"), "message 0 has no \"role\"");
  EXPECT_EQ(error(R"([{"role": 1}])"), "the \"role\" of message 0 is not a string");
  EXPECT_EQ(error("[{"), "not well-formed JSON (or not UTF-8)");
}

TEST(Characters, AreThoseOfUtf8) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint32_t> characters;
    std::string text;
    for (int i = static_cast<int>(random() % 8); i > 0; --i) {
      constexpr std::uint32_t kEnds[] = {0x80, 0x800, 0xd800, 0x110000 - 0x800};
      std::uint32_t c = random() % kEnds[random() % 4];
      if (c >= 0xd800) c += 0x800;
      characters.push_back(c);
      AppendCharacter(c, &text);
    }
    ASSERT_TRUE(IsUtf8(text));
    ASSERT_EQ(CountCharacters(text), characters.size());
    std::size_t at = 0;
    for (std::size_t i = 0; i < characters.size(); ++i) {
      ASSERT_EQ(ByteOfCharacter(text, i), at);
      std::size_t bytes = 0;
      ASSERT_EQ(CharacterAtByte(text, at, &bytes), characters[i]);
      at += bytes;
      ASSERT_EQ(PreviousCharacter(text, at), at - bytes);
      if (bytes > 1) {
        ASSERT_FALSE(IsUtf8(std::string_view(text).substr(0, at - 1)));
      }
    }
    ASSERT_EQ(at, text.size());
  }
  for (const char* text : {"\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                           "\xf0\x80\x80\x80", "\xf5\x80\x80\x80", "a\xc3"}) {
    EXPECT_FALSE(IsUtf8(text));
  }
}

std::string Tokens(std::string_view text) {
  const auto tokens = LexTemplate(text);
  if (!tokens.ok()) return tokens.status().message();
  std::string result;
  for (const Token& token : *tokens) {
    constexpr const char* kKinds[] = {"text",   "{{",  "}}",    "{%", "%}", "name",
                                      "string", "int", "float", "op", "end"};
    result += std::to_string(token.line) + kKinds[static_cast<int>(token.kind)];
    if (!token.text.empty()) result += ":" + token.text;
    result += ' ';
  }
  return result;
}

TEST(TemplateLexer, CountsLines) {
  EXPECT_EQ(Tokens("a\nb{{ x\n}}\nc"), "1text:a\nb 2{{ 2name:x 3}} 3text:\nc 4end ");
  EXPECT_EQ(Tokens("{# a\n\nb #}\n{% x %}\n{% y -%}\n\n{{ z }}"),
            "4{% 4name:x 4%} 5{% 5name:y 5%} 7{{ 7name:z 7}} 7end ");
  EXPECT_EQ(Tokens("{% raw %}\n{{\n{% endraw %}{{ x }}"), "1text:\n{{\n 3{{ 3name:x 3}} 3end ");
  EXPECT_EQ(Tokens("\n\n  {{- 'a\nb' }}"), "3{{ 3string:a\nb 4}} 4end ");
}

TEST(TemplateLexer, CutsWords) {
  EXPECT_EQ(Tokens("{{ a.0.b 1.5e3 1_0 //**= '\\x41' \"'\" }}"),
            "1{{ 1name:a 1op:. 1int 1op:. 1name:b 1float 1int 1op:// 1op:** 1op:= 1string:A "
            "1string:' 1}} 1end ");
  EXPECT_EQ(Tokens("{{ {'a': {}} }}{ {"),
            "1{{ 1op:{ 1string:a 1op:: 1op:{ 1op:} 1op:} 1}} 1text:{ { 1end ");
  EXPECT_EQ(Tokens(""), "1end ");
  EXPECT_EQ(Tokens("{{ 1a }}"), "line 1: a number runs into a name");
  EXPECT_EQ(Tokens("{{ \xc3\xa9 }}"), "line 1: '\xc3\xa9' does not belong into a tag");
}

}  // namespace
}  // namespace shoal::dataset
