#include "dataset/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/file.h"
#include "tests/unit/dataset/test_paths.h"

namespace shoal::dataset {
namespace {

using ::testing::HasSubstr;

std::string ParseError(std::string_view text) {
  const auto parsed = ChatTemplate::Parse(text, "model");
  return parsed.ok() ? "none" : parsed.status().message();
}

Result<std::string> Rendered(std::string_view text, const ChatOptions& options = {}) {
  SHOAL_ASSIGN_OR_RETURN(const ChatTemplate parsed, ChatTemplate::Parse(text, "model"));
  return parsed.Render({}, options);
}

std::string RenderError(std::string_view text) {
  const auto rendered = Rendered(text);
  return rendered.ok() ? "none: " + *rendered : rendered.status().message();
}

TEST(ChatTemplate, UnknownConstructsAreRefusedWithTheirLine) {
  EXPECT_EQ(ParseError("a\n\n{{ x|foo }}"), "model, line 3: the filter 'foo' is not supported");
  EXPECT_EQ(ParseError("{{ 1 }}\n{% if x is foo %}{% endif %}"),
            "model, line 2: the test 'foo' is not supported");
  EXPECT_EQ(ParseError("\n{{ foo(1) }}"), "model, line 2: the function 'foo' is not supported");
  EXPECT_EQ(ParseError("\n\n{{ 'a'.foo() }}"), "model, line 3: the method 'foo' is not supported");
  EXPECT_EQ(ParseError("{{ x }}\n{% include 'a' %}"),
            "model, line 2: the tag 'include' is not supported");
  EXPECT_EQ(ParseError("{%- set a = [] -%}\n{{ a.append(1) }}"),
            "model, line 2: the method 'append' is not supported: lists and dicts do not change");
  EXPECT_EQ(ParseError("{{ x|map('foo') }}"), "model, line 1: the filter 'foo' is not supported");
  EXPECT_EQ(ParseError("{{ x|selectattr('a', 'foo') }}"),
            "model, line 1: the test 'foo' is not supported");
  EXPECT_EQ(ParseError("{{ x.__class__ }}"),
            "model, line 1: the attribute '__class__' is not supported");
  EXPECT_EQ(ParseError("{% for x in y recursive %}{% endfor %}"),
            "model, line 1: a recursive loop is not supported");
  EXPECT_EQ(ParseError("{% for x in y %}\n{% macro m() %}{% endmacro %}{% endfor %}"),
            "model, line 2: a macro inside of a block is not supported");
  EXPECT_THAT(ParseError("{% macro m() %}{% generation %}{% endgeneration %}{% endmacro %}"),
              HasSubstr("the tag 'generation' in a macro"));
  EXPECT_THAT(ParseError("{{ f(*x) }}"), HasSubstr("'*' before an argument is not supported"));
}

TEST(ChatTemplate, WhatIsNoTemplateIsRefusedWithItsLine) {
  EXPECT_EQ(ParseError("a\n{{ 'b"), "model, line 2: a string is not closed");
  EXPECT_EQ(ParseError("a\n{# b"), "model, line 2: a comment is not closed");
  EXPECT_EQ(ParseError("{% raw %}\n b"), "model, line 1: {% raw %} is not closed");
  EXPECT_EQ(ParseError("{% if x %}\n"), "model, line 1: the template ends before 'endif'");
  EXPECT_EQ(ParseError("{% if x %}a\n{% endfor %}"),
            "model, line 2: the tag 'endfor' closes no tag here");
  EXPECT_EQ(ParseError("{{ (1] }}"), "model, line 1: unexpected ']'");
  EXPECT_EQ(ParseError("{{ 1 2 }}"), "model, line 1: '}}' is expected, not a number");
  EXPECT_EQ(ParseError("{{ 99999999999999999999 }}"),
            "model, line 1: a whole number is beyond 64 bits");
  EXPECT_EQ(ParseError("{{ '\\ud800' }}"),
            "model, line 1: an escape in a string names no character");
  EXPECT_EQ(ParseError("{% continue %}"), "model, line 1: the tag 'continue' stands in no loop");
  EXPECT_EQ(ParseError("a\xff"), "model, the template is not UTF-8");
  EXPECT_THAT(ParseError(std::string((std::size_t{1} << 20) + 1, 'a')), HasSubstr("more than"));
}

TEST(ChatTemplate, ErrorsOfARenderingNameTheLine) {
  EXPECT_EQ(RenderError("a\n{{ x.y }}"), "model, line 2: 'x' is undefined");
  EXPECT_EQ(RenderError("a\n{% if 1 %}\n{{ raise_exception('no\nway') }}{% endif %}"),
            "model, line 3: the template refuses the conversation: no way");
  EXPECT_EQ(RenderError("{% macro m(a) %}\n\n{{ a + 1 }}{% endmacro %}\n{{ m('x') }}"),
            "model, line 3: '+' is not defined between str and int");
  EXPECT_EQ(RenderError("\n{% set a, b = [1] %}"), "model, line 2: 1 values for 2 names");
  EXPECT_EQ(RenderError("{{ strftime_now('%Y') }}"),
            "model, line 1: the template asks for the date, and none is given");
  EXPECT_EQ(RenderError("{{ '%d' % 5 }}"), "model, line 1: formatting with '%' is not supported");
  EXPECT_EQ(RenderError("{{ 'a'.isdigit }}"), "model, line 1: 'isdigit' of a str is not supported");
  EXPECT_EQ(RenderError("{{ 9223372036854775807 + 1 }}"),
            "model, line 1: a whole number goes beyond 64 bits");
  EXPECT_EQ(RenderError("{{ -9223372036854775807 - 1 // -1 * 1 - 9 }}"),
            "model, line 1: a whole number goes beyond 64 bits");
  EXPECT_EQ(RenderError("{{ range }}"),
            "model, line 1: a function cannot be printed; make it a list");
  EXPECT_EQ(RenderError("{{ strftime_now }}").substr(0, 14), "model, line 1:");
}

// ---- limits -------------------------------------------------------------------------------------

TEST(ChatTemplate, WorkIsLimited) {
  ChatOptions options;
  options.limits = {100'000, std::uint64_t{1} << 20, std::size_t{1} << 16};
  const auto status = [&](const std::string& text) {
    const auto rendered = Rendered(text, options);
    return rendered.ok() ? Status::Ok() : rendered.status();
  };
  const std::string doubling =
      "{% set ns = namespace(a='xxxxxxxx') %}{% for i in range(60) %}"
      "{% set ns.a = ns.a + ns.a %}{% endfor %}{{ ns.a }}";
  const std::pair<std::string, const char*> cases[] = {
      {"{% for i in range(10000) %}{% if 1 < 2 and 2 < 3 and 3 < 4 and 4 < 5 %}{% endif %}"
       "{% endfor %}",
       "steps"},
      {doubling, "bytes of values"},
      {"{{ 'x' * 100000000000 }}", "too large"},
      {"{{ 'x' * 70000 }}", "the text has more than 65536 bytes"},
      {"{{ range(100001) }}", "range() gives more than 100000 numbers"},
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nest too deep"},
      {"{% set ns = namespace(a=[]) %}{% for i in range(100) %}{% set ns.a = [ns.a] %}"
       "{% endfor %}",
       "values nest deeper than 64"},
      {"{% set ns = namespace(a=[1]) %}{% for i in range(50) %}{% set ns.a = [ns.a, ns.a] %}"
       "{% endfor %}{{ ns.a }}",
       "steps"},
      {"{% set ns = namespace(a=[1]) %}{% for i in range(50) %}{% set ns.a = [ns.a, ns.a] %}"
       "{% endfor %}{{ ns.a == [ns.a[0], ns.a[1]] }}",
       "steps"},
      {"{% set a = 'x' * 60000 %}{% set b = 'x' * 30000 ~ 'y' %}{% for i in range(1000) %}"
       "{{ b in a }}{% endfor %}",
       "steps"},
      {"{{ ('a\n' * 9000) | indent(1000) }}", "bytes of values"},
  };
  for (const auto& [text, part] : cases) {
    const Status result = status(text);
    EXPECT_EQ(result.code(), StatusCode::kResourceExhausted) << text << result.ToString();
    EXPECT_THAT(result.message(), HasSubstr(part)) << text;
  }
}

TEST(ChatTemplate, DepthOfTheTreeIsLimited) {
  const auto repeat = [](const std::string& text, int count) {
    std::string result;
    for (int i = 0; i < count; ++i) result += text;
    return result;
  };
  constexpr int kMany = 20'000;
  for (const std::string& text :
       {"{{ " + repeat("(", kMany) + "1" + repeat(")", kMany) + " }}",
        "{{ " + repeat("[", kMany) + repeat("]", kMany) + " }}",
        "{{ " + repeat("-", kMany) + "1 }}", "{{ " + repeat("not ", kMany) + "1 }}",
        "{{ 1" + repeat("+1", kMany) + " }}", "{{ a" + repeat(".a", kMany) + " }}",
        "{{ a" + repeat("[0]", kMany) + " }}", "{{ a" + repeat("|trim", kMany) + " }}",
        "{{ 1" + repeat(" if 1 else 1", kMany) + " }}", "{{ 1" + repeat(" and 1", kMany) + " }}",
        repeat("{% if 1 %}", kMany),
        "{{ " + repeat("{1:", kMany) + "1" + repeat("}", kMany) + " }}",
        "{{ a" + repeat("(1)", kMany) + " }}", "{{ 1" + repeat("**1", kMany) + " }}"}) {
    EXPECT_THAT(ParseError(text), HasSubstr("too deep")) << text.substr(0, 20);
  }
  EXPECT_EQ(Rendered("{{ 'a'" + repeat(" ~ 'a'", 1000) + " }}").value(), std::string(1001, 'a'));
  EXPECT_EQ(Rendered("{{ " + repeat("(", 50) + "1" + repeat(")", 50) + " }}").value(), "1");
  EXPECT_THAT(ParseError("{{ x|map(" + repeat("'map', ", 100) + "'trim') }}"),
              HasSubstr("too many arguments"));
}

// ---- files --------------------------------------------------------------------------------------

class ChatTemplateFiles : public ::testing::Test {
 protected:
  void Write(const char* name, std::string_view text) {
    ASSERT_TRUE(WriteFileAtomic(folder_ / name, text).ok());
  }
  std::string Load() {
    const auto loaded = ChatTemplate::LoadFrom(folder_.path());
    if (!loaded.ok()) return loaded.status().message();
    if (!loaded->has_value()) return "none";
    const std::vector<ChatValue> messages = {ChatValue::Message("user", "hi")};
    return (*loaded)->Render(messages, {}).value();
  }
  TemporaryFolder folder_;
};

constexpr char kTokens[] = R"("bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false},
  "model_max_length": 1000000000000000019884624838656)";

TEST_F(ChatTemplateFiles, ComeFromTheDirectory) {
  EXPECT_EQ(Load(), "none");
  Write("tokenizer_config.json", "{" + std::string(kTokens) + "}");
  EXPECT_EQ(Load(), "none");
  const std::string body = R"({{ bos_token }}{{ messages[0].content }}{{ eos_token }})";
  Write("tokenizer_config.json",
        "{" + std::string(kTokens) + ", \"chat_template\": \"1" + body + "\"}");
  EXPECT_EQ(Load(), "1<s>hi</s>");
  Write("tokenizer_config.json", "{" + std::string(kTokens) +
                                     R"(, "chat_template": [{"name": "tool_use", "template": "t"},
        {"name": "default", "template": "2)" +
                                     body + "\"}]}");
  EXPECT_EQ(Load(), "2<s>hi</s>");
  Write("chat_template.jinja", "3" + body + "{{ pad_token }}\n");
  EXPECT_EQ(Load(), "3<s>hi</s>");
  Write("special_tokens_map.json", R"({"pad_token": "<pad>", "bos_token": "other"})");
  EXPECT_EQ(Load(), "3<s>hi</s><pad>");
}

TEST_F(ChatTemplateFiles, WhatIsWrongIsNamed) {
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "t"}]})");
  EXPECT_EQ(Load(), folder_ / "tokenizer_config.json" +
                        ": chat_template has no entry that is named \"default\"");
  Write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_EQ(Load(),
            folder_ / "tokenizer_config.json" + ": chat_template is neither a text nor a list");
  Write("tokenizer_config.json", "[]");
  EXPECT_EQ(Load(), folder_ / "tokenizer_config.json" +
                        " is not a JSON object: copy it again from the model's directory");
  Write("tokenizer_config.json", "{}");
  Write("chat_template.jinja", "a\n{{ a|foo }}");
  EXPECT_EQ(Load(),
            folder_ / "chat_template.jinja" +
                ", line 2: the filter 'foo' is not supported; copy the template again from the "
                "model's directory, or write it another way");
}

TEST(ChatTemplate, VariablesCountInTheirOrder) {
  const auto parsed =
      ChatTemplate::Parse("{{ bos_token }} {{ tools }} {{ x }} {{ add_generation_prompt }}", "t");
  ASSERT_TRUE(parsed.ok());
  const ChatTemplate with = parsed->With({{"bos_token", ChatValue("<s>")}, {"x", ChatValue("1")}});
  EXPECT_EQ(with.Render({}, {}).value(), "<s> None 1 False");
  ChatOptions options;
  options.add_generation_prompt = true;
  options.variables = {{"x", ChatValue("2")}, {"tools", ChatValue("3")}};
  EXPECT_EQ(with.Render({}, options).value(), "<s> 3 2 True");
}

// transformers leaves keys without a value out, and names thoughts as templates look for them.
TEST(ChatTemplate, MessagesAreAsTransformersHandsThemOver) {
  const auto parsed = ChatTemplate::Parse("{{ messages }}", "t");
  const auto messages = ParseMessages(
      R"([{"role": "a", "content": null, "tool_calls": null}, {"role": "b", "reasoning": "r"},
          {"role": "c", "thinking": "t", "reasoning_content": null}])");
  EXPECT_EQ(parsed->Render(*messages, {}).value(),
            "[{'role': 'a'}, {'role': 'b', 'reasoning': 'r', 'thinking': 'r', "
            "'reasoning_content': 'r'}, {'role': 'c', 'thinking': 't', "
            "'reasoning_content': 't'}]");
}

}  // namespace
}  // namespace shoal::dataset
