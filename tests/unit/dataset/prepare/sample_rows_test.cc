// From samples to the bytes of a file, and what a reader makes of them.

#include "dataset/prepare/sample_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "common/bytes.h"
#include "common/checksum.h"
#include "common/file.h"
#include "dataset/data_payload.h"
#include "dataset/prepared_data.h"
#include "tests/unit/dataset/test_paths.h"

namespace shoal::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;
using Counts = std::vector<std::uint8_t>;

constexpr std::int32_t kNo = kIgnoreLabel;
constexpr std::int32_t kPad = kPaddingSegment;

DataHeader HeaderOf(DataKind kind, bool segmented) {
  DataHeader header;
  header.row_tokens = 6;
  header.vocabulary = 300;
  header.padding = 299;
  header.kind = kind;
  header.segmented = segmented;
  header.classes = kind == DataKind::kClasses ? 3 : 0;
  header.text_tokens = 77;
  for (std::size_t i = 0; i < 32; ++i) {
    header.tokenizer[i] = static_cast<std::uint8_t>(i);
    header.text[i] = static_cast<std::uint8_t>(255 - i);
  }
  return header;
}

// Three samples of training, one of validation.
SampleStore SomeSamples() {
  SampleStore store(6);
  EXPECT_TRUE(store.Add({{1, 2, 3}, {0, 0, 1}, 0, ""}, 0, LongSamples::kCut));
  EXPECT_TRUE(store.Add({{4, 5, 6, 7}, {0, 1, 1, 0}, 0, ""}, 0, LongSamples::kCut));
  EXPECT_TRUE(store.Add({{8, 9}, {0, 1}, 0, ""}, 0, LongSamples::kCut));
  EXPECT_TRUE(store.Add({{10, 11, 12}, {0, 1, 1}, 0, ""}, 0, LongSamples::kCut));
  return store;
}

SampleStore SomeClasses() {
  SampleStore store(6);
  EXPECT_TRUE(store.Add({{1, 2, 3}, {}, 0, "b"}, 2, LongSamples::kCut));
  EXPECT_TRUE(store.Add({{4, 5, 6, 7, 8, 9, 10, 11}, {}, 2, "a"}, 0, LongSamples::kCut));
  EXPECT_TRUE(store.Add({{12}, {}, 0, "a"}, 1, LongSamples::kCut));
  return store;
}

// Two texts in the first two rows, one in the last.
SampleStore SomePairs() {
  SampleStore store(6);
  EXPECT_TRUE(
      store.Add({{1, 2, 3, 4}, {}, 0, "b", PairRanges{1, 2, 3, 3}, 3}, 2, LongSamples::kCut));
  EXPECT_TRUE(store.Add({{1, 2, 3, 4, 5, 6, 7, 8}, {}, 0, "a", PairRanges{1, 5, 6, 7}, 5}, 0,
                        LongSamples::kCut));
  EXPECT_TRUE(store.Add({{12, 13}, {}, 0, "a"}, 1, LongSamples::kCut));
  return store;
}

DataHeader TypedHeader() {
  DataHeader header = HeaderOf(DataKind::kClasses, true);
  header.typed = true;
  return header;
}

std::string FileOf(DataHeader header, std::string bytes) {
  const auto head = EncodeDataHeader(header);
  std::copy_n(reinterpret_cast<const char*>(head.data()), head.size(), bytes.begin());
  return bytes;
}

std::string MakeFile(const SampleStore& store, DataHeader header, std::size_t train, bool pack) {
  const SampleRows rows = ArrangeRows(store.lengths(), train, header.row_tokens, pack);
  std::string bytes = WriteSampleRows(store, train, rows, &header);
  return FileOf(header, std::move(bytes));
}

std::string Hex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

Result<std::shared_ptr<const PreparedData>> Open(const std::string& bytes) {
  TemporaryFolder folder;
  EXPECT_TRUE(WriteFileAtomic(folder / "a.shoal", bytes).ok());
  return OpenPreparedData(folder / "a.shoal");
}

struct Row {
  Ids tokens, labels, segments;
};

Row At(const PreparedData& data, std::uint64_t row) {
  Row read;
  EXPECT_TRUE(data.AppendRow(SampleId{row}, &read.tokens, &read.labels, &read.segments).ok());
  EXPECT_EQ(data.LabelCount(SampleId{row}),
            6 - std::count(read.labels.begin(), read.labels.end(), kNo));
  return read;
}

TEST(SampleRows, OneSampleARow) {
  const auto data = Open(MakeFile(SomeSamples(), HeaderOf(DataKind::kSamples, false), 3, false));
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  const DataInfo& info = (*data)->info();
  EXPECT_EQ(info.kind, DataKind::kSamples);
  EXPECT_FALSE(info.segmented);
  EXPECT_EQ(info.train_rows, 3u);
  EXPECT_EQ(info.validation_rows, 1u);
  EXPECT_EQ(info.tokens, 77u);
  const Row row = At(**data, 1);
  EXPECT_THAT(row.tokens, ElementsAre(4, 5, 6, 7, 299, 299));
  EXPECT_THAT(row.labels, ElementsAre(5, 6, kNo, kNo, kNo, kNo));
  EXPECT_TRUE(row.segments.empty());
  EXPECT_THAT(At(**data, 3).labels, ElementsAre(11, 12, kNo, kNo, kNo, kNo));
}

TEST(SampleRows, SamplesShareRows) {
  const auto data = Open(MakeFile(SomeSamples(), HeaderOf(DataKind::kSamples, true), 3, true));
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  EXPECT_TRUE((*data)->info().segmented);
  EXPECT_EQ((*data)->info().train_rows, 2u);
  EXPECT_EQ((*data)->info().validation_rows, 1u);
  const Row first = At(**data, 0);
  EXPECT_THAT(first.tokens, ElementsAre(1, 2, 3, 8, 9, 299));
  EXPECT_THAT(first.labels, ElementsAre(kNo, 3, kNo, 9, kNo, kNo));
  EXPECT_THAT(first.segments, ElementsAre(0, 0, 0, 1, 1, kPad));
  EXPECT_THAT(At(**data, 2).segments, ElementsAre(0, 0, 0, kPad, kPad, kPad));
}

TEST(SampleRows, Classes) {
  const auto data = Open(MakeFile(SomeClasses(), HeaderOf(DataKind::kClasses, true), 2, false));
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  EXPECT_EQ((*data)->info().classes, 3u);
  const Row cut = At(**data, 1);
  EXPECT_THAT(cut.tokens, ElementsAre(4, 5, 6, 7, 10, 11));
  EXPECT_THAT(cut.labels, ElementsAre(0, kNo, kNo, kNo, kNo, kNo));
  EXPECT_THAT(cut.segments, ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(At(**data, 0).segments, ElementsAre(0, 0, 0, kPad, kPad, kPad));
  EXPECT_THAT(At(**data, 2).labels, ElementsAre(1, kNo, kNo, kNo, kNo, kNo));
}

TEST(SampleRows, TokenTypes) {
  const auto data = Open(MakeFile(SomePairs(), TypedHeader(), 2, false));
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  EXPECT_TRUE((*data)->info().typed);
  EXPECT_THAT(At(**data, 1).tokens, ElementsAre(1, 2, 3, 6, 7, 8));
  EXPECT_EQ((*data)->TypeBorder(SampleId{0}), 3U);
  EXPECT_EQ((*data)->TypeBorder(SampleId{1}), 3U);
  EXPECT_EQ((*data)->TypeBorder(SampleId{2}), 6U) << "none has the type 1";
  EXPECT_EQ((*data)->TypeBorder(SampleId{3}), 6U) << "no such row";
  const auto plain = Open(MakeFile(SomeClasses(), HeaderOf(DataKind::kClasses, true), 2, false));
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  EXPECT_FALSE((*plain)->info().typed);
  EXPECT_EQ((*plain)->TypeBorder(SampleId{0}), 6U);
}

// Only the fields that version 1 does not have; the others are where they were.
TEST(SampleRows, LayoutIsPinned) {
  const std::string packed =
      Hex(MakeFile(SomeSamples(), HeaderOf(DataKind::kSamples, true), 3, true));
  EXPECT_EQ(packed.substr(0, 2 * 72),
            "53484f414c444154"
            "02000000"
            "02000000"
            "06000000"
            "2c010000"
            "2b010000"
            "01000000"
            "0200000000000000"
            "0900000000000000"
            "0100000000000000"
            "0300000000000000"
            "4d00000000000000");
  EXPECT_EQ(packed.substr(2 * 144, 2 * 40),
            "01000000"
            "00000000" +
                std::string(2 * 32, '0'));
  EXPECT_EQ(packed.substr(2 * 192),
            // Ids.
            "010002000300080009002b01"
            "0400050006000700"
            "2b012b01"
            "0a000b000c002b012b012b01"
            // Labels: tokens 2 and 4; 1 and 2; 1 and 2.
            "14"
            "06"
            "06"
            // Beginnings: tokens 0 and 3; 0; 0.
            "09"
            "01"
            "01"
            // Lengths.
            "05000000"
            "04000000"
            "03000000");
  const std::string classes =
      Hex(MakeFile(SomeClasses(), HeaderOf(DataKind::kClasses, true), 2, false));
  EXPECT_EQ(classes.substr(2 * 28, 8), "02000000");
  EXPECT_EQ(classes.substr(2 * 144, 16), "0100000003000000");
  EXPECT_EQ(classes.substr(2 * (192 + 36)),
            "03000000"
            "06000000"
            "01000000"
            "02000000"
            "00000000"
            "01000000");
  const std::string pairs = Hex(MakeFile(SomePairs(), TypedHeader(), 2, false));
  EXPECT_EQ(pairs.substr(2 * 8, 8), "03000000");
  EXPECT_EQ(pairs.substr(2 * 144, 2 * 40),
            "01000000"
            "03000000"
            "01000000" +
                std::string(2 * 28, '0'));
  EXPECT_EQ(pairs.substr(2 * (192 + 36)),
            // Lengths.
            "04000000"
            "06000000"
            "02000000"
            // Classes.
            "02000000"
            "00000000"
            "01000000"
            // Where the type 1 begins.
            "03000000"
            "03000000"
            "02000000");
}

// A file whose checksums are right, but for one thing.
class SpoiledRows : public ::testing::Test {
 protected:
  void ExpectRefused(std::string bytes, const std::string& words) {
    auto header = DecodeDataHeader(std::as_bytes(std::span(bytes)).first(192), bytes.size());
    ASSERT_TRUE(header.ok()) << header.status().ToString();
    header->payload_checksum = Checksum64(std::as_bytes(std::span(bytes)).subspan(192));
    const auto data = Open(FileOf(*header, bytes));
    ASSERT_FALSE(data.ok()) << words;
    EXPECT_EQ(data.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(data.status().message(), HasSubstr(words));
    EXPECT_THAT(data.status().message(), HasSubstr("shoal prepare"));
  }
  static std::string With(std::string bytes, std::size_t at, char value) {
    bytes[at] = value;
    return bytes;
  }
};

TEST_F(SpoiledRows, OfSamples) {
  const std::string good = MakeFile(SomeSamples(), HeaderOf(DataKind::kSamples, true), 3, true);
  EXPECT_TRUE(Open(good).ok());
  constexpr std::size_t kIds = 192, kLabels = kIds + 36, kBegins = kLabels + 3;
  constexpr std::size_t kLengths = kBegins + 3;
  ExpectRefused(With(good, kIds + 3, 2), "token id 514 is outside");
  ExpectRefused(With(good, kIds + 10, 1), "row 0 has tokens behind its end");
  ExpectRefused(With(good, kLabels, 0x15), "row 0 has a label that no token is before");
  ExpectRefused(With(good, kLabels, 0x1c), "row 0 has a label across two samples");
  ExpectRefused(With(good, kLabels, 0x34), "row 0 has bits behind its end");
  ExpectRefused(With(good, kLabels, static_cast<char>(0x94)), "row 0 has bits behind its end");
  ExpectRefused(With(good, kLabels + 1, 0), "row 1 has no label");
  ExpectRefused(With(good, kBegins, 0x08), "row 0 has no sample at its start");
  ExpectRefused(With(good, kBegins, 0x49), "row 0 has bits behind its end");
  ExpectRefused(With(good, kLengths, 0), "row 0 has an impossible length");
  ExpectRefused(With(good, kLengths, 7), "row 0 has an impossible length");
  ExpectRefused(With(good, kLengths + 3, 1), "row 0 has an impossible length");
  ExpectRefused(With(good, kLengths, 6), "training rows have another number of tokens");
  ExpectRefused(With(good, kLengths + 8, 4), "validation rows have another number of tokens");
}

TEST_F(SpoiledRows, OfClasses) {
  const std::string good = MakeFile(SomeClasses(), HeaderOf(DataKind::kClasses, true), 2, false);
  EXPECT_TRUE(Open(good).ok());
  constexpr std::size_t kLengths = 192 + 36, kClasses = kLengths + 12;
  ExpectRefused(With(good, kLengths, 7), "row 0 has an impossible length");
  ExpectRefused(With(good, kClasses + 4, 3), "row 1 has a class that there is not");
  ExpectRefused(With(good, kClasses + 11, 1), "row 2 has a class that there is not");
}

TEST_F(SpoiledRows, OfTypes) {
  const std::string good = MakeFile(SomePairs(), TypedHeader(), 2, false);
  EXPECT_TRUE(Open(good).ok());
  constexpr std::size_t kTypes = 192 + 36 + 12 + 12;
  EXPECT_TRUE(Open(good).ok());
  ExpectRefused(With(good, kTypes, 0), "row 0 has token types that begin outside of it");
  ExpectRefused(With(good, kTypes + 4, 7), "row 1 has token types that begin outside of it");
  ExpectRefused(With(good, kTypes + 11, 1), "row 2 has token types that begin outside of it");
}

TEST(DataHeaderV2, RefusesImpossibleFields) {
  const std::uint64_t bytes =
      MakeFile(SomeSamples(), HeaderOf(DataKind::kSamples, true), 3, true).size();
  DataHeader good = HeaderOf(DataKind::kSamples, true);
  good.train = {2, 9};
  good.validation = {1, 3};
  ASSERT_TRUE(DecodeDataHeader(EncodeDataHeader(good), bytes).ok());
  const struct {
    const char* what;
    void (*spoil)(DataHeader*);
  } cases[] = {
      {"classes of samples", [](DataHeader* h) { h->classes = 2; }},
      {"no classes", [](DataHeader* h) { h->kind = DataKind::kClasses; }},
      {"another size", [](DataHeader* h) { h->segmented = false; }},
      {"text", [](DataHeader* h) { h->kind = DataKind::kText; }},
      {"too few tokens", [](DataHeader* h) { h->train.tokens = 3; }},
      {"too many tokens", [](DataHeader* h) { h->train.tokens = 13; }},
      {"no tokens", [](DataHeader* h) { h->validation.tokens = 0; }},
  };
  for (const auto& [what, spoil] : cases) {
    DataHeader header = good;
    spoil(&header);
    EXPECT_FALSE(DecodeDataHeader(EncodeDataHeader(header), bytes).ok()) << what;
  }
  DataHeader classes = HeaderOf(DataKind::kClasses, true);
  classes.train = {2, 9};
  ASSERT_TRUE(DecodeDataHeader(EncodeDataHeader(classes), 192 + 24 + 16).ok());
  classes.classes = 65537;
  EXPECT_FALSE(DecodeDataHeader(EncodeDataHeader(classes), 192 + 24 + 16).ok());
  classes.classes = 3;
  classes.segmented = false;
  EXPECT_FALSE(DecodeDataHeader(EncodeDataHeader(classes), 192 + 24 + 16).ok());
}

// Fields that no DataHeader can say.
TEST(DataHeaderV2, RefusesUnknownKindsAndFlags) {
  const auto refused = [](std::size_t at, std::uint32_t value) {
    DataHeader header = HeaderOf(DataKind::kSamples, false);
    header.train = {1, 3};
    auto bytes = EncodeDataHeader(header);
    const std::uint64_t size = 192 + header.payload_bytes();
    EXPECT_TRUE(DecodeDataHeader(bytes, size).ok());
    StoreLittle<std::uint32_t>(bytes.data() + at, value);
    StoreLittle<std::uint64_t>(bytes.data() + 184, Checksum64(std::span(bytes).first(184)));
    return !DecodeDataHeader(bytes, size).ok();
  };
  EXPECT_TRUE(refused(8, 1));    // version
  EXPECT_TRUE(refused(28, 3));   // kind
  EXPECT_TRUE(refused(144, 2));  // segmented
  EXPECT_TRUE(refused(152, 1));  // token types of samples
  EXPECT_TRUE(refused(156, 1));  // reserved
  EXPECT_TRUE(refused(180, 1));
  // Types and their version go together.
  DataHeader typed = TypedHeader();
  typed.train = {1, 3};
  auto bytes = EncodeDataHeader(typed);
  const std::uint64_t size = 192 + typed.payload_bytes();
  ASSERT_TRUE(DecodeDataHeader(bytes, size).ok());
  for (const std::uint32_t version : {1U, 2U, 4U}) {
    StoreLittle<std::uint32_t>(bytes.data() + 8, version);
    StoreLittle<std::uint64_t>(bytes.data() + 184, Checksum64(std::span(bytes).first(184)));
    EXPECT_FALSE(DecodeDataHeader(bytes, size).ok()) << version;
  }
}

TEST(ArrangeRows, EachSplitHasRowsOfItsOwn) {
  const std::vector<std::uint32_t> lengths = {3, 4, 2, 1, 5};
  const SampleRows apart = ArrangeRows(lengths, 3, 6, false);
  EXPECT_THAT(apart.row_of, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(apart.train_rows, 3u);
  EXPECT_EQ(apart.rows, 5u);
  const SampleRows packed = ArrangeRows(lengths, 3, 6, true);
  EXPECT_THAT(packed.row_of, ElementsAre(0, 1, 0, 2, 2));
  EXPECT_EQ(packed.train_rows, 2u);
  EXPECT_EQ(packed.rows, 3u);
  EXPECT_EQ(ArrangeRows(lengths, 5, 6, true).rows, ArrangeRows(lengths, 5, 6, true).train_rows);
}

// Every sample is in the file once, whole and alone in its segment.
TEST(SampleRows, RandomSamplesComeBack) {
  std::mt19937 random(8);
  for (const bool pack : {false, true}) {
    DataHeader header = HeaderOf(DataKind::kSamples, pack);
    header.row_tokens = 21;
    header.vocabulary = 70000;  // four bytes an id
    SampleStore store(header.row_tokens);
    std::vector<std::pair<Ids, Ids>> expected;  // tokens, labels
    for (int i = 0; i < 200; ++i) {
      EncodedSample sample;
      Ids labels;
      for (unsigned n = 2 + random() % 20; n-- > 0;) {
        sample.ids.push_back(static_cast<std::int32_t>(random() % 70000));
        sample.counts.push_back(sample.ids.size() > 1 && (n == 0 || random() % 2));
        if (sample.ids.size() > 1) {
          labels.push_back(sample.counts.back() ? sample.ids.back() : kNo);
        }
      }
      labels.push_back(kNo);
      ASSERT_TRUE(store.Add(sample, 0, LongSamples::kCut));
      expected.emplace_back(sample.ids, labels);
    }
    const auto data = Open(MakeFile(store, header, 150, pack));
    ASSERT_TRUE(data.ok()) << data.status().ToString();
    std::vector<std::pair<Ids, Ids>> found;
    for (std::uint64_t row = 0; row < (*data)->info().train_rows + (*data)->info().validation_rows;
         ++row) {
      Ids tokens, labels, segments;
      ASSERT_TRUE((*data)->AppendRow(SampleId{row}, &tokens, &labels, &segments).ok());
      if (!pack) {
        // Padding is known by its id alone.
        while (tokens.back() == 299) tokens.pop_back();
        segments.assign(tokens.size(), 0);
      }
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (segments[i] == kPad) {
          EXPECT_EQ(labels[i], kNo);
          continue;
        }
        if (i == 0 || segments[i] != segments[i - 1]) found.emplace_back();
        found.back().first.push_back(tokens[i]);
        found.back().second.push_back(labels[i]);
      }
    }
    std::ranges::sort(expected);
    std::ranges::sort(found);
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace shoal::dataset
