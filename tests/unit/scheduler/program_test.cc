// shoal-scheduler as a process: exit codes, one-line errors, files, ordered stop.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/temporary_folder.h"

namespace {

using ::testing::HasSubstr;
class ProgramTest : public ::testing::Test {
 protected:
  // Exit code; output_ has what it wrote.
  int Run(const std::string& arguments) {
    const std::string command = shoal::test_support::Environment("SHOAL_BIN") +
                                "/shoal-scheduler " + arguments + " > " + folder_ + "/output 2>&1";
    const int status = std::system(command.c_str());
    std::ostringstream text;
    text << std::ifstream(folder_ + "/output").rdbuf();
    output_ = text.str();
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string Config(const std::string& text) {
    std::ofstream(folder_ + "/run.toml") << text;
    return "--config " + folder_ + "/run.toml";
  }
  void ExpectOneLine() {
    EXPECT_EQ(output_.find('\n') + 1, output_.size()) << output_;
    EXPECT_THAT(output_, HasSubstr("shoal-scheduler: "));
  }

  const shoal::test_support::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
  std::string output_;
};

TEST_F(ProgramTest, UsageIsTwo) {
  EXPECT_EQ(Run("--no-such-flag"), 2);
  EXPECT_EQ(Run(""), 2);
  ExpectOneLine();
  EXPECT_EQ(Run("--help"), 0);
  EXPECT_THAT(output_, HasSubstr("--port-file"));
  EXPECT_EQ(Run("--print-audit"), 2) << "of which run?";
  ExpectOneLine();
  EXPECT_EQ(Run("--print-audit --print-events --dir " + folder_), 2);
  EXPECT_EQ(Run("--sample 3 --dir " + folder_), 2);
  EXPECT_EQ(Run("--version"), 0);
}

TEST_F(ProgramTest, BadConfigurationIs78) {
  EXPECT_EQ(Run("--config " + folder_ + "/none.toml"), 78);
  ExpectOneLine();
  EXPECT_EQ(Run(Config("[run]\nstep = 3\n")), 78);
  ExpectOneLine();
  EXPECT_THAT(output_, HasSubstr("run.toml:2: "));
  EXPECT_EQ(Run(Config("[network]\npeer_timeout = \"6 mbit\"\n")), 78);
  ExpectOneLine();
  EXPECT_EQ(Run(Config("[run]\nmodel = \"none\"\n")), 78);
  ExpectOneLine();
  EXPECT_THAT(output_, HasSubstr("none"));
}

TEST_F(ProgramTest, AFolderWithoutHistoryHasNoReport) {
  for (const char* flag : {"--print-audit", "--print-events"}) {
    EXPECT_EQ(Run(std::string(flag) + " --dir " + folder_ + "/none"), 1);
    ExpectOneLine();
    EXPECT_THAT(output_, HasSubstr("no history of a run in " + folder_ + "/none"));
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/none")) << "nothing is made";
    Config("");
    EXPECT_EQ(Run(std::string(flag) + " --dir " + folder_), 1);
    ExpectOneLine();
    EXPECT_THAT(output_, HasSubstr("has not begun; start it with: shoal-scheduler --config " +
                                   folder_ + "/run.toml"));
  }
}

TEST_F(ProgramTest, PrintConfigShowsFlagsAndReadsBack) {
  ASSERT_EQ(Run("--print-config --dir /somewhere --listen 127.0.0.1:5"), 0);
  EXPECT_THAT(output_, HasSubstr("directory = \"/somewhere\""));
  EXPECT_THAT(output_, HasSubstr("listen = \"127.0.0.1:5\""));
  const std::string first = output_;
  ASSERT_EQ(Run(Config(first) + " --print-config"), 0);
  const std::string second = output_;
  ASSERT_EQ(Run(Config(second) + " --print-config"), 0);
  EXPECT_EQ(output_, second);
}

}  // namespace
