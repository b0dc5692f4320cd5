#include "dataset/prepare/sample_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "tests/unit/dataset/prepare/byte_tokenizer.h"

namespace shoal::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::vector<std::int32_t>;

constexpr char kChatMl[] =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

ByteTokenizer ChatTokenizer() { return ByteTokenizer({"<|im_start|>", "<|im_end|>", "assistant"}); }

// The text of the tokens that count, with | where others are between them.
std::string Counted(const Tokenizer& tokenizer, const EncodedSample& sample) {
  std::string text;
  for (std::size_t i = 0; i < sample.ids.size(); ++i) {
    if (sample.counts[i] != 0) {
      text += *tokenizer.Decode(std::span(sample.ids).subspan(i, 1));
    } else if (!text.empty() && text.back() != '|') {
      text += '|';
    }
  }
  return text;
}

TEST(TokensInRanges, TokensThatOverlapCount) {
  const ByteTokenizer tokenizer({"abc"});
  const std::string text = "xabcabcy";
  Ids ids;
  tokenizer.Encode(text, &ids);
  ASSERT_EQ(ids.size(), 4u);
  const auto inside = [&](std::vector<ByteRange> ranges) {
    return TokensInRanges(tokenizer, text, ids, ranges);
  };
  EXPECT_THAT(inside({}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(inside({{1, 4}}), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(inside({{2, 5}}), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(inside({{0, 1}, {7, 8}}), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(inside({{0, 8}}), ElementsAre(1, 1, 1, 1));
}

// By where each token's bytes lie.
TEST(TokensInRanges, IsTheSlowOne) {
  std::mt19937 random(2);
  const ByteTokenizer tokenizer({"ab", "abb", "ba", "<|x|>"});
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (unsigned i = random() % 40; i-- > 0;) {
      text += random() % 8 == 0 ? "<|x|>" : std::string(1, "abc"[random() % 3]);
    }
    std::vector<std::size_t> borders(2 * (random() % 4));
    for (std::size_t& border : borders) border = random() % (text.size() + 1);
    std::ranges::sort(borders);
    std::vector<ByteRange> ranges;
    for (std::size_t i = 0; i + 1 < borders.size(); i += 2) {
      if (borders[i] < borders[i + 1]) ranges.push_back({borders[i], borders[i + 1]});
    }
    Ids ids;
    tokenizer.Encode(text, &ids);
    std::vector<std::uint8_t> expected;
    std::size_t at = 0;
    for (const std::int32_t id : ids) {
      const std::size_t end = at + tokenizer.Decode(std::span(&id, 1))->size();
      expected.push_back(std::ranges::any_of(
          ranges, [&](const ByteRange& range) { return range.begin < end && at < range.end; }));
      at = end;
    }
    EXPECT_EQ(TokensInRanges(tokenizer, text, ids, ranges), expected) << text;
  }
}

class SampleEncoderTest : public ::testing::Test {
 protected:
  static RawSample Chat(std::vector<std::pair<const char*, const char*>> messages) {
    RawSample sample;
    sample.form = SampleForm::kConversation;
    for (const auto& [role, content] : messages) {
      sample.messages.push_back(ChatValue::Message(role, content));
    }
    return sample;
  }
  Result<EncodedSample> Encode(const RawSample& sample, LossOn loss = LossOn::kAnswers) const {
    return SampleEncoder(tokenizer_, &template_, loss, {}).Encode(sample);
  }

  const ByteTokenizer tokenizer_ = ChatTokenizer();
  const ChatTemplate template_ = *ChatTemplate::Parse(kChatMl, "chatml");
};

TEST_F(SampleEncoderTest, EveryTurnOfTheAssistantCounts) {
  const auto sample = Encode(Chat(
      {{"system", "S"}, {"user", "U"}, {"assistant", "A"}, {"user", "V"}, {"assistant", "B"}}));
  ASSERT_TRUE(sample.ok()) << sample.status().ToString();
  EXPECT_EQ(*tokenizer_.Decode(sample->ids),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n"
            "<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nV<|im_end|>\n"
            "<|im_start|>assistant\nB<|im_end|>\n");
  // With the token that ends the turn; what the template writes behind it is its own affair.
  EXPECT_THAT(Counted(tokenizer_, *sample),
              testing::MatchesRegex("A<\\|im_end\\|>\n?\\|B<\\|im_end\\|>\n?\\|?"));
}

TEST_F(SampleEncoderTest, OnlyTheCompletionOfAConversationCounts) {
  RawSample sample = Chat({{"user", "U"}, {"assistant", "A"}, {"user", "V"}, {"assistant", "B"}});
  sample.prompt_answers = 1;
  EXPECT_THAT(Counted(tokenizer_, *Encode(sample)),
              testing::MatchesRegex("B<\\|im_end\\|>\n?\\|?"));
}

TEST_F(SampleEncoderTest, AllOfAConversation) {
  const auto sample = Encode(Chat({{"user", "U"}}), LossOn::kAll);
  ASSERT_TRUE(sample.ok()) << sample.status().ToString();
  EXPECT_EQ(Counted(tokenizer_, *sample), "user\nU<|im_end|>\n");
}

TEST_F(SampleEncoderTest, ConversationsThatCannotBe) {
  EXPECT_FALSE(Encode(Chat({{"user", "U"}})).ok());
  const SampleEncoder without(tokenizer_, nullptr, LossOn::kAnswers, {});
  EXPECT_THAT(without.Encode(Chat({{"user", "U"}, {"assistant", "A"}})).status().message(),
              HasSubstr("chat template"));
  const auto raising = *ChatTemplate::Parse("\n{{ raise_exception('no system here') }}", "mine");
  const SampleEncoder raises(tokenizer_, &raising, LossOn::kAnswers, {});
  EXPECT_THAT(raises.Encode(Chat({{"user", "U"}, {"assistant", "A"}})).status().message(),
              testing::AllOf(HasSubstr("mine"), HasSubstr("line 2"), HasSubstr("no system here")));
}

TEST(SampleEncoder, TextsAreWrapped) {
  const ByteTokenizer tokenizer({"<s>", "</s>", "[SEP]"}, 257, {{256}, {258}});
  const auto encode = [&](RawSample sample, LossOn loss) {
    return *SampleEncoder(tokenizer, nullptr, loss, {}).Encode(sample);
  };
  RawSample sample;
  sample.text = "ab";
  EncodedSample encoded = encode(sample, LossOn::kAnswers);
  EXPECT_THAT(encoded.ids, ElementsAre(256, 'a', 'b', 257));
  EXPECT_THAT(encoded.counts, ElementsAre(0, 1, 1, 1));
  sample.form = SampleForm::kCompletion;
  sample.completion = "c";
  encoded = encode(sample, LossOn::kAnswers);
  EXPECT_THAT(encoded.ids, ElementsAre(256, 'a', 'b', 'c', 257));
  EXPECT_THAT(encoded.counts, ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(encode(sample, LossOn::kAll).counts, ElementsAre(0, 1, 1, 1, 1));
  sample.form = SampleForm::kClass;
  sample.label = "x";
  encoded = encode(sample, LossOn::kAnswers);
  EXPECT_THAT(encoded.ids, ElementsAre(256, 'a', 'b', 258));
  EXPECT_THAT(encoded.counts, IsEmpty());
  EXPECT_EQ(encoded.tail, 1u);
  EXPECT_EQ(encoded.label, "x");
}

TEST(SampleEncoder, TwoTextsStandAsTheTokenizerSays) {
  const auto encode = [](std::optional<PairWrapping> pair) {
    const ByteTokenizer tokenizer({"<s>", "</s>", "ab"}, -1, {{256}, {257}, std::move(pair)});
    RawSample sample;
    sample.form = SampleForm::kClass;
    sample.text = "a";
    sample.pair = "bb";
    sample.label = "x";
    return SampleEncoder(tokenizer, nullptr, LossOn::kAnswers, {}).Encode(sample);
  };
  const auto encoded = encode(PairWrapping{{256}, {257, 257}, {257}});
  ASSERT_TRUE(encoded.ok()) << encoded.status().ToString();
  EXPECT_THAT(encoded->ids, ElementsAre(256, 'a', 257, 257, 'b', 'b', 257));
  EXPECT_THAT(encoded->counts, IsEmpty());
  EXPECT_EQ(encoded->label, "x");
  ASSERT_TRUE(encoded->pair.has_value());
  EXPECT_EQ(encoded->pair->first, 1U);
  EXPECT_EQ(encoded->pair->first_end, 2U);
  EXPECT_EQ(encoded->pair->second, 4U);
  EXPECT_EQ(encoded->pair->second_end, 6U);
  EXPECT_THAT(encode(std::nullopt).status().message(), HasSubstr("what stands between two"));
  EXPECT_FALSE(encoded->type_border.has_value());
  // The type 1 begins behind the first one between, or is not to be had.
  EXPECT_EQ(encode(PairWrapping{{256}, {257, 257}, {257}, PairTypes::kTwo, 1})->type_border, 3U);
  EXPECT_THAT(encode(PairWrapping{{256}, {257}, {257}, PairTypes::kOther}).status().message(),
              HasSubstr("other token types"));
}

// A prompt and a completion are encoded apart: no token lies on their border.
TEST(SampleEncoder, NoTokenIsPromptAndCompletion) {
  const ByteTokenizer tokenizer({"ab"});
  RawSample sample;
  sample.form = SampleForm::kCompletion;
  sample.text = "a";
  sample.completion = "b";
  const auto encoded = *SampleEncoder(tokenizer, nullptr, LossOn::kAnswers, {}).Encode(sample);
  EXPECT_THAT(encoded.ids, ElementsAre('a', 'b'));
  EXPECT_THAT(encoded.counts, ElementsAre(0, 1));
}

}  // namespace
}  // namespace shoal::dataset
