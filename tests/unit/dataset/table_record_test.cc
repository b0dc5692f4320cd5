#include "dataset/table_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace shoal::dataset {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Fields = std::vector<std::string>;

Fields First(TableForm form, std::string_view text, std::string_view rest) {
  const auto fields = TakeTableRecord(form, &text);
  EXPECT_TRUE(fields.ok()) << fields.status().ToString();
  EXPECT_EQ(text, rest);
  return fields.ok() ? *fields : Fields{};
}

TEST(TableRecord, Csv) {
  const TableForm form = TableForm::kCsv;
  EXPECT_THAT(First(form, "a,b\nc", "c"), ElementsAre("a", "b"));
  EXPECT_THAT(First(form, "a,b\r\nc", "c"), ElementsAre("a", "b"));
  EXPECT_THAT(First(form, "a,,\n", ""), ElementsAre("a", "", ""));
  EXPECT_THAT(First(form, "\n", ""), ElementsAre(""));
  EXPECT_THAT(First(form, "\"a,\n\"\"b\"\"\",\"\"\n", ""), ElementsAre("a,\n\"b\"", ""));
  EXPECT_THAT(First(form, "\"a\"\r\nb", "b"), ElementsAre("a"));
  EXPECT_THAT(First(form, "\"a\"", ""), ElementsAre("a"));
  // Quotes and carriage returns within a field stand for themselves.
  EXPECT_THAT(First(form, "5\" pipe,a\rb\tc\n", ""), ElementsAre("5\" pipe", "a\rb\tc"));
}

TEST(TableRecord, Tsv) {
  const TableForm form = TableForm::kTsv;
  EXPECT_THAT(First(form, "gj04\t1\t\tHe said \"no\", twice.\nx", "x"),
              ElementsAre("gj04", "1", "", "He said \"no\", twice."));
  EXPECT_THAT(First(form, "\"open\t1\r\n", ""), ElementsAre("\"open", "1"));
}

TEST(TableRecord, WhatIsWrongIsSaid) {
  std::string_view text = "a,\"open\nb,c\n";
  EXPECT_THAT(TakeTableRecord(TableForm::kCsv, &text).status().message(), HasSubstr("has no end"));
  text = "\"a\"b,c\n";
  EXPECT_THAT(TakeTableRecord(TableForm::kCsv, &text).status().message(), HasSubstr("goes on"));
}

// What is written by the rules is read back, and reading always ends.
TEST(TableRecord, RandomRecords) {
  std::mt19937 random(4);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Fields> records;
    std::string text;
    for (unsigned r = random() % 4; r-- > 0;) {
      Fields fields;
      for (unsigned f = 1 + random() % 3; f-- > 0;) {
        std::string field;
        for (unsigned c = random() % 5; c-- > 0;) field += "a,\"\n\r\t"[random() % 6];
        std::string quoted;
        for (const char c : field) quoted += c == '"' ? "\"\"" : std::string(1, c);
        text += (fields.empty() ? "\"" : ",\"") + quoted + "\"";
        fields.push_back(field);
      }
      text += random() % 2 ? "\n" : "\r\n";
      records.push_back(fields);
    }
    std::string_view rest = text;
    for (const Fields& expected : records) {
      const auto fields = TakeTableRecord(TableForm::kCsv, &rest);
      ASSERT_TRUE(fields.ok()) << text;
      EXPECT_EQ(*fields, expected);
    }
    EXPECT_TRUE(rest.empty());
  }
}

}  // namespace
}  // namespace shoal::dataset
