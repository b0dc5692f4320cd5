// PrepareData on files of samples and labelled texts, from bytes to rows.

#include "dataset/prepare/prepare_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "common/file.h"
#include "dataset/tokenizer.h"
#include "tests/unit/dataset/test_paths.h"

namespace shoal::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Ids = std::vector<std::int32_t>;

constexpr char kTemplate[] =
    "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    "[{{ m.role }}]{{ m.content }}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

struct Row {
  Ids tokens, labels, segments;
};

class PrepareSamplesTest : public ::testing::Test {
 protected:
  PrepareSamplesTest() {
    // GPT-2's tokenizer with a chat template beside it.
    std::filesystem::copy(TinyGpt2(), folder_ / "model");
    Write("model/chat_template.jinja", kTemplate);
    options_.tokenizer_directory = folder_ / "model";
    options_.output = folder_ / "out.shoal";
    options_.row_tokens = 32;
    options_.threads = 1;
    options_.validation_fraction = 0;
    tokenizer_ = *LoadTokenizer(options_.tokenizer_directory);
  }

  std::string Write(const std::string& name, const std::string& bytes) {
    EXPECT_TRUE(WriteFileAtomic(folder_ / name, bytes).ok());
    return folder_ / name;
  }

  std::string TextOf(const Ids& ids) const { return *tokenizer_->Decode(ids); }
  Ids Encode(std::string_view text) const {
    Ids ids;
    tokenizer_->Encode(text, &ids);
    return ids;
  }

  PrepareReport Prepare() {
    const auto report = PrepareData(options_);
    EXPECT_TRUE(report.ok()) << report.status().ToString();
    if (!report.ok()) return {};
    data_ = *OpenPreparedData(options_.output);
    return *report;
  }

  Row At(std::uint64_t row) const {
    Row read;
    EXPECT_TRUE(data_->AppendRow(SampleId{row}, &read.tokens, &read.labels, &read.segments).ok());
    return read;
  }
  Ids FirstTokens(std::uint64_t row, std::size_t count) const {
    Ids tokens = At(row).tokens;
    tokens.resize(count);
    return tokens;
  }
  // The labels of a row that count, as text.
  std::string Learned(std::uint64_t row) const {
    Ids ids;
    for (const std::int32_t label : At(row).labels) {
      if (label != kIgnoreLabel) ids.push_back(label);
    }
    return TextOf(ids);
  }

  void ExpectFailure(const std::string& words) {
    Write("out.shoal", "SHOALDAT");
    const auto report = PrepareData(options_);
    ASSERT_FALSE(report.ok()) << words;
    EXPECT_THAT(report.status().message(), HasSubstr(words));
    EXPECT_THAT(report.status().message(), Not(HasSubstr("\n")));
    EXPECT_EQ(*ReadFile(options_.output, 100), "SHOALDAT");
  }

  TemporaryFolder folder_;
  PrepareOptions options_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::shared_ptr<const PreparedData> data_;
};

constexpr char kChats[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"one\"},"
    "{\"role\": \"assistant\", \"content\": \"two\"}]}\n"
    "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"},"
    "{\"role\": \"assistant\", \"content\": \"b\"}, {\"role\": \"user\", \"content\": \"c\"},"
    "{\"role\": \"assistant\", \"content\": \"d\"}]}\n";

TEST_F(PrepareSamplesTest, Conversations) {
  options_.text_files = {Write("a.jsonl", kChats)};
  const PrepareReport report = Prepare();
  EXPECT_EQ(report.info.kind, DataKind::kSamples);
  EXPECT_FALSE(report.info.segmented);
  EXPECT_EQ(report.documents, 2u);
  EXPECT_EQ(report.info.train_rows, 2u);
  EXPECT_EQ(Learned(0), "two<|endoftext|>");
  EXPECT_EQ(Learned(1), "b<|endoftext|>d<|endoftext|>");
  const Ids ids = Encode("[user]one<|endoftext|>[assistant]two<|endoftext|>");
  EXPECT_EQ(FirstTokens(0, ids.size()), ids);
  ASSERT_EQ(report.first_row.size(), 2u);
  EXPECT_EQ(report.first_row[0].text, "[user]one<|endoftext|>[assistant]");
  EXPECT_EQ(report.first_row[1], (PreviewPiece{"two<|endoftext|>", true, false}));
  EXPECT_EQ(report.loss_tokens, data_->LabelCount(SampleId{0}) + data_->LabelCount(SampleId{1}));
  EXPECT_EQ(report.used_tokens, report.info.tokens);
  EXPECT_THAT(report.notes, IsEmpty());

  options_.loss = LossOn::kAll;
  Prepare();
  EXPECT_EQ(Learned(0), TextOf(Ids(ids.begin() + 1, ids.end())));
}

TEST_F(PrepareSamplesTest, ShareGpt) {
  options_.text_files = {Write("a.json",
                               "[{\"id\": \"x\", \"conversations\": ["
                               "{\"from\": \"human\", \"value\": \"one\"},"
                               "{\"from\": \"gpt\", \"value\": \"two\"}]}]")};
  EXPECT_EQ(Prepare().documents, 1u);
  EXPECT_EQ(Learned(0), "two<|endoftext|>");
  const Ids ids = Encode("[user]one<|endoftext|>[assistant]two<|endoftext|>");
  EXPECT_EQ(FirstTokens(0, ids.size()), ids);
}

TEST_F(PrepareSamplesTest, PackedConversations) {
  options_.text_files = {Write("a.json", "[" + std::string(kChats, std::strchr(kChats, '\n')) +
                                             "," + (std::strchr(kChats, '\n') + 1) + "]")};
  options_.pack = true;
  options_.row_tokens = 80;
  const PrepareReport report = Prepare();
  EXPECT_TRUE(report.info.segmented);
  EXPECT_EQ(report.info.train_rows, 1u);
  EXPECT_EQ(Learned(0), "two<|endoftext|>b<|endoftext|>d<|endoftext|>");
  const Row row = At(0);
  const std::size_t first = Encode("[user]one<|endoftext|>[assistant]two<|endoftext|>").size();
  EXPECT_EQ(row.segments[first - 1], 0);
  EXPECT_EQ(row.segments[first], 1);
  EXPECT_EQ(row.labels[first - 1], kIgnoreLabel);
  EXPECT_EQ(row.segments.back(), kPaddingSegment);
}

TEST_F(PrepareSamplesTest, CompletionsAreNoChat) {
  options_.text_files = {Write("a.jsonl",
                               "{\"prompt\": \"One fish \", \"completion\": \"two fish\"}\n"
                               "{\"prompt\": \"Red\", \"completion\": \" blue\"}\n")};
  options_.validation_files = {options_.text_files[0]};
  const PrepareReport report = Prepare();
  EXPECT_EQ(report.info.validation_rows, 2u);
  EXPECT_EQ(Learned(0), "two fish<|endoftext|>");
  Ids ids = Encode("One fish ");
  for (const std::int32_t id : Encode("two fish")) ids.push_back(id);
  EXPECT_EQ(FirstTokens(0, ids.size()), ids);
  EXPECT_EQ(At(3).labels, At(1).labels);
}

TEST_F(PrepareSamplesTest, WhatDoesNotFitIsCutOrLeftOut) {
  std::string lines;
  const std::string words(200, '\x41');
  lines += "{\"prompt\": \"a\", \"completion\": \"" + words + "\"}\n";  // cut
  lines += "{\"prompt\": \"" + words + "\", \"completion\": \"a\"}\n";  // no answer is left
  lines += "{\"prompt\": \"a\", \"completion\": \"b\"}\n";
  options_.text_files = {Write("a.jsonl", lines)};
  options_.row_tokens = 8;
  const PrepareReport report = Prepare();
  EXPECT_EQ(report.info.train_rows, 2u);
  EXPECT_EQ(report.cuts.cut_samples, 1u);
  EXPECT_EQ(report.cuts.cut_tokens, Encode(words).size() + 2 - 8);
  EXPECT_EQ(report.cuts.dropped_samples, 1u);
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_THAT(report.notes[0], HasSubstr("1 of 3 samples were left out"));
}

TEST_F(PrepareSamplesTest, DocumentsArePacked) {
  options_.text_files = {Write("a.jsonl", "{\"text\": \"One fish\"}\n{\"text\": \"Two fish\"}\n"),
                         Write("b.txt", std::string(30, '\x01'))};  // a token each
  options_.pack = true;
  options_.row_tokens = 16;
  const PrepareReport report = Prepare();
  EXPECT_EQ(report.info.kind, DataKind::kSamples);
  EXPECT_EQ(report.documents, 3u);
  // The long one takes two rows, all but its last token, which would be alone.
  Ids expected = Encode("One fish<|endoftext|>");
  const std::size_t first = expected.size();
  for (const std::int32_t id : Encode("Two fish<|endoftext|>")) expected.push_back(id);
  ASSERT_LE(expected.size(), 16u);
  const Row row = At(0);
  EXPECT_EQ(FirstTokens(0, expected.size()), expected);
  EXPECT_EQ(row.segments[first], 1);
  EXPECT_EQ(data_->LabelCount(SampleId{0}), expected.size() - 2);
  EXPECT_EQ(report.info.train_rows, 3u);
  EXPECT_EQ(data_->LabelCount(SampleId{1}), 15u);
}

TEST_F(PrepareSamplesTest, LabelledTexts) {
  options_.text_files = {Write("a.tsv", "x\t1\t\tGood one.\nx\t0\t*\tBad one.\n")};
  options_.validation_files = {Write("v.csv", "q,1,,Held out\n")};
  options_.columns = {"4", "2"};
  const PrepareReport report = Prepare();
  EXPECT_EQ(report.info.kind, DataKind::kClasses);
  EXPECT_TRUE(report.info.segmented);
  EXPECT_EQ(report.info.classes, 2u);
  EXPECT_THAT(report.classes, IsEmpty());
  EXPECT_EQ(report.first_label, 1);
  EXPECT_EQ(report.loss_tokens, 3u);
  const Row row = At(1);
  const Ids ids = Encode("Bad one.");
  EXPECT_EQ(FirstTokens(1, ids.size()), ids);
  EXPECT_EQ(row.labels[0], 0);
  EXPECT_EQ(row.segments[ids.size() - 1], 0);
  EXPECT_EQ(row.segments[ids.size()], kPaddingSegment);
  EXPECT_EQ(At(2).labels[0], 1);
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("all validation rows have the class 1")));
}

TEST_F(PrepareSamplesTest, LabelsThatAreNames) {
  options_.text_files = {Write("a.jsonl",
                               "{\"text\": \"one\", \"label\": \"spam\"}\n"
                               "{\"text\": \"two\", \"label\": \"ham\"}\n")};
  const PrepareReport report = Prepare();
  EXPECT_THAT(report.classes, ElementsAre("ham", "spam"));
  EXPECT_EQ(At(0).labels[0], 1);
}

// CoLA must not be copied, and may be absent.
TEST_F(PrepareSamplesTest, Cola) {
  const std::string cola = test_support::Environment("SHOAL_SHARED_DATA") + "/cola/";
  if (!std::filesystem::exists(cola + "in_domain_train.tsv")) GTEST_SKIP() << "no CoLA";
  options_.text_files = {cola + "in_domain_train.tsv"};
  options_.validation_files = {cola + "in_domain_dev.tsv", cola + "out_of_domain_dev.tsv"};
  options_.columns = {"4", "2"};
  options_.row_tokens = 64;
  const PrepareReport report = Prepare();
  EXPECT_EQ(report.info.train_rows, 8551u);
  EXPECT_EQ(report.info.validation_rows, 527u + 516u);
  EXPECT_EQ(report.info.classes, 2u);
  std::uint64_t ones = 0;
  for (std::uint64_t row = 0; row < 8551; ++row) ones += At(row).labels[0] == 1;
  EXPECT_EQ(ones, 6023u);
  EXPECT_EQ(report.cuts.dropped_samples, 0u);
}

TEST_F(PrepareSamplesTest, ThreadsDoNotChangeTheFile) {
  std::string lines;
  for (int i = 0; i < 4000; ++i) {
    lines += "{\"prompt\": \"" + std::string(static_cast<std::size_t>(i % 50 + 1), 'q') +
             " fish\", \"completion\": \"number " + std::to_string(i) + "\"}\n";
  }
  options_.text_files = {Write("a.jsonl", lines)};
  options_.validation_fraction = 0.1;
  options_.pack = true;
  Prepare();
  const auto one = ReadFile(options_.output, 1 << 26);
  options_.threads = 3;
  const PrepareReport report = Prepare();
  EXPECT_TRUE(*one == *ReadFile(options_.output, 1 << 26));
  EXPECT_GT(report.info.validation_rows, 0u);
  std::uint64_t labels = 0;
  for (std::uint64_t row = 0; row < report.info.train_rows + report.info.validation_rows; ++row) {
    labels += data_->LabelCount(SampleId{row});
  }
  EXPECT_EQ(report.loss_tokens, labels);
}

TEST_F(PrepareSamplesTest, RefusalsSayWhatToDo) {
  const auto expect = [&](const std::string& bytes, const std::string& words) {
    options_.text_files = {Write("a.jsonl", bytes)};
    ExpectFailure(words);
  };
  expect("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n", "a.jsonl, line 1: ");
  expect(std::string(kChats) +
             "{\"messages\": [{\"role\": \"tool\", \"content\": \"a\"},"
             "{\"role\": \"assistant\", \"content\": \"a\"}]}\n",
         "a.jsonl, line 3: ");
  ExpectFailure("no tools");
  expect("{\"prompt\": \"" + std::string(300, '\x42') + "\", \"completion\": \"a\"}\n",
         "none of the 1 training samples has a token that the loss counts on");
  expect("{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"text\": \"a\"}\n",
         "a.jsonl, line 2: no field \"prompt\"; mend or remove the line");
  expect("{\"text\": \"a\", \"label\": 1}\n{\"text\": \"a\", \"label\": -1}\n",
         "a.jsonl, line 2: label \"-1\"");
  options_.text_files = {Write("a.jsonl", kChats)};
  options_.validation_files = {Write("v.txt", "Plain text")};
  ExpectFailure("v.txt has running text, ");
  options_.validation_files = {Write("v.jsonl", "\n")};
  ExpectFailure("validation files are empty");
  options_.validation_files = {};
  std::filesystem::remove(folder_ / "model/chat_template.jinja");
  ExpectFailure("a.jsonl has conversations, but " + (folder_ / "model") + " has no chat template");
  options_.text_files = {Write("a.tsv", "a\t1\nb\t0\n")};
  ExpectFailure("name one with --label-column");
  options_.columns = {"1", "2"};
  options_.pack = true;
  ExpectFailure("--pack is not for labelled texts");
  options_.columns = {};
  options_.text_files = {Write("a.jsonl", "")};
  ExpectFailure("training files are empty");
}

TEST_F(PrepareSamplesTest, PairsOfTextsHaveARow) {
  const std::string tokenizers = Environment("SHOAL_TEST_DATA") + "/tokenizers/";
  options_.tokenizer_directory = tokenizers + "roberta";
  options_.row_tokens = 9;
  tokenizer_ = *LoadTokenizer(options_.tokenizer_directory);
  const std::string longer = "b c b c b c b c";
  options_.text_files = {
      Write("a.tsv", "text\ttext_pair\tlabel\na\tb c\tyes\na\t" + longer + "\tno\n"),
      Write("b.jsonl",
            "{\"text\": \"a\", \"text_pair\": \"b c\", \"label\": \"no\"}\n"
            "{\"text\": \"a\", \"label\": \"no\"}\n")};
  const PrepareReport report = Prepare();
  EXPECT_EQ(report.info.kind, DataKind::kClasses);
  EXPECT_THAT(report.classes, ElementsAre("no", "yes"));
  EXPECT_FALSE(report.info.typed);
  EXPECT_EQ(data_->TypeBorder(SampleId{0}), 9U);
  // tests/data/tokenizers/index.json: "around_pair" and "around_a".
  const Ids pair = {0, 263, 2, 2, 272, 280, 2};
  EXPECT_EQ(FirstTokens(0, pair.size()), pair);
  EXPECT_EQ(At(0).segments, (Ids{0, 0, 0, 0, 0, 0, 0, -1, -1}));
  EXPECT_EQ(FirstTokens(1, 9), (Ids{0, 263, 2, 2, 272, 280, 272, 280, 2}));
  EXPECT_EQ(report.cuts.cut_samples, 1U);
  EXPECT_EQ(FirstTokens(2, pair.size()), pair);
  EXPECT_EQ(FirstTokens(3, 3), (Ids{0, 263, 2}));

  options_.row_tokens = 5;
  ExpectFailure("a.tsv, line 2: a row of 5 tokens has no room for two texts among the 4");
  options_.row_tokens = 9;
  options_.tokenizer_directory = tokenizers + "qwen";
  ExpectFailure("do not say what stands between two");
  options_.tokenizer_directory = tokenizers + "roberta";
  options_.columns = {"text", ""};  // the pair is not asked for
  options_.text_files.pop_back();
  Prepare();
  EXPECT_EQ(FirstTokens(0, 3), (Ids{0, 263, 2}));
}

TEST_F(PrepareSamplesTest, SecondTextsHaveTheTokenTypeOne) {
  options_.tokenizer_directory = Environment("SHOAL_TEST_DATA") + "/tokenizers/bert";
  options_.row_tokens = 8;
  tokenizer_ = *LoadTokenizer(options_.tokenizer_directory);
  const auto& around = *tokenizer_->wrapping().pair;
  Ids longer;
  tokenizer_->Encode("b c b c b c b c", &longer);
  ASSERT_EQ(longer.size(), 8U);
  options_.text_files = {Write("a.tsv",
                               "text\ttext_pair\tlabel\na\tb c\tyes\nb c b c b c b c\ta\tno\n"
                               "a\tb c b c b c b c\tno\n"),
                         Write("b.jsonl", "{\"text\": \"a\", \"label\": \"no\"}\n")};
  const PrepareReport report = Prepare();
  EXPECT_TRUE(report.info.typed);
  // [CLS] a [SEP] b c [SEP], as "pair_types" of tests/data/tokenizers/index.json.
  EXPECT_EQ(FirstTokens(0, 3).back(), around.between[0]);
  EXPECT_EQ(data_->TypeBorder(SampleId{0}), 3U);
  // Of a longer first text the border moves with its end, of a longer second one it stays.
  EXPECT_EQ(FirstTokens(1, 6).back(), around.between[0]);
  EXPECT_EQ(data_->TypeBorder(SampleId{1}), 6U);
  EXPECT_EQ(data_->TypeBorder(SampleId{2}), 3U);
  EXPECT_EQ(data_->TypeBorder(SampleId{3}), 8U) << "one text";
}

}  // namespace
}  // namespace shoal::dataset
