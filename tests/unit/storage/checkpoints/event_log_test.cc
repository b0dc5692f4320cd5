// What only the log in RocksDB promises; tests/unit/scheduler/election/ has what all logs do.

#include "storage/checkpoints/event_log.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/storage/storage_test_support.h"

namespace shoal::storage {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> All(EventLog& log) {
  std::vector<std::string> events;
  EXPECT_OK(log.Replay([&](std::uint64_t number, std::string_view event) {
    EXPECT_EQ(number, events.size() + 1);
    events.emplace_back(event);
    return Status::Ok();
  }));
  return events;
}

TEST(RocksEventLog, SurvivesReopenAndGoesOnCounting) {
  TemporaryFolder folder;
  for (std::uint64_t i = 1; i <= 5; ++i) {
    auto log = OpenRocksEventLog(folder / "events");
    ASSERT_TRUE(log.ok()) << log.status().ToString();
    EXPECT_EQ(*(*log)->Append("event " + std::to_string(i)), i);
  }
  auto log = OpenRocksEventLog(folder / "events");
  EXPECT_EQ(All(**log).size(), 5u);
  EXPECT_EQ(All(**log).back(), "event 5");
}

TEST(RocksEventLog, IsMadeOfManyEventsAtOnce) {
  TemporaryFolder folder;
  std::vector<std::string> events;
  for (int i = 0; i < 1000; ++i) events.push_back("event " + std::to_string(i));
  ASSERT_TRUE(WriteRocksEventLog(folder / "events", events).ok());
  {
    auto log = OpenRocksEventLog(folder / "events");
    EXPECT_EQ(All(**log), events);
    EXPECT_EQ((*log)->Append("another").value(), 1001u);
  }
  EXPECT_EQ(WriteRocksEventLog(folder / "events", events).code(), StatusCode::kAlreadyExists);
}

[[noreturn]] void AppendAndCrash(const std::string& path) {
  auto log = OpenRocksEventLog(path);
  for (int i = 0; i < 20; ++i) {
    if (!log.ok() || !(*log)->Append("event").ok()) ::_exit(1);
  }
  ::_exit(7);
}

TEST(RocksEventLog, WhatWasAppendedSurvivesACrash) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  TemporaryFolder folder;
  // The crashing process is this test run again, so the folder's name must be handed to it.
  const char* inherited = std::getenv("SHOAL_CRASH_FOLDER");
  const std::string path = inherited == nullptr ? folder / "events" : inherited;
  if (inherited != nullptr) std::filesystem::remove_all(folder.path());  // nobody else will
  ASSERT_EQ(::setenv("SHOAL_CRASH_FOLDER", path.c_str(), 1), 0);
  EXPECT_EXIT(AppendAndCrash(path), ::testing::ExitedWithCode(7), "");
  ::unsetenv("SHOAL_CRASH_FOLDER");
  auto log = OpenRocksEventLog(path);
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(All(**log).size(), 20u);
}

TEST(RocksEventLog, ASecondOpenerIsToldWhoHoldsTheLock) {
  TemporaryFolder folder;
  const auto log = OpenRocksEventLog(folder / "events");
  ASSERT_TRUE(log.ok());
  const auto second = OpenRocksEventLog(folder / "events");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr("another shoal-scheduler uses"));
}

TEST(RocksEventLog, IsReadWhileAnotherHasItOpenAndAfterwards) {
  TemporaryFolder folder;
  const std::string path = folder / "events";
  std::vector<std::string> expected, seen;
  const auto read = [&] {
    seen.clear();
    return ReadRocksEventLog(path, [&](std::uint64_t number, std::string_view event) {
      EXPECT_EQ(number, seen.size() + 1);
      seen.emplace_back(event);
      return Status::Ok();
    });
  };
  EXPECT_EQ(read().code(), StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(path)) << "reading made it";
  for (int restart = 0; restart < 6; ++restart) {  // files of earlier ones are merged meanwhile
    auto log = OpenRocksEventLog(path);
    ASSERT_TRUE(log.ok());
    for (int i = 0; i < 50; ++i) {
      expected.push_back(std::to_string(restart) + " " + std::to_string(i));
      ASSERT_TRUE((*log)->Append(expected.back()).ok());
      if (i % 10 > 0) continue;
      EXPECT_OK(read());
      EXPECT_EQ(seen, expected);
    }
  }
  EXPECT_OK(read());
  EXPECT_EQ(seen, expected);
  auto again = OpenRocksEventLog(path);
  ASSERT_TRUE(again.ok()) << "reading held its lock";
  EXPECT_EQ(All(**again), expected);
  EXPECT_EQ(
      ReadRocksEventLog(path, [](std::uint64_t, std::string_view) { return Aborted("enough"); })
          .code(),
      StatusCode::kAborted);
}

TEST(RocksEventLog, AFileInTheWayIsAClearError) {
  TemporaryFolder folder;
  WriteAll(folder / "events", "x");
  const auto log = OpenRocksEventLog(folder / "events");
  ASSERT_FALSE(log.ok());
  EXPECT_THAT(log.status().message(), HasSubstr("is not a folder"));
}

TEST(RocksEventLog, APipeAmongItsFilesIsNamed) {
  TemporaryFolder folder;
  const std::string path = folder / "events";
  ASSERT_TRUE(OpenRocksEventLog(path).ok());
  std::filesystem::remove(path + "/CURRENT");
  ASSERT_EQ(::mkfifo((path + "/CURRENT").c_str(), 0600), 0);
  EXPECT_THAT(OpenRocksEventLog(path).status().message(),
              HasSubstr("CURRENT is not a regular file"));
}

}  // namespace
}  // namespace shoal::storage
