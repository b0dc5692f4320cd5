#include "bench/bench_files.h"

#include <gtest/gtest.h>

#include "common/file.h"
#include "dataset/prepared_data.h"
#include "model/families/family.h"
#include "tests/support/temporary_folder.h"

namespace shoal::bench {
namespace {

TEST(BenchFiles, FilesAreWhatARunReads) {
  const test_support::TemporaryFolder folder;
  ASSERT_TRUE(WriteBenchFiles({folder.path(), 5, 48, 6, 32}).ok());
  const auto text = ReadFile(folder.path() + "/config.json", 1 << 20);
  ASSERT_TRUE(text.ok());
  const auto config = model::ParseModelSpec(*text, "config.json");
  ASSERT_TRUE(config.ok()) << config.status().ToString();
  EXPECT_EQ(config->layers(), 5u);
  EXPECT_EQ(config->hidden, 48u);
  EXPECT_FALSE(config->tied_head());
  const auto data = dataset::OpenPreparedData(folder.path() + "/data.shoal");
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  EXPECT_EQ((*data)->info().train_rows, 6u);
  EXPECT_EQ((*data)->info().row_tokens, 32u);
  EXPECT_LE((*data)->info().vocabulary, config->vocabulary);
  std::vector<std::int32_t> tokens, labels, segments;
  ASSERT_TRUE((*data)->AppendRow(SampleId{5}, &tokens, &labels, &segments).ok());
  EXPECT_EQ(tokens.size(), 32u);
  EXPECT_EQ(labels[0], tokens[1]);
}

TEST(BenchFiles, EmptyAndHugeShapesAreRefused) {
  EXPECT_EQ(WriteBenchFiles({"x", 0, 1, 1, 2}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteBenchFiles({"x", 1, 1, 1, 1}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteBenchFiles({"x", 1, 1, 1ull << 62, 8}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteBenchFiles({"x", 1, 1, 4'000'000'000, 65536}).code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace shoal::bench
