#include "common/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "common/regular_file.h"
#include "tests/support/temporary_folder.h"

namespace shoal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  const test_support::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
};

TEST_F(FileTest, ReadsBackWhatWasWritten) {
  const std::string bytes("a\0b\n\xff", 5);
  ASSERT_TRUE(WriteFileAtomic(Path("f"), bytes).ok());
  EXPECT_EQ(ReadFile(Path("f"), 5).value(), bytes);
  ASSERT_TRUE(WriteFileAtomic(Path("f"), "").ok());
  EXPECT_EQ(ReadFile(Path("f"), 0).value(), "");
  EXPECT_THAT(Names(), ElementsAre("f"));
}

TEST_F(FileTest, ReadsFilesLargerThanOneChunk) {
  std::string bytes(300'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 >> 3);
  ASSERT_TRUE(WriteFileAtomic(Path("f"), bytes).ok());
  EXPECT_EQ(ReadFile(Path("f"), bytes.size()).value(), bytes);
}

TEST_F(FileTest, ReadingHasALimit) {
  ASSERT_TRUE(WriteFileAtomic(Path("f"), "12345").ok());
  EXPECT_EQ(ReadFile(Path("f"), 4).status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(ReadFile(Path("f"), 4).status().message(), HasSubstr("limit of 4 bytes"));
  // A terabyte that is not there must be refused before memory is taken for it.
  ASSERT_EQ(::truncate(Path("f").c_str(), std::int64_t{1} << 40), 0);
  EXPECT_EQ(ReadFile(Path("f"), 1 << 20).status().code(), StatusCode::kResourceExhausted);
}

// Files of /proc say that they hold 0 bytes.
TEST_F(FileTest, ReadsFilesThatDoNotKnowTheirSize) {
  EXPECT_THAT(ReadFile("/proc/self/status", 1 << 20).value(), HasSubstr("Name:"));
  EXPECT_EQ(ReadFile("/proc/self/status", 8).status().code(), StatusCode::kResourceExhausted);
}

TEST_F(FileTest, ReadingSaysWhatIsWrong) {
  EXPECT_EQ(ReadFile(Path("none"), 1).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(ReadFile(Path("none"), 1).status().message(), HasSubstr(Path("none")));
  EXPECT_EQ(ReadFile(folder_, 1).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(FileTest, WritingReplacesAndSetsTheMode) {
  ASSERT_TRUE(WriteFileAtomic(Path("f"), "old").ok());
  ASSERT_TRUE(WriteFileAtomic(Path("f"), "secret", 0600).ok());
  EXPECT_EQ(ReadFile(Path("f"), 10).value(), "secret");
  struct stat info {};
  ASSERT_EQ(::stat(Path("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
}

TEST_F(FileTest, WritingNextToNothingFails) {
  const Status status = WriteFileAtomic(Path("no/f"), "x");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr(Path("no/f")));
}

TEST_F(FileTest, WritingOverAFolderFailsAndLeavesNothing) {
  ASSERT_TRUE(MakeDirectories(Path("d/sub")).ok());
  EXPECT_FALSE(WriteFileAtomic(Path("d"), "x").ok());
  EXPECT_THAT(Names(), ElementsAre("d"));
}

// A limit on the file size makes write() fail half-way, without root.
TEST_F(FileTest, FailedWriteKeepsTheOldFileAndLeavesNoOther) {
  ASSERT_TRUE(WriteFileAtomic(Path("f"), "old").ok());
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limited{100'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  const Status status = WriteFileAtomic(Path("f"), std::string(200'000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr(Path("f")));
  EXPECT_EQ(ReadFile(Path("f"), 10).value(), "old");
  EXPECT_THAT(Names(), ElementsAre("f"));
}

TEST_F(FileTest, MakesFoldersOnTheWay) {
  EXPECT_TRUE(MakeDirectories(Path("a/b//c/"), 0700).ok());
  EXPECT_TRUE(MakeDirectories(Path("a/b/c")).ok());
  EXPECT_TRUE(MakeDirectories("/").ok());
  struct stat info {};
  ASSERT_EQ(::stat(Path("a/b/c").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0700u);
}

TEST_F(FileTest, FoldersCannotReplaceFiles) {
  ASSERT_TRUE(WriteFileAtomic(Path("f"), "x").ok());
  EXPECT_EQ(MakeDirectories(Path("f")).code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(MakeDirectories(Path("f/g")).ok());
  EXPECT_EQ(MakeDirectories("").code(), StatusCode::kInvalidArgument);
}

TEST_F(FileTest, MapsTheBytes) {
  ASSERT_TRUE(WriteFileAtomic(Path("f"), "mapped").ok());
  const auto file = MappedFile::Open(Path("f")).value();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()),
            "mapped");
  EXPECT_EQ(file->path(), Path("f"));
}

TEST_F(FileTest, MappingOutlivesTheName) {
  ASSERT_TRUE(WriteFileAtomic(Path("f"), "old").ok());
  const auto file = MappedFile::Open(Path("f")).value();
  ASSERT_TRUE(WriteFileAtomic(Path("f"), "new").ok());
  EXPECT_EQ(file->bytes()[0], std::byte{'o'});
  ASSERT_EQ(::unlink(Path("f").c_str()), 0);
  EXPECT_EQ(file->bytes()[2], std::byte{'d'});
}

TEST_F(FileTest, MapsAnEmptyFileToNoBytes) {
  ASSERT_TRUE(WriteFileAtomic(Path("f"), "").ok());
  EXPECT_TRUE(MappedFile::Open(Path("f")).value()->bytes().empty());
}

TEST_F(FileTest, MapsRegularFilesOnly) {
  EXPECT_EQ(MappedFile::Open(Path("none")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(MappedFile::Open(folder_).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MappedFile::Open("/dev/null").status().code(), StatusCode::kInvalidArgument);
}

// A pipe that nobody writes into made whoever opened it wait for ever.
TEST_F(FileTest, PipesAndDevicesAreRefusedAtOnce) {
  const test_support::TemporaryFolder folder;
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/null")}) {
    EXPECT_EQ(ReadFile(path, 100).status().code(), StatusCode::kInvalidArgument) << path;
    EXPECT_EQ(MappedFile::Open(path).status().code(), StatusCode::kInvalidArgument) << path;
    EXPECT_EQ(CheckRegularFile(path).code(), StatusCode::kInvalidArgument) << path;
    for (const int flags : {O_RDONLY, O_WRONLY | O_CREAT | O_APPEND, O_RDWR}) {
      const Status status = OpenRegularFile(path, flags).status();
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << path << " " << flags;
      EXPECT_NE(status.message().find(path + " is not a regular file"), std::string::npos);
    }
    EXPECT_EQ(ReadFileFrom(path, 0, 100).status().code(), StatusCode::kInvalidArgument) << path;
  }
  EXPECT_NE(CheckFolderOfFiles(folder.path()).message().find(pipe), std::string::npos);
  ::unlink(pipe.c_str());
  EXPECT_TRUE(CheckFolderOfFiles(folder.path()).ok());
  EXPECT_TRUE(CheckFolderOfFiles(folder.path() + "/none").ok());
}

TEST_F(FileTest, ReadsFromAnOffsetToTheEnd) {
  ASSERT_TRUE(WriteFileAtomic(Path("log"), "0123456789").ok());
  EXPECT_EQ(*ReadFileFrom(Path("log"), 0, 4), "0123");
  EXPECT_EQ(*ReadFileFrom(Path("log"), 8, 4), "89");
  EXPECT_EQ(*ReadFileFrom(Path("log"), 10, 4), "");
  EXPECT_EQ(*ReadFileFrom(Path("log"), 11, 4), "");
  EXPECT_EQ(ReadFileFrom(Path("none"), 0, 4).status().code(), StatusCode::kNotFound);
}

TEST_F(FileTest, AFolderThatEverybodyMayWriteIntoIsNotOurs) {
  const test_support::TemporaryFolder folder;
  const std::string path = folder.path() + "/state";
  EXPECT_TRUE(MakeOwnFolder(path).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::chmod(path.c_str(), 0777), 0);
  const Status status = MakeOwnFolder(path);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("chmod o-w " + path), std::string::npos);
}

}  // namespace
}  // namespace shoal
