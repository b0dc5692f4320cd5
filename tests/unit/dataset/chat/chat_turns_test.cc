#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/file.h"
#include "dataset/chat/chat_template.h"
#include "tests/unit/dataset/test_paths.h"

namespace shoal::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ChatValue kAsk = ChatValue::Message("user", "What is it?");
const ChatValue kTwo = ChatValue::Message("assistant", "Two.");
const ChatValue kMore = ChatValue::Message("user", "And three?");
const ChatValue kNine = ChatValue::Message("assistant", "N\xc3\xa4ne");

ChatTemplate Parsed(std::string_view text) {
  const auto parsed = ChatTemplate::Parse(text, "t");
  SHOAL_CHECK(parsed.ok());
  return parsed->With({{"bos_token", ChatValue("<s>")}, {"eos_token", ChatValue("</s>")}});
}

ChatTemplate Family(const std::string& name) {
  return Parsed(
      ReadFile(test_support::Environment("SHOAL_TEST_DATA") + "/chat/templates/" + name + ".jinja",
               std::uint64_t{1} << 20)
          .value());
}

// The answers as text; or the error, alone.
std::vector<std::string> Answers(const ChatTemplate& chat_template,
                                 const std::vector<ChatValue>& messages) {
  const auto chat = RenderTurns(chat_template, messages, {});
  if (!chat.ok()) return {chat.status().message()};
  ChatOptions plain;
  EXPECT_EQ(chat->text, chat_template.Render(messages, plain).value());
  std::vector<std::string> answers;
  for (const ByteRange& range : chat->answers) {
    answers.push_back(chat->text.substr(range.begin, range.end - range.begin));
  }
  return answers;
}

TEST(RenderTurns, EveryTurnOfTheAssistantCounts) {
  const std::vector<ChatValue> messages = {kAsk, kTwo, kMore, kNine};
  EXPECT_THAT(Answers(Family("chatml"), messages),
              ElementsAre("Two.<|im_end|>\n", "N\xc3\xa4ne<|im_end|>\n"));
  EXPECT_THAT(Answers(Family("llama2"), messages), ElementsAre(" Two. </s>", " N\xc3\xa4ne </s>"));
  EXPECT_THAT(Answers(Family("mistral"), messages), ElementsAre(" Two.</s>", " N\xc3\xa4ne</s>"));
  EXPECT_THAT(Answers(Family("gemma2"), messages),
              ElementsAre("Two.<end_of_turn>\n", "N\xc3\xa4ne<end_of_turn>\n"));
  EXPECT_THAT(Answers(Family("chatml"), {kAsk, kTwo, kMore}), ElementsAre("Two.<|im_end|>\n"));
  EXPECT_THAT(Answers(Family("chatml"), {kTwo, kNine}),
              ElementsAre("Two.<|im_end|>", "N\xc3\xa4ne<|im_end|>\n"));
}

// Phi-3 writes the end of the text behind the last turn only: no turn but the last is a beginning.
TEST(RenderTurns, ATurnThatIsNoBeginningIsFoundByItsContent) {
  EXPECT_THAT(Answers(Family("phi3"), {kAsk, kTwo, kMore, kNine}),
              ElementsAre("Two.<|end|>", "N\xc3\xa4ne<|end|>\n</s>"));
}

// The generation prompt of DeepSeek begins a thought, which no answer in the text has.
TEST(RenderTurns, ATurnCanBeginOtherwiseThanItsPrompt) {
  EXPECT_THAT(Answers(Family("deepseek"), {kAsk, kTwo, kMore, kNine}),
              ElementsAre("Two.<\uff5cend\u2581of\u2581sentence\uff5c>",
                          "N\xc3\xa4ne<\uff5cend\u2581of\u2581sentence\uff5c>"));
}

TEST(RenderTurns, ThoughtsOfEarlierTurnsAreNotInTheText) {
  const auto messages = ParseMessages(
      R"([{"role": "user", "content": "1"},
          {"role": "assistant", "content": "<think>\nhm\n</think>\n\nTwo."},
          {"role": "user", "content": "2"},
          {"role": "assistant", "content": "Nine.", "reasoning_content": "so"}])");
  EXPECT_THAT(Answers(Family("qwen3"), *messages),
              ElementsAre("Two.<|im_end|>", "<think>\nso\n</think>\n\nNine.<|im_end|>\n"));
}

TEST(RenderTurns, CallsOfToolsCount) {
  const auto messages = ParseMessages(
      R"([{"role": "user", "content": "1"},
          {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
          {"role": "tool", "content": "r"}, {"role": "assistant", "content": "Nine."}])");
  EXPECT_THAT(Answers(Family("qwen2"), *messages),
              ElementsAre("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n"
                          "</tool_call><|im_end|>\n",
                          "Nine.<|im_end|>\n"));
}

// Earlier calls stand in the text without the empty thoughts that the last turn begins with.
TEST(RenderTurns, EarlierCallsOfToolsAreFound) {
  const auto messages = ParseMessages(
      R"([{"role": "user", "content": "1"},
          {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
          {"role": "tool", "content": "r"},
          {"role": "assistant", "content": "So:",
           "tool_calls": [{"function": {"name": "g", "arguments": {}}}]},
          {"role": "tool", "content": "r"}, {"role": "user", "content": "2"},
          {"role": "assistant", "content": "Nine."}])");
  EXPECT_THAT(
      Answers(Family("qwen3"), *messages),
      ElementsAre(
          "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call><|im_end|>",
          "So:\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call><|im_end|>",
          "<think>\n\n</think>\n\nNine.<|im_end|>\n"));
}

TEST(RenderTurns, AnswersInPartsAreFound) {
  const auto parts = ParseMessages(
      R"([{"role": "user", "content": "1"}, {"role": "assistant", "content": "a"},
          {"role": "assistant", "content": [{"text": "b"}]}, {"role": "user", "content": "2"}])");
  const std::string with_parts =
      "{{ messages|length }}{% for m in messages %}[{{ m.role }}]"
      "{{ m.content if m.content is string else m.content[0].text }}</s>{% endfor %}";
  EXPECT_THAT(Answers(Parsed(with_parts), *parts), ElementsAre("a</s>", "b</s>"));
}

// The first question ends with [last] where it is the last message.
TEST(RenderTurns, MarksOfGenerationCountWhereATurnIsNoBeginning) {
  EXPECT_THAT(Answers(Family("generation"), {kAsk, kTwo, kMore, kNine}),
              ElementsAre("Two.</s>", "N\xc3\xa4ne</s>"));
  EXPECT_TRUE(Family("generation").marks_generation());
  EXPECT_FALSE(Family("chatml").marks_generation());
}

constexpr char kNoBeginning[] =
    "{{ messages|length }}{% for m in messages %}[{{ m.role }}]{{ m.content|trim }}END{% endfor %}";

TEST(RenderTurns, TheEndTokenIsTheOneDirectlyBehind) {
  const auto text = [](std::string_view end) {
    std::string result = kNoBeginning;
    return result.replace(result.find("END"), 3, end);
  };
  const std::vector<ChatValue> messages = {kAsk, kTwo, kMore};
  EXPECT_THAT(Answers(Parsed(text("")), messages), ElementsAre("Two."));
  EXPECT_THAT(Answers(Parsed(text("</s>")), messages), ElementsAre("Two.</s>"));
  EXPECT_THAT(Answers(Parsed(text(" </s>\n")), messages), ElementsAre("Two. </s>"));
  EXPECT_THAT(Answers(Parsed(text("<|im_end|>\n")), messages), ElementsAre("Two.<|im_end|>"));
  EXPECT_THAT(Answers(Parsed(text("<|im_start|>")), messages), ElementsAre("Two."));
  EXPECT_THAT(Answers(Parsed(text("<s>")), messages), ElementsAre("Two."));
  EXPECT_THAT(Answers(Parsed(text("<no token>")), messages), ElementsAre("Two."));
  EXPECT_THAT(Answers(Parsed(text("</s>")), {kAsk, ChatValue::Message("assistant", " spaced ")}),
              ElementsAre("spaced</s>"));
}

TEST(RenderTurns, ATurnThatCannotBeFoundIsNamed) {
  const std::string twice = std::string(kNoBeginning) + "{{ messages[1].content }}";
  EXPECT_THAT(Answers(Parsed(twice), {kAsk, kTwo, kMore}),
              ElementsAre("t: turn 1 of the assistant cannot be found in the text of the "
                          "conversation"));
  // Its text is not written at all.
  EXPECT_THAT(Answers(Parsed("{{ messages|length }}"), {kAsk, kTwo, kMore}),
              ElementsAre(HasSubstr("turn 1 of the assistant")));
  EXPECT_THAT(Answers(Family("chatml"), {kAsk}),
              ElementsAre("the conversation has no turn of the assistant"));
  EXPECT_THAT(Answers(Family("llama2"), {kAsk, kMore, kTwo}),
              ElementsAre(HasSubstr("line 1: the template refuses the conversation: Turns must")));
}

}  // namespace
}  // namespace shoal::dataset
