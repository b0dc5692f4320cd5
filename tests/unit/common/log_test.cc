#include "common/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace shoal {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;

class LogTest : public testing::Test {
 protected:
  void TearDown() override { SetLogLevel(LogLevel::kInfo); }

  // What `write` logs on standard error, without the time and the level in front.
  template <typename F>
  std::string Logged(F write) {
    testing::internal::CaptureStderr();
    write();
    const std::string all = testing::internal::GetCapturedStderr();
    const std::size_t level = all.find(' ');
    return level == std::string::npos ? all : all.substr(all.find(' ', level + 1) + 1);
  }

  std::string LoggedValue(std::string_view value) {
    const std::string line = Logged([&] { SHOAL_LOG(kInfo, "c", "e", {"k", value}); });
    EXPECT_THAT(line, testing::StartsWith("c e k="));
    return line.substr(6);
  }
};

TEST_F(LogTest, OneLineWithTimeLevelCategoryEventAndFields) {
  testing::internal::CaptureStderr();
  SHOAL_LOG(kWarning, "net", "peer.lost", {"peer", "ab12"}, {"step", 7}, {"ok", false});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}[+-][0-9]{2}:[0-9]{2} "
                           "warning net peer\\.lost peer=ab12 step=7 ok=false\n"));
}

TEST_F(LogTest, NoFields) {
  EXPECT_EQ(Logged([] { SHOAL_LOG(kError, "net", "closed"); }), "net closed\n");
}

TEST_F(LogTest, FieldTypes) {
  EXPECT_EQ(Logged([] {
              SHOAL_LOG(kInfo, "c", "e", {"i", -3}, {"u", ~std::uint64_t{0}}, {"d", 0.25},
                        {"b", true}, {"s", std::string("x")});
            }),
            "c e i=-3 u=18446744073709551615 d=0.25 b=true s=x\n");
}

TEST_F(LogTest, PlainValuesStayPlain) {
  EXPECT_EQ(LoggedValue("10.0.0.1:8790"), "10.0.0.1:8790\n");
  EXPECT_EQ(LoggedValue("/a\\b"), "/a\\b\n");
  EXPECT_EQ(LoggedValue("größe"), "größe\n");
}

TEST_F(LogTest, SpacesQuotesAndEmptyValuesAreQuoted) {
  EXPECT_EQ(LoggedValue(""), "\"\"\n");
  EXPECT_EQ(LoggedValue("a b"), "\"a b\"\n");
  EXPECT_EQ(LoggedValue("a=b"), "\"a=b\"\n");
  EXPECT_EQ(LoggedValue("say \"hi\" \\"), "\"say \\\"hi\\\" \\\\\"\n");
  EXPECT_EQ(LoggedValue("{} %s {0}"), "\"{} %s {0}\"\n");  // no format string
}

TEST_F(LogTest, ControlCharactersCannotForgeLinesOrSteerATerminal) {
  EXPECT_EQ(LoggedValue("x\n2026 error a b"), "\"x\\x0a2026 error a b\"\n");
  EXPECT_EQ(LoggedValue("\x1b[31mred"), "\"\\x1b[31mred\"\n");
  EXPECT_EQ(LoggedValue(std::string_view("a\0b\x7f", 4)), "\"a\\x00b\\x7f\"\n");
  for (int c = 0; c < 32; ++c) {
    const std::string value = LoggedValue(std::string(1, static_cast<char>(c)));
    EXPECT_EQ(std::count_if(value.begin(), value.end(), [](char x) { return x < ' '; }), 1) << c;
  }
}

TEST_F(LogTest, BelowTheLevelNothingIsEvaluated) {
  int evaluated = 0;
  const auto value = [&] { return ++evaluated; };
  SetLogLevel(LogLevel::kWarning);
  EXPECT_EQ(Logged([&] { SHOAL_LOG(kInfo, "c", "e", {"k", value()}); }), "");
  EXPECT_EQ(evaluated, 0);
  EXPECT_NE(Logged([&] { SHOAL_LOG(kWarning, "c", "e", {"k", value()}); }), "");
  EXPECT_EQ(evaluated, 1);
  SetLogLevel(LogLevel::kOff);
  EXPECT_EQ(Logged([&] { SHOAL_LOG(kError, "c", "e", {"k", value()}); }), "");
  EXPECT_EQ(evaluated, 1);
  SetLogLevel(LogLevel::kTrace);
  EXPECT_TRUE(LogEnabled(LogLevel::kTrace));
}

TEST_F(LogTest, LevelsHaveNames) {
  EXPECT_EQ(ParseLogLevel("trace").value(), LogLevel::kTrace);
  EXPECT_EQ(ParseLogLevel("debug").value(), LogLevel::kDebug);
  EXPECT_EQ(ParseLogLevel("info").value(), LogLevel::kInfo);
  EXPECT_EQ(ParseLogLevel("warning").value(), LogLevel::kWarning);
  EXPECT_EQ(ParseLogLevel("error").value(), LogLevel::kError);
  EXPECT_EQ(ParseLogLevel("off").value(), LogLevel::kOff);
  EXPECT_THAT(ParseLogLevel("INFO").status().message(), HasSubstr("write trace, debug, info"));
}

std::vector<std::string> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Files are added while other threads log; every line arrives whole.
TEST_F(LogTest, FilesGetEveryLineFromEveryThread) {
  const test_support::TemporaryFolder folder;
  const std::string path = folder / "shoald.log";
  testing::internal::CaptureStderr();
  std::thread noise([] {
    for (int i = 0; i < 200; ++i) SHOAL_LOG(kInfo, "c", "noise", {"i", i});
  });
  const Status added = AddLogFile(path);
  noise.join();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 100; ++i) SHOAL_LOG(kInfo, "c", "line", {"t", t}, {"i", i});
    });
  }
  for (std::thread& thread : threads) thread.join();
  testing::internal::GetCapturedStderr();
  ASSERT_TRUE(added.ok()) << added.ToString();
  int whole = 0;
  for (const std::string& line : LinesOf(path)) {
    if (line.find("noise") != std::string::npos) continue;
    EXPECT_THAT(line, MatchesRegex("[^ ]+ info c line t=[0-9] i=[0-9]+"));
    ++whole;
  }
  EXPECT_EQ(whole, 400);
}

TEST_F(LogTest, FileThatCannotBeOpenedIsAnError) {
  const Status status = AddLogFile("/proc/no-such-folder/shoald.log");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("/proc/no-such-folder/shoald.log"));
}

TEST_F(LogTest, APipeInPlaceOfTheFileIsAnErrorAtOnce) {
  const test_support::TemporaryFolder folder;
  const std::string path = folder / "shoald.log";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(AddLogFile(path).message(), HasSubstr(path + " is a pipe"));
}

}  // namespace
}  // namespace shoal
