#include "dataset/prepare/sample_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "common/file.h"
#include "tests/unit/dataset/test_paths.h"

namespace shoal::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

class SampleReaderTest : public ::testing::Test {
 protected:
  using Texts = std::vector<std::pair<std::uint64_t, std::string>>;  // line, "text|label"

  std::string Write(const std::string& name, std::string_view bytes) {
    EXPECT_TRUE(WriteFileAtomic(folder_ / name, bytes).ok());
    return folder_ / name;
  }

  // Batches of every size give the same samples and digest the whole file.
  Texts Read(const std::string& name, std::string_view bytes, const SampleColumns& columns = {}) {
    std::string first_digest;
    Texts first;
    for (const std::size_t target : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 20}) {
      auto reader = SampleReader::Open(Write(name, bytes), columns);
      EXPECT_TRUE(reader.ok()) << reader.status().ToString();
      if (!reader.ok()) return {};
      Texts texts;
      Sha256 hash;
      std::size_t all = 0;
      for (SampleBatch batch;; all += batch.file_bytes) {
        EXPECT_TRUE(reader->Next(target, &batch, &hash).ok());
        if (batch.file_bytes == 0) break;
        for (const SampleRecord& record : batch.records) {
          const auto sample = reader->Parse(record);
          EXPECT_TRUE(sample.ok()) << sample.status().ToString();
          if (sample.ok()) texts.emplace_back(record.line, sample->text + "|" + sample->label);
        }
      }
      EXPECT_EQ(all, reader->size());
      const std::string digest = DigestToHex(hash.Finish());
      if (first_digest.empty()) {
        first = texts;
        first_digest = digest;
      }
      EXPECT_EQ(texts, first) << target;
      EXPECT_EQ(digest, first_digest) << target;
    }
    return first;
  }

  // Of opening it, or of its samples.
  std::string Error(const std::string& name, std::string_view bytes,
                    const SampleColumns& columns = {}) {
    auto reader = SampleReader::Open(Write(name, bytes), columns);
    if (!reader.ok()) return reader.status().message();
    Sha256 hash;
    for (SampleBatch batch;;) {
      const Status status = reader->Next(1 << 20, &batch, &hash);
      if (!status.ok()) return status.message();
      if (batch.file_bytes == 0) return "";
      for (const SampleRecord& record : batch.records) {
        const auto sample = reader->Parse(record);
        if (!sample.ok()) return sample.status().message();
      }
    }
  }

  TemporaryFolder folder_;
};

TEST_F(SampleReaderTest, Tables) {
  EXPECT_THAT(Read("a.tsv", "gj04\t1\t\tOne \"fish\".\n\ngj04\t0\t*\tTwo.", {"4", "2"}),
              ElementsAre(Pair(1, "One \"fish\".|1"), Pair(3, "Two.|0")));
  EXPECT_THAT(Read("a.csv", "\xef\xbb\xbfsentence,label\r\n\"One,\ntwo\",good\r\nThree,bad\r\n"),
              ElementsAre(Pair(2, "One,\ntwo|good"), Pair(4, "Three|bad")));
  EXPECT_THAT(Read("a.csv", "grade,essay\nB,One\n", {"essay", "1"}), ElementsAre(Pair(2, "One|B")));
  EXPECT_TRUE(Read("a.tsv", "").empty());
  EXPECT_TRUE(Read("a.tsv", "text\tlabel\n").empty());
}

TEST_F(SampleReaderTest, ObjectsAndPlainText) {
  const std::string_view lines =
      "{\"text\": \"One\", \"label\": 1}\n\n{\"text\": \"\", \"label\": \"0\"}";
  EXPECT_THAT(Read("a.jsonl", lines), ElementsAre(Pair(1, "One|1"), Pair(3, "|0")));
  EXPECT_THAT(Read("a.json",
                   "[{\"prompt\": \"One\",\n\"completion\": \"x\"},\n"
                   "{\"prompt\": \"Two\", \"completion\": \"x\"}]\n"),
              ElementsAre(Pair(1, "One|"), Pair(3, "Two|")));
  EXPECT_THAT(Read("a.txt", "One\ntwo\n"), ElementsAre(Pair(1, "One\ntwo\n|")));
  EXPECT_TRUE(Read("a.jsonl", "\n").empty());
}

TEST_F(SampleReaderTest, ErrorsNameFileLineAndNextStep) {
  const struct {
    const char* name;
    const char* bytes;
    SampleColumns columns;
    const char* words;
  } cases[] = {
      {"a.jsonl",
       "{\"text\": \"a\"}\n{\"messages\": []}\n",
       {},
       "a.jsonl, line 2: no field \"text\"; mend or remove the line"},
      {"a.jsonl",
       "{\"messages\": []}\n\n{\"text\": \"a\"}\n",
       {},
       "a.jsonl, line 3: no field \"messages\""},
      {"a.jsonl",
       "{\"dialogues\": []}\n{\"dialogues\": []}\n",
       {},
       "a.jsonl, line 1: no field \"text\", \"messages\""},
      {"a.json", "[{\"text\": \"a\"},\n{\"text\": \"b\"]", {}, "a.json, line 2: not well-formed"},
      {"a.json", "[{\"text\": \"a\"}\n{\"text\": \"b\"}]", {}, "a.json, line 2: not well-formed"},
      {"a.tsv", "a\t1\nb\n", {"1", "2"}, "a.tsv, line 2: it has 1 columns, the first record has 2"},
      {"a.csv", "a,1\n\"b,2\n", {"1", "2"}, "a.csv, line 2: a field in quotes has no end"},
      {"a.csv", "anything", {}, "a.csv is a table with commas (CSV): it has 1 columns"},
      {"a.txt",
       "id,text\n1,Now\n2,is\n",
       {},
       "its columns are id, text: name one with "
       "--label-column; for texts without labels write each "
       "as a line {\"text\": \"...\"} of a .jsonl file"},
      {"a.txt", "Now is", {"1", "2"}, "a.txt is no table"},
      {"a.txt", "PAR1", {}, "is a parquet table"},
  };
  for (const auto& [name, bytes, columns, words] : cases) {
    const std::string error = Error(name, bytes, columns);
    EXPECT_THAT(error, HasSubstr(words));
    EXPECT_THAT(error, Not(HasSubstr("\n")));
  }
  EXPECT_EQ(SampleReader::Open(folder_ / "absent.txt", {}).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace shoal::dataset
