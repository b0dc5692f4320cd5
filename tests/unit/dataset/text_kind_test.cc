#include "dataset/text_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "common/file.h"
#include "dataset/text_reader.h"
#include "tests/unit/dataset/test_paths.h"

namespace shoal::dataset {
namespace {

using namespace std::string_view_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Wide(std::string_view text, bool little) {
  std::string wide;
  for (const char c : text) {
    if (!little) wide += '\0';
    wide += c;
    if (little) wide += '\0';
  }
  return wide;
}

struct KindCase {
  std::string_view bytes;
  TextKind kind;
};

void ExpectKinds(std::span<const KindCase> cases) {
  for (const auto& [bytes, kind] : cases) {
    EXPECT_EQ(static_cast<int>(KindOfText(bytes)), static_cast<int>(kind)) << bytes.substr(0, 60);
  }
}

TEST(KindOfText, ContentDecides) {
  const std::string long_line = "{\"text\": \"" + std::string(3 << 20, 'x') + "\"}\n";
  const std::string long_list = "[" + std::string(2 << 20, ' ') + "1";
  const std::string prose(70000, 'p');
  const KindCase cases[] = {
      {"", TextKind::kText},
      {" \n\t\n", TextKind::kText},
      {"Now is the winter", TextKind::kText},
      {"\xef\xbb\xbfNow is the winter", TextKind::kText},
      {"caf\xe9 in Latin-1", TextKind::kText},
      // Prose that begins like JSON.
      {"[Enter Hamlet]", TextKind::kText},
      {"[1] A footnote.\n[2] Another.\n", TextKind::kText},
      {"[1", TextKind::kText},
      {"{{Infobox}}\nA page.\n", TextKind::kText},
      {"{\"text\": \"cut", TextKind::kText},
      {"{}\nint main() {}\n", TextKind::kText},
      {"\"quoted\"", TextKind::kText},
      {"12345\n", TextKind::kText},
      {"{", TextKind::kText},
      // Lines of JSON.
      {"{\"text\": \"a\"}", TextKind::kJsonLines},
      {"\xef\xbb\xbf{\"text\": \"a\"}\r\n{\"text\": \"b\"}\r\n", TextKind::kJsonLines},
      {"\n {\"id\": {\"text\": 1}, \"text\": \"a\"}\n", TextKind::kJsonLines},
      {"{\"body\": \"a\"}\n\n{\"body\": \"b\"}\n", TextKind::kJsonLines},
      {"{\"text\": \"cut\n{\"text\": \"b\"}\n", TextKind::kJsonLines},
      {long_line, TextKind::kJsonLines},
      {"{\"messages\": []}\n", TextKind::kJsonLines},
      {"{\"prompt\": \"a\", \"completion\": \"b\"}", TextKind::kJsonLines},
      {"{\"prompt\": [], \"completion\": []}", TextKind::kJsonLines},
      // Arrays of objects, damaged ones, too.
      {"[{\"text\": \"a\"}, {\"text\": \"b\"}]", TextKind::kJsonArray},
      {"\xef\xbb\xbf[\n{\n\"text\": \"a\"},\n{\"text\": \"b\"}\n]\n", TextKind::kJsonArray},
      {"[{\"text\": \"a\"}, {\"text\": b", TextKind::kJsonArray},
      {"[{Enter}]", TextKind::kText},
      // Documents of JSON.
      {"{\"messages\": \"a\"}\n", TextKind::kJsonDocument},
      {"{\"prompt\": \"a\"}\n", TextKind::kJsonDocument},
      {"[\"a\", \"b\"]", TextKind::kJsonDocument},
      {"[\n[{\"text\": \"a\"}],\n1\n]\n", TextKind::kJsonDocument},
      {"{\n  \"text\": \"a\"\n}\n", TextKind::kJsonDocument},
      {"{\"rows\": [\n{\"text\": \"a\"}\n]}", TextKind::kJsonDocument},
      {"{\"body\": \"a\"}\n", TextKind::kJsonDocument},
      {"{\"id\": {\"text\": \"a\"}}\n", TextKind::kJsonDocument},
      {"\xef\xbb\xbf[]", TextKind::kJsonDocument},
      {long_list, TextKind::kJsonDocument},
      // Tables, only where that is certain.
      {"id,text\n1,\"Now, is\nthe \"\"winter\"\"\"\n2,of\n", TextKind::kCsv},
      {"text,label\r\nfine,1\r\n\r\n", TextKind::kCsv},
      {"text\tlabel\nfine, I think\t1\n", TextKind::kTsv},
      {"id,text\n", TextKind::kText},
      {"id,text\none\n", TextKind::kText},
      {"Alas, poor Yorick\nI knew him, Horatio\n", TextKind::kText},
      {"yes,no\nblack,white\n", TextKind::kText},
      {"text,\"open\n", TextKind::kText},
      {prose, TextKind::kText},
  };
  ExpectKinds(cases);
}

TEST(KindOfText, FirstBytesDecide) {
  const KindCase cases[] = {
      {"\x1f\x8b\x08\0\0"sv, TextKind::kGzip},
      {"\x28\xb5\x2f\xfd\x04"sv, TextKind::kZstd},
      {"\xfd\x37zXZ\0"sv, TextKind::kXz},
      {"BZh91AY&SYx", TextKind::kBzip2},
      {"PK\x03\x04\x14\0"sv, TextKind::kZip},
      {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, TextKind::kOldOffice},
      {"{\\rtf1\\ansi", TextKind::kRtf},
      {"%PDF-1.7\n", TextKind::kPdf},
      {"PAR1\x15\x04"sv, TextKind::kParquet},
      {"ARROW1\0\0"sv, TextKind::kArrow},
      {"\x7f\x45LF\x02\x01"sv, TextKind::kElf},
      {"SHOALDAT\x01\0\0\0"sv, TextKind::kPreparedData},
      {"\xff\xfeN\0o\0"sv, TextKind::kUtf16Little},
      {"\xfe\xff\0N\0o"sv, TextKind::kUtf16Big},
      {"\xff\xfe\0\0N\0\0\0"sv, TextKind::kUtf32Little},
      {"\0\0\xfe\xff\0\0\0N"sv, TextKind::kUtf32Big},
      {"Now\0is"sv, TextKind::kBinary},
      {"\0\0\0\0"sv, TextKind::kBinary},
      // Part of such a signature is none.
      {"PK is a name", TextKind::kText},
      {"BZh, said the bee", TextKind::kText},
  };
  ExpectKinds(cases);
  EXPECT_EQ(KindOfText(Wide("No mark at all", true)), TextKind::kUtf16Little);
  EXPECT_EQ(KindOfText(Wide("No mark at all", false)), TextKind::kUtf16Big);
}

TEST(KindOfText, ZeroBytesAreFoundUpToTheBound) {
  std::string bytes(kKindBytes, 'x');
  bytes.back() = '\0';
  EXPECT_EQ(KindOfText(bytes), TextKind::kBinary);
  bytes.insert(0, "x");
  EXPECT_EQ(KindOfText(bytes), TextKind::kText);
}

TEST(KindOfText, DepthHasNoBound) {
  const std::string deep(1 << 19, '[');
  EXPECT_EQ(KindOfText(deep + std::string(1 << 19, ']')), TextKind::kJsonDocument);
  EXPECT_EQ(KindOfText(deep), TextKind::kText);
}

TEST(KindOfName, TheSuffixInAnyCase) {
  EXPECT_EQ(KindOfName("a/b.CSV"), TextKind::kCsv);
  EXPECT_EQ(KindOfName("b.tsv"), TextKind::kTsv);
  EXPECT_EQ(KindOfName(".parquet"), TextKind::kParquet);
  EXPECT_EQ(KindOfName("a.jsonl"), TextKind::kJsonLines);
  for (const char* name : {"", "csv", "a.csv.txt", "a.txt", "a.csv/b"}) {
    EXPECT_EQ(KindOfName(name), TextKind::kText) << name;
  }
}

class TextReaderTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, std::string_view bytes) {
    EXPECT_TRUE(WriteFileAtomic(folder_ / name, bytes).ok());
    return folder_ / name;
  }

  std::vector<std::string> Documents(const std::string& name, std::string_view bytes) {
    auto reader = TextReader::Open(Write(name, bytes), *tokenizer_);
    EXPECT_TRUE(reader.ok()) << reader.status().ToString();
    if (!reader.ok()) return {};
    std::vector<std::string> documents;
    Sha256 hash;
    for (TextBatch batch;;) {
      EXPECT_TRUE(reader->Next(1 << 20, &batch, &hash).ok());
      if (batch.file_bytes == 0) return documents;
      for (const TextPart& part : batch.parts) {
        if (part.starts_document) documents.emplace_back();
        documents.back() += part.text;
      }
    }
  }

  TemporaryFolder folder_;
  const std::unique_ptr<Tokenizer> tokenizer_ =
      LoadTokenizer(std::string(std::getenv("SHOAL_SOURCE_DIR")) + "/examples/tiny-gpt2").value();
};

TEST_F(TextReaderTest, LinesOfJsonAreReadUnderAnyName) {
  const std::string_view lines = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  for (const char* name : {"a.jsonl", "a.JSONL", "a.ndjson", "a.json", "a.txt", "a", "a.csv"}) {
    EXPECT_THAT(Documents(name, lines), ElementsAre("one", "two")) << name;
    EXPECT_THAT(Documents(name, "\xef\xbb\xbf" + std::string(lines)), ElementsAre("one", "two"));
  }
}

TEST_F(TextReaderTest, ArraysOfJsonAreRead) {
  const std::string_view array = "[{\"text\": \"one\"},\n {\"text\": \"\"}, {\"text\": \"two\"}]\n";
  EXPECT_THAT(Documents("a.json", array), ElementsAre("one", "two"));
  EXPECT_THAT(Documents("a.json", "\xef\xbb\xbf" + std::string(array)), ElementsAre("one", "two"));
}

TEST(ReadableKind, TablesWhereTheyAreWanted) {
  EXPECT_EQ(*ReadableKind("a.tsv", "Now", ReadTables::kYes), TextKind::kTsv);
  EXPECT_EQ(*ReadableKind("a.txt", "id,text\n1,Now\n", ReadTables::kYes), TextKind::kCsv);
  EXPECT_FALSE(ReadableKind("a.tsv", "Now", ReadTables::kNo).ok());
  EXPECT_FALSE(ReadableKind("a.txt", "PAR1", ReadTables::kYes).ok());
}

TEST_F(TextReaderTest, AByteOrderMarkIsNoText) {
  EXPECT_THAT(Documents("a.txt", "\xef\xbb\xbfNow"), ElementsAre("Now"));
  EXPECT_THAT(Documents("a.txt", "\xef\xbb\xbf"), ElementsAre());
  EXPECT_THAT(Documents("b.txt", "[Enter \xef\xbb\xbf Hamlet]"),
              ElementsAre("[Enter \xef\xbb\xbf Hamlet]"));
}

TEST_F(TextReaderTest, TextThatIsNotUtf8IsRefusedWithItsLine) {
  for (const char* name : {"latin.txt", "latin"}) {
    const auto reader = TextReader::Open(Write(name, "One\ntwo\ncaf\xe9 three\n"), *tokenizer_);
    ASSERT_FALSE(reader.ok());
    EXPECT_EQ(reader.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(reader.status().message(),
                ::testing::StartsWith(folder_ / name + ", line 3: not UTF-8 (byte 0xe9); "));
    EXPECT_THAT(reader.status().message(), HasSubstr("iconv -f LATIN1 -t UTF-8 " + folder_ / name));
  }
  // A character that is cut off.
  EXPECT_FALSE(TextReader::Open(Write("a.txt", "caf\xc3"), *tokenizer_).ok());
  EXPECT_THAT(Documents("a.txt", "caf\xc3\xa9 \xf0\x9f\x98\x80"),
              ElementsAre("caf\xc3\xa9 \xf0\x9f\x98\x80"));
  const auto table =
      OpenTextFile(Write("a.csv", "text,label\ngood,1\ncaf\xe9,0\n"), ReadTables::kYes);
  EXPECT_THAT(table.status().message(), HasSubstr("a.csv, line 3: not UTF-8"));
}

TEST_F(TextReaderTest, WhatIsNoTextIsRefusedWithTheNextStep) {
  const struct {
    const char* name;
    std::string_view bytes;
    const char* what;
    const char* next;
  } cases[] = {
      {"a.json", "[\"a\"]", "is one JSON document", "jq -c '.NAME[]' "},
      {"a.jsonl", "{\"rows\": [\"a\"]}", "is one JSON document", "jq -c '.NAME[]' "},
      {"a.txt", "\x1f\x8b\x08", "is gzip: ", "zcat "},
      {"a.jsonl", "\x1f\x8b\x08", "is gzip: ", "zcat "},
      {"a.txt.gz", "Now", "is gzip by its name: ", "zcat "},
      {"a.txt", "PAR1", "is a parquet table", ".jsonl"},
      {"a.txt", "PK\x03\x04", "docx", "save the document as plain text"},
      {"a.csv", "Now is", "is a table with commas (CSV) by its name", ".jsonl"},
      {"a.tsv", "Now is", "is a table with tabs (TSV) by its name", ".jsonl"},
      {"a.txt", "id,text\n1,Now\n", "is a table with commas (CSV): ", ".jsonl"},
      {"a.jsonl", "\xff\xfe{\0"sv, "is in UTF-16", "iconv -f UTF-16LE -t UTF-8 "},
      {"a", "\x7f\x45LF", "is a program (ELF)", "name a text file"},
      {"a.txt", "Now\0is"sv, "zero bytes", "tr -d"},
      {"a.txt", "%PDF-1.7", "is PDF", "pdftotext "},
      {"a.txt", "SHOALDAT", "is prepared data already", "text"},
  };
  for (const auto& [name, bytes, what, next] : cases) {
    const auto reader = TextReader::Open(Write(name, bytes), *tokenizer_);
    ASSERT_FALSE(reader.ok()) << what;
    EXPECT_EQ(reader.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(reader.status().message(), ::testing::StartsWith(folder_ / name + " is "));
    EXPECT_THAT(reader.status().message(), HasSubstr(what));
    EXPECT_THAT(reader.status().message(), HasSubstr(next));
    EXPECT_THAT(reader.status().message(), Not(HasSubstr("\n")));
    EXPECT_THAT(reader.status().message(), Not(HasSubstr("{}")));
  }
}

}  // namespace
}  // namespace shoal::dataset
