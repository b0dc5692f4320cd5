#include "tests/bench/bench_command.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "common/exit_code.h"

namespace shoal::bench_command {
namespace {

constexpr int kUsage = static_cast<int>(ExitCode::kUsage);

struct Parsed {
  std::string folder;
  std::uint64_t live = 1;
  bool all = false, json = false;
  std::vector<std::string> passed;
};

Parsed Parse(std::vector<std::string> arguments) {
  Parsed parsed;
  Command command({"name", "What it measures.", "nothing.", "a second.", "it has no bounds"});
  command.Text("--folder", "DIR", "where", &parsed.folder);
  command.Count("--live", "MIB", "how much", &parsed.live);
  command.Flag("--all", "everything", &parsed.all);
  command.PassOn("--benchmark_", &parsed.passed);
  std::vector<char*> given;
  arguments.insert(arguments.begin(), "program");
  for (std::string& argument : arguments) given.push_back(argument.data());
  command.Parse(static_cast<int>(given.size()), given.data());
  parsed.json = command.json();
  return parsed;
}

TEST(BenchCommand, TakesItsOptions) {
  const Parsed parsed =
      Parse({"--json", "--folder", "a=b", "--live=12", "--all", "--benchmark_filter=x"});
  EXPECT_TRUE(parsed.json);
  EXPECT_TRUE(parsed.all);
  EXPECT_EQ(parsed.folder, "a=b");
  EXPECT_EQ(parsed.live, 12u);
  EXPECT_EQ(parsed.passed, std::vector<std::string>{"--benchmark_filter=x"});
  EXPECT_FALSE(Parse({}).json);
}

TEST(BenchCommandDeathTest, AWrongCommandLineIsOneLineAndExitCodeTwo) {
  const auto exits = ::testing::ExitedWithCode(kUsage);
  EXPECT_EXIT(Parse({"--folders", "x"}), exits, "^name: there is no option '--folders'; see");
  EXPECT_EXIT(Parse({"word"}), exits, "there is no option 'word'");
  EXPECT_EXIT(Parse({"--folder"}), exits, "--folder needs DIR");
  EXPECT_EXIT(Parse({"--json=file"}), exits, "--json takes no value");
  for (const char* wrong : {"0", "-1", "3x", ""}) {
    EXPECT_EXIT(Parse({"--live", wrong}), exits, "--live does not take");
  }
}

TEST(BenchCommandDeathTest, HelpStandsAlone) {
  // Death tests see standard error only.
  const auto help = [] {
    ::dup2(2, 1);
    Parse({"--json", "--help", "--no-such"});
  };
  const auto exits = ::testing::ExitedWithCode(0);
  EXPECT_EXIT(help(), exits, "usage: ./x bench name");
  EXPECT_EXIT(help(), exits, "What it measures.");
  EXPECT_EXIT(help(), exits, "--folder DIR +where");
  EXPECT_EXIT(help(), exits, "Needs: nothing.");
  EXPECT_EXIT(help(), exits, "Takes: a second.");
  EXPECT_EXIT(help(), exits, "Exit code: 0 it has no bounds; 1 ");
}

TEST(BenchCommand, TheExitCodeSaysWhetherBoundsHeld) {
  EXPECT_EQ(ExitCodeOf(true), 0);
  EXPECT_EQ(ExitCodeOf(false), 1);
}

}  // namespace
}  // namespace shoal::bench_command
