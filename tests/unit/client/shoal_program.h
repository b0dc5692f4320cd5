// The program shoal as a user starts it, where no daemon runs.

#ifndef SHOAL_TESTS_UNIT_CLIENT_SHOAL_PROGRAM_H_
#define SHOAL_TESTS_UNIT_CLIENT_SHOAL_PROGRAM_H_

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/file.h"

namespace shoal::client {

struct Outcome {
  int exit = -1;
  std::string out;
  std::string error;
};

class Shoal : public testing::Test {
 protected:
  Shoal() {
    std::string pattern = (std::filesystem::temp_directory_path() / "shoal-cli-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    ::setenv("HOME", folder_.c_str(), 1);
    ::setenv("SHOAL_DIR", At("state").c_str(), 1);
  }
  ~Shoal() override { std::filesystem::remove_all(folder_); }

  std::string At(const std::string& name) const { return folder_ + "/" + name; }
  Outcome Start(const std::string& arguments) const {
    const std::string command = std::string(std::getenv("SHOAL_BIN")) + "/shoal " + arguments +
                                " >" + At("out") + " 2>" + At("error") + " </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadFile(At("out"), 1 << 20).value(),
            ReadFile(At("error"), 1 << 20).value()};
  }
  // An error is one line on standard error and nothing elsewhere.
  static void ExpectOneLine(const Outcome& run) {
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.error, testing::StartsWith("shoal: "));
    EXPECT_EQ(std::count(run.error.begin(), run.error.end(), '\n'), 1) << run.error;
  }

  std::string folder_;
};

}  // namespace shoal::client

#endif  // SHOAL_TESTS_UNIT_CLIENT_SHOAL_PROGRAM_H_
