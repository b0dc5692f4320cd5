#include "dataset/prepared_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>
#include <random>

#include "common/bytes.h"
#include "common/checksum.h"
#include "common/file.h"
#include "dataset/data_header.h"
#include "dataset/prepare/prepare_data.h"
#include "dataset/text_reader.h"
#include "dataset/tokenizer.h"
#include "tests/unit/dataset/test_paths.h"

namespace shoal::dataset {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

class PreparedDataTest : public ::testing::Test {
 protected:
  PreparedDataTest() {
    options_.tokenizer_directory = TinyGpt2();
    options_.output = folder_ / "out.shoal";
    options_.row_tokens = 16;
    options_.threads = 1;
    auto tokenizer = LoadTokenizer(TinyGpt2());
    EXPECT_TRUE(tokenizer.ok());
    tokenizer_ = std::move(*tokenizer);
  }

  std::string Write(const std::string& name, const std::string& bytes) {
    EXPECT_TRUE(WriteFileAtomic(folder_ / name, bytes).ok());
    return folder_ / name;
  }

  Ids Encode(std::string_view text) const {
    Ids ids;
    tokenizer_->Encode(text, &ids);
    return ids;
  }

  std::shared_ptr<const PreparedData> PrepareAndOpen() {
    const auto report = PrepareData(options_);
    EXPECT_TRUE(report.ok()) << report.status().ToString();
    if (!report.ok()) return nullptr;
    auto data = OpenPreparedData(options_.output);
    EXPECT_TRUE(data.ok()) << data.status().ToString();
    if (!data.ok()) return nullptr;
    EXPECT_EQ((*data)->info().tokens, report->info.tokens);
    EXPECT_EQ((*data)->info().train_rows, report->info.train_rows);
    EXPECT_EQ((*data)->info().text_sha256, report->info.text_sha256);
    return *data;
  }

  // Compares rows [first, first + rows) with the tokens of one split, row by row.
  void ExpectRows(const PreparedData& data, std::uint64_t first, const Ids& split) {
    const std::size_t width = options_.row_tokens;
    for (std::size_t start = 0; start < split.size(); start += width) {
      const SampleId sample{first + start / width};
      Ids tokens, labels, segments;
      ASSERT_TRUE(data.AppendRow(sample, &tokens, &labels, &segments).ok());
      ASSERT_EQ(tokens.size(), width);
      ASSERT_EQ(labels.size(), width);
      std::uint32_t count = 0;
      for (std::size_t i = 0; i < width; ++i) {
        const std::size_t at = start + i;
        EXPECT_EQ(tokens[i], at < split.size() ? split[at] : 0) << at;
        EXPECT_EQ(labels[i], at + 1 < split.size() ? split[at + 1] : kIgnoreLabel) << at;
        count += labels[i] != kIgnoreLabel;
      }
      EXPECT_EQ(data.LabelCount(sample), count);
      EXPECT_GT(count, 0U);
    }
  }

  void ExpectFailure(StatusCode code, const std::string& words) {
    const auto report = PrepareData(options_);
    ASSERT_FALSE(report.ok()) << words;
    EXPECT_EQ(report.status().code(), code) << report.status().ToString();
    EXPECT_THAT(report.status().message(), HasSubstr(words));
    EXPECT_THAT(report.status().message(), ::testing::Not(HasSubstr("\n")));
  }

  TemporaryFolder folder_;
  PrepareOptions options_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

std::string Prose(std::size_t bytes) {
  const auto text = ReadFile(Shakespeare(), 1 << 24);
  EXPECT_TRUE(text.ok());
  return text->substr(0, bytes);
}

TEST_F(PreparedDataTest, RowsAndLabelsFollowTheText) {
  const std::string text = Prose(5000);
  options_.text_files = {Write("a.txt", text)};
  options_.validation_fraction = 0;
  const auto data = PrepareAndOpen();
  ASSERT_NE(data, nullptr);
  const Ids ids = Encode(text);
  ASSERT_NE(ids.size() % 16, 1U);
  EXPECT_EQ(data->info().tokens, ids.size());
  EXPECT_EQ(data->info().train_rows, (ids.size() + 15) / 16);
  EXPECT_EQ(data->info().validation_rows, 0U);
  EXPECT_EQ(data->info().vocabulary, 1024U);
  EXPECT_EQ(data->info().row_tokens, 16U);
  EXPECT_EQ(data->info().tokenizer_fingerprint, tokenizer_->fingerprint());
  ExpectRows(*data, 0, ids);

  Ids tokens, labels, segments;
  const SampleId behind{data->info().train_rows};
  EXPECT_EQ(data->AppendRow(behind, &tokens, &labels, &segments).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(data->LabelCount(behind), 0U);
  EXPECT_TRUE(tokens.empty() && labels.empty());
}

TEST_F(PreparedDataTest, FractionHoldsOutTheLastRows) {
  const std::string text = Prose(20000);
  options_.text_files = {Write("a.txt", text)};
  options_.validation_fraction = 0.25;
  const auto data = PrepareAndOpen();
  ASSERT_NE(data, nullptr);
  const Ids ids = Encode(text);
  const std::uint64_t rows = (ids.size() + 15) / 16;
  EXPECT_EQ(data->info().train_rows + data->info().validation_rows, rows);
  EXPECT_NEAR(static_cast<double>(data->info().validation_rows), 0.25 * static_cast<double>(rows),
              0.51);
  const auto border = static_cast<std::ptrdiff_t>(data->info().train_rows * 16);
  ExpectRows(*data, 0, Ids(ids.begin(), ids.begin() + border));
  ExpectRows(*data, data->info().train_rows, Ids(ids.begin() + border, ids.end()));
}

TEST_F(PreparedDataTest, DocumentsAreSeparated) {
  options_.text_files = {Write("a.txt", "The first one."), Write("empty.txt", ""),
                         Write("b.jsonl",
                               "{\"text\": \"caf\\u00e9\\nand more\", \"id\": 4}\r\n\n"
                               "{\"text\": \"\"}\n{\"text\": \" and the last of them, long\"}"),
                         Write("c.txt", "Enough for a row of sixteen tokens, I hope, and more")};
  options_.validation_files = {Write("v.txt", "Held out."), Write("w.txt", "Twice.")};
  const auto data = PrepareAndOpen();
  ASSERT_NE(data, nullptr);
  Ids train;
  for (const char* text : {"The first one.", "caf\xc3\xa9\nand more", " and the last of them, long",
                           "Enough for a row of sixteen tokens, I hope, and more"}) {
    if (!train.empty()) train.push_back(0);
    for (const std::int32_t id : Encode(text)) train.push_back(id);
  }
  Ids held_out = Encode("Held out.");
  held_out.push_back(0);
  for (const std::int32_t id : Encode("Twice.")) held_out.push_back(id);
  EXPECT_EQ(data->info().tokens, train.size() + held_out.size());
  ExpectRows(*data, 0, train);
  ExpectRows(*data, data->info().train_rows, held_out);
}

TEST_F(PreparedDataTest, ALoneLastTokenMakesNoRow) {
  options_.validation_fraction = 0;
  std::string text;
  for (int i = 0; i < 33; ++i) text += '\x01';  // a token each
  options_.text_files = {Write("a.txt", text)};
  const auto data = PrepareAndOpen();
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->info().tokens, 33U);
  EXPECT_EQ(data->info().train_rows, 2U);
  Ids ids = Encode(text);
  ids.pop_back();
  ExpectRows(*data, 0, ids);
}

TEST_F(PreparedDataTest, ThreadsDoNotChangeTheFile) {
  const std::string prose = Prose(600);
  std::string lines;
  for (int i = 0; i < 3000; ++i) {
    lines += nlohmann::json({{"text", prose.substr(static_cast<std::size_t>(i) % 300)}}).dump();
    lines += '\n';
  }
  options_.text_files = {Shakespeare(), Write("a.jsonl", lines)};
  options_.row_tokens = 128;
  ASSERT_TRUE(PrepareData(options_).ok());
  const auto one = ReadFile(options_.output, 1 << 26);
  std::vector<std::uint64_t> progress;
  options_.progress = [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_LE(done, total);
    progress.push_back(done);
  };
  for (const int threads : {2, 5}) {
    options_.threads = threads;
    const auto report = PrepareData(options_);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(progress.back(), report->text_bytes);
    const auto many = ReadFile(options_.output, 1 << 26);
    EXPECT_TRUE(*one == *many) << threads;
  }
  EXPECT_GT(progress.size(), 2U);
}

TEST_F(PreparedDataTest, WholeShakespeareHasTheIdsOfOneEncode) {
  options_.text_files = {Shakespeare()};
  options_.threads = 3;
  options_.row_tokens = 128;
  options_.validation_fraction = 0;
  const auto data = PrepareAndOpen();
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->info().text_sha256,
            "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed");
  EXPECT_EQ(data->info().tokens, 459913U);
  const auto text = ReadFile(Shakespeare(), 1 << 24);
  ExpectRows(*data, 0, Encode(*text));
}

TEST_F(PreparedDataTest, FailuresSayWhatToDo) {
  const std::string good = Write("a.txt", Prose(2000));
  const PrepareOptions fine = [&] {
    PrepareOptions options = options_;
    options.text_files = {good};
    return options;
  }();
  ExpectFailure(StatusCode::kInvalidArgument, "--text");
  options_ = fine;
  options_.text_files = {folder_ / "absent.txt"};
  ExpectFailure(StatusCode::kNotFound, "absent.txt");
  options_.text_files = {Write("empty.txt", "")};
  ExpectFailure(StatusCode::kInvalidArgument,
                "the text is empty: " + options_.text_files[0] + " gives");
  options_.text_files.push_back(Write("empty2.txt", ""));
  ExpectFailure(StatusCode::kInvalidArgument, "empty.txt and the files behind it give");
  options_.text_files = {Write("short.txt", "too short")};
  ExpectFailure(StatusCode::kInvalidArgument, "less than one row");
  options_ = fine;
  options_.validation_files = {folder_ / "empty.txt"};
  ExpectFailure(StatusCode::kInvalidArgument, "validation text is empty");
  options_ = fine;
  for (const std::uint32_t row : {0U, 1U, 65537U}) {
    options_.row_tokens = row;
    ExpectFailure(StatusCode::kInvalidArgument, "2 to 65536");
  }
  options_ = fine;
  for (const double fraction : {-0.1, 0.91, std::nan("")}) {
    options_.validation_fraction = fraction;
    ExpectFailure(StatusCode::kInvalidArgument, "fraction");
  }
  options_ = fine;
  options_.threads = -1;
  ExpectFailure(StatusCode::kInvalidArgument, "threads");
  options_ = fine;
  options_.tokenizer_directory = folder_ / "nowhere";
  ExpectFailure(StatusCode::kNotFound, "there is no folder");
  options_ = fine;
  options_.output = "";
  ExpectFailure(StatusCode::kInvalidArgument, "--out");
  options_.output = folder_.path();
  ExpectFailure(StatusCode::kInvalidArgument, "folder");
  options_.output = folder_ / "no/such/out.shoal";
  ExpectFailure(StatusCode::kNotFound, "does not exist");
  options_.output = good;
  ExpectFailure(StatusCode::kInvalidArgument, "one of the texts");
  options_.output = Write("mine.bin", "mine");
  ExpectFailure(StatusCode::kAlreadyExists, "mine.bin exists and is no prepared data");
  EXPECT_EQ(*ReadFile(options_.output, 100), "mine");
  if (::geteuid() != 0) {
    options_.output = "/proc/out.shoal";
    EXPECT_FALSE(PrepareData(options_).ok());
  }
}

TEST_F(PreparedDataTest, BadLinesAreNamed) {
  const struct {
    const char* line;
    const char* words;
  } cases[] = {{"{\"text\": \"cut", "not well-formed"},
               {"[1]", "not a JSON object"},
               {"{\"txt\": \"a\"}", "no field"},
               {"{\"text\": 5}", "not a string"},
               {"{\"text\": \"\xff\"}", "not well-formed"}};
  for (const auto& [line, words] : cases) {
    options_.text_files = {
        Write("a.jsonl", std::string("{\"text\": \"fine\"}\n\n") + line + "\n{\"text\": \"b\"}\n")};
    ExpectFailure(StatusCode::kInvalidArgument, words);
    ExpectFailure(StatusCode::kInvalidArgument, "a.jsonl, line 3");
  }
}

// The limit on file size makes the write fail as a full disk does.
TEST_F(PreparedDataTest, AFailedWriteLeavesTheOldFile) {
  options_.text_files = {Shakespeare()};
  const std::string old = Write("out.shoal", "SHOALDAT");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto report = PrepareData(options_);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.status().message(), HasSubstr("nothing was replaced"));
  EXPECT_EQ(*ReadFile(old, 100), "SHOALDAT");
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    files += entry.is_regular_file();
  }
  EXPECT_EQ(files, 1U);
}

DataHeader SomeHeader() {
  DataHeader header;
  header.row_tokens = 4;
  header.vocabulary = 300;
  header.padding = 299;
  header.train = {2, 7};
  header.validation = {1, 4};
  header.text_tokens = 11;
  for (std::size_t i = 0; i < 32; ++i) {
    header.tokenizer[i] = static_cast<std::uint8_t>(i);
    header.text[i] = static_cast<std::uint8_t>(255 - i);
  }
  header.payload_checksum = 0x0123456789abcdef;
  return header;
}

TEST(DataHeader, LayoutIsPinned) {
  const auto bytes = EncodeDataHeader(SomeHeader());
  std::string hex;
  for (const std::byte b : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[std::to_integer<int>(b) >> 4];
    hex += kDigits[std::to_integer<int>(b) & 15];
  }
  EXPECT_EQ(hex,
            "53484f414c444154"
            "01000000"
            "02000000"
            "04000000"
            "2c010000"
            "2b010000"
            "00000000"
            "0200000000000000"
            "0700000000000000"
            "0100000000000000"
            "0400000000000000"
            "0b00000000000000"
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
            "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0efeeedecebeae9e8e7e6e5e4e3e2e1e0"
            "efcdab8967452301"
            "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
            "a483aaacce95b803");
  const auto header = DecodeDataHeader(bytes, 192 + 24);
  ASSERT_TRUE(header.ok()) << header.status().ToString();
  EXPECT_EQ(EncodeDataHeader(*header), bytes);
}

TEST(DataHeader, RefusesImpossibleFields) {
  const struct {
    const char* what;
    void (*spoil)(DataHeader*);
  } cases[] = {
      {"row 0", [](DataHeader* h) { h->row_tokens = 0; }},
      {"row too long", [](DataHeader* h) { h->row_tokens = 65537; }},
      {"no vocabulary", [](DataHeader* h) { h->vocabulary = 0; }},
      {"vocabulary", [](DataHeader* h) { h->vocabulary = 0x80000000; }},
      {"padding", [](DataHeader* h) { h->padding = 300; }},
      {"no rows",
       [](DataHeader* h) {
         h->train = {0, 0};
       }},
      {"tokens without rows",
       [](DataHeader* h) {
         h->validation = {0, 3};
       }},
      {"too many tokens", [](DataHeader* h) { h->train.tokens = 9; }},
      {"a lone last token", [](DataHeader* h) { h->train.tokens = 5; }},
      {"no tokens", [](DataHeader* h) { h->validation.tokens = 0; }},
      {"overflow", [](DataHeader* h) { h->train.rows = ~std::uint64_t{0} / 4; }},
      {"other size",
       [](DataHeader* h) {
         h->train = {3, 10};
       }},
  };
  for (const auto& [what, spoil] : cases) {
    DataHeader header = SomeHeader();
    spoil(&header);
    EXPECT_FALSE(DecodeDataHeader(EncodeDataHeader(header), 192 + 24).ok()) << what;
  }
}

TEST(DataHeader, DamageIsAlwaysSeen) {
  const auto good = EncodeDataHeader(SomeHeader());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_FALSE(DecodeDataHeader(bad, 192 + 24).ok()) << bit;
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(DecodeDataHeader(std::span(good).first(size), size).ok()) << size;
  }
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    // Random fields under a right checksum.
    auto bytes = good;
    for (std::size_t i = 0; i < 4; ++i) {
      bytes[12 + random() % 172] = static_cast<std::byte>(random());
    }
    StoreLittle<std::uint64_t>(bytes.data() + 184, Checksum64(std::span(bytes).first(184)));
    const auto header = DecodeDataHeader(bytes, 192 + 24);
    EXPECT_TRUE(!header.ok() || header->payload_bytes() == 24U);
  }
}

class OpenTest : public PreparedDataTest {
 protected:
  void SetUp() override {
    options_.text_files = {Write("a.txt", Prose(3000))};
    ASSERT_TRUE(PrepareData(options_).ok());
    bytes_ = *ReadFile(options_.output, 1 << 20);
  }

  void ExpectRefused(const std::string& bytes, const std::string& words) {
    const auto data = OpenPreparedData(Write("bad.shoal", bytes));
    ASSERT_FALSE(data.ok()) << words;
    EXPECT_THAT(data.status().message(), HasSubstr("bad.shoal"));
    EXPECT_THAT(data.status().message(), HasSubstr(words));
    EXPECT_THAT(data.status().message(), HasSubstr("shoal prepare"));
  }

  std::string bytes_;
};

TEST_F(OpenTest, DamagedFilesAreRefused) {
  ExpectRefused("", "not prepared data");
  ExpectRefused("some other file", "not prepared data");
  ExpectRefused(bytes_.substr(0, 100), "cut short");
  ExpectRefused(bytes_.substr(0, bytes_.size() - 1), "bytes instead of");
  ExpectRefused(bytes_ + "x", "bytes instead of");
  std::string bad = bytes_;
  bad[bad.size() - 9] ^= 1;
  ExpectRefused(bad, "rows are damaged");
  bad = bytes_;
  bad[33] ^= 1;
  ExpectRefused(bad, "header is damaged");
  bad = bytes_;
  bad[8] = 4;
  ExpectRefused(bad, "version is 4");
  const auto absent = OpenPreparedData(folder_ / "absent.shoal");
  EXPECT_EQ(absent.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(absent.status().message(), HasSubstr("shoal prepare"));
}

// A file with right checksums may still be made to harm.
TEST_F(OpenTest, IdsOutsideTheVocabularyAreRefused) {
  auto header = DecodeDataHeader(std::as_bytes(std::span(bytes_)).first(192), bytes_.size());
  ASSERT_TRUE(header.ok());
  bytes_[200] = '\x00';
  bytes_[201] = '\x04';  // 1024
  header->payload_checksum = Checksum64(std::as_bytes(std::span(bytes_)).subspan(192));
  const auto head = EncodeDataHeader(*header);
  bytes_.replace(0, 192, reinterpret_cast<const char*>(head.data()), 192);
  ExpectRefused(bytes_, "token id 1024");
}

TEST(PreparedData, LargeVocabulariesHaveFourByteIds) {
  DataHeader header = SomeHeader();
  header.vocabulary = 70000;
  header.train = {1, 3};
  header.validation = {};
  std::string payload(16, '\0');
  StoreLittle<std::uint32_t>(reinterpret_cast<std::byte*>(payload.data()) + 4, 69999);
  header.payload_checksum = Checksum64(std::as_bytes(std::span(payload)));
  const auto head = EncodeDataHeader(header);
  TemporaryFolder folder;
  ASSERT_TRUE(
      WriteFileAtomic(folder / "a.shoal",
                      std::string(reinterpret_cast<const char*>(head.data()), 192) + payload)
          .ok());
  const auto data = OpenPreparedData(folder / "a.shoal");
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  Ids tokens, labels, segments;
  ASSERT_TRUE((*data)->AppendRow(SampleId{0}, &tokens, &labels, &segments).ok());
  EXPECT_EQ(tokens, (Ids{0, 69999, 0, 0}));
  EXPECT_EQ(labels, (Ids{69999, 0, kIgnoreLabel, kIgnoreLabel}));
}

TEST(ParseJsonLine, RandomLinesNeverCrash) {
  std::mt19937 random(9);
  const std::string good = "{\"text\": \"a\\ud83d\\ude00b\", \"x\": [1, {\"y\": null}]}";
  std::string text;
  ASSERT_TRUE(ParseJsonLine(good, &text).ok());
  EXPECT_EQ(text,
            "a\xf0\x9f\x98\x80"
            "b");
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good.substr(0, random() % (good.size() + 1));
    if (!bad.empty()) bad[random() % bad.size()] = static_cast<char>(random());
    (void)ParseJsonLine(bad, &text);
  }
  EXPECT_FALSE(ParseJsonLine(std::string(200000, '['), &text).ok());
}

}  // namespace
}  // namespace shoal::dataset
