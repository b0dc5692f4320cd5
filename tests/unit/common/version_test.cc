#include "common/version.h"

#include <gtest/gtest.h>

#include <string>

#include "common/file.h"
#include "tests/support/temporary_folder.h"

namespace shoal {
namespace {

TEST(Version, IsTheNewestOfTheChangelog) {
  const std::string path = test_support::Environment("SHOAL_SOURCE_DIR") + "/CHANGELOG.md";
  const Result<std::string> text = ReadFile(path, 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  const std::string unreleased = "\n## [Unreleased]\n", head = "\n## [";
  const std::size_t before = text->find(unreleased);
  ASSERT_NE(before, std::string::npos);
  const std::size_t newest = text->find(head, before + unreleased.size() - 1);
  ASSERT_NE(newest, std::string::npos);
  EXPECT_EQ(
      text->compare(newest, head.size() + std::string(kVersion).size() + 1, head + kVersion + "]"),
      0)
      << "the programs say " << kVersion << "; the page says: " << text->substr(newest, 40);
}

}  // namespace
}  // namespace shoal
