// A program of its own: ctest counts a program that needs root and has not got it as skipped.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mount.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/file.h"

namespace shoal {
namespace {

TEST(FullDiskTest, KeepsTheOldFileAndLeavesNoOther) {
  std::string disk = std::filesystem::temp_directory_path() / "shoal-full-disk-test-XXXXXX";
  ASSERT_NE(::mkdtemp(disk.data()), nullptr);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=65536") != 0) {
    std::filesystem::remove_all(disk);
    GTEST_SKIP() << "skipped: needs root";
  }
  const std::string path = disk + "/f";
  const Status first = WriteFileAtomic(path, "old");
  const Status second = WriteFileAtomic(path, std::string(1 << 20, 'x'));
  const Result<std::string> left = ReadFile(path, 100);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(disk)) {
    names.push_back(entry.path().filename());
  }
  ASSERT_EQ(::umount(disk.c_str()), 0);
  std::filesystem::remove_all(disk);
  EXPECT_TRUE(first.ok()) << first.ToString();
  EXPECT_EQ(second.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(second.message(), testing::HasSubstr("free some space"));
  EXPECT_EQ(left.value(), "old");
  EXPECT_THAT(names, testing::ElementsAre("f"));
}

}  // namespace
}  // namespace shoal
