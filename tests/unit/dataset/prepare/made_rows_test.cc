#include "dataset/prepare/made_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "common/file.h"
#include "dataset/prepare/prepare_data.h"
#include "tests/unit/dataset/test_paths.h"

namespace shoal::dataset {
namespace {

using ::testing::HasSubstr;

TEST(ForEachOnThreads, DoesEachOnce) {
  std::vector<std::atomic<int>> done(1000);
  ForEachOnThreads(done.size(), 4, [&](std::size_t i) { ++done[i]; });
  for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1);
}

TEST(ForEachOnThreads, WhatWorkThrowsComesOut) {
  for (const std::size_t bad : {0, 1, 57, 99}) {
    EXPECT_THROW(ForEachOnThreads(100, 4,
                                  [&](std::size_t i) {
                                    if (i == bad) throw std::runtime_error("bad");
                                  }),
                 std::runtime_error);
  }
}

// A pattern of a foreign tokenizer that would take forever: an error, on whatever thread.
TEST(PrepareData, APatternWithoutEndIsAnError) {
  TemporaryFolder folder;
  const auto text = ReadFile(Environment("SHOAL_TEST_DATA") + "/tokenizers/qwen/tokenizer.json",
                             std::uint64_t{1} << 24);
  ASSERT_TRUE(text.ok());
  auto json = nlohmann::json::parse(*text);
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a+)+[bc]";
  ASSERT_TRUE(WriteFileAtomic(folder / "tokenizer.json", json.dump()).ok());
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += R"({"text": "now )" + std::string(60, 'a') + "\"}\n";
  ASSERT_TRUE(WriteFileAtomic(folder / "text.jsonl", lines).ok());
  PrepareOptions options;
  options.tokenizer_directory = folder.path();
  options.text_files = {folder / "text.jsonl"};
  options.row_tokens = 16;
  options.output = folder / "data.shoal";
  options.threads = 4;
  const auto report = PrepareData(options);
  EXPECT_THAT(report.status().message(), HasSubstr("pattern of the tokenizer"));
  EXPECT_FALSE(ReadFile(options.output, 1).ok());
}

}  // namespace
}  // namespace shoal::dataset
