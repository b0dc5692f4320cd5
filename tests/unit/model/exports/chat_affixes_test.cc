#include "model/exports/chat_affixes.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "common/file.h"

namespace shoal::model {
namespace {

std::optional<ChatAffixes> AffixesOf(const std::string& text, const std::string& begin) {
  const auto parsed = dataset::ChatTemplate::Parse(text, "test");
  EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
  return FindChatAffixes(parsed->With({{"bos_token", dataset::ChatValue(begin)},
                                       {"eos_token", dataset::ChatValue(std::string("</s>"))}}),
                         begin);
}

std::optional<ChatAffixes> OfFamily(const std::string& name, const std::string& begin) {
  const std::string path =
      std::string(std::getenv("SHOAL_TEST_DATA")) + "/chat/templates/" + name + ".jinja";
  return AffixesOf(ReadFile(path, 1 << 20).value(), begin);
}

TEST(ChatAffixes, ChatMl) {
  const auto found = OfFamily("chatml", "");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->before_system, "<|im_start|>system\n");
  EXPECT_EQ(found->behind_system, "<|im_end|>\n");
  EXPECT_EQ(found->before_user, "<|im_start|>user\n");
  EXPECT_EQ(found->before_answer, "<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(found->behind_answer, "<|im_end|>\n");
  EXPECT_FALSE(found->system_within);
}

TEST(ChatAffixes, ASystemOfItsOwn) {
  const auto found = OfFamily("qwen2", "");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->before_system, "<|im_start|>system\n");
  EXPECT_EQ(found->behind_system, "<|im_end|>\n");
  EXPECT_EQ(found->before_user, "<|im_start|>user\n");
  EXPECT_FALSE(found->default_system.empty());
}

TEST(ChatAffixes, GemmaPutsTheSystemIntoTheUsersTurn) {
  const auto found = OfFamily("gemma3", "<bos>");
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->system_within);
  EXPECT_EQ(found->before_user, "<start_of_turn>user\n");
  EXPECT_EQ(found->behind_system, "\n\n");
  EXPECT_EQ(found->before_answer, "<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(found->behind_answer, "<end_of_turn>\n");
}

TEST(ChatAffixes, WithoutASystem) {
  const auto found = OfFamily("gemma2", "<bos>");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->before_system + found->behind_system, "");
}

TEST(ChatAffixes, OtherFormsAreNotGuessed) {
  // Counts turns, so that no affix says it.
  EXPECT_FALSE(AffixesOf("{% for m in messages %}{{ loop.index }}{{ m.content }}{% endfor %}", ""));
  // Upper case: the text itself is not there.
  EXPECT_FALSE(AffixesOf("{% for m in messages %}{{ m.content | upper }}{% endfor %}", ""));
  EXPECT_FALSE(AffixesOf("{{ raise_exception('no') }}", ""));
  EXPECT_FALSE(AffixesOf("", ""));
}

}  // namespace
}  // namespace shoal::model
