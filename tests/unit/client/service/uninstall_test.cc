#include "client/service/uninstall.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "client/service/unit.h"
#include "common/file.h"
#include "tests/support/temporary_folder.h"

namespace shoal::client {
namespace {

namespace fs = std::filesystem;

class UninstallTest : public testing::Test {
 protected:
  UninstallTest() {
    ::setenv("HOME", At("home").c_str(), 1);
    ::unsetenv("XDG_CONFIG_HOME");
    fs::create_directories(At("state/deltas/images"));
    Write("state/identity.key", "12345");
    Write("state/deltas/images/1", "1234567");
    Write("state/shoald.log.1", "1");
    Write("state/thesis.txt", "precious");
    Write("precious", "precious");
    fs::create_symlink(At("precious"), At("state/invite"));
  }
  std::string At(const std::string& name) const {
    return (fs::path(folder_.path()) / name).string();
  }
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(At(name)).parent_path());
    ASSERT_TRUE(WriteFileAtomic(At(name), text).ok());
  }
  ExitCode Run(bool yes, bool runs, const std::string& typed) const {
    std::istringstream input(typed);
    return Uninstall(
        {At("state"), yes, false}, [runs] { return runs; }, input);
  }

  test_support::TemporaryFolder folder_;
};

TEST_F(UninstallTest, ListsOnlyWhatIsOurs) {
  std::vector<std::pair<std::string, std::uint64_t>> found;
  for (const LeftBehind& left : StateOf(At("state"))) {
    found.emplace_back(fs::path(left.path).filename(), left.bytes);
  }
  EXPECT_THAT(found,
              testing::ElementsAre(testing::Pair("deltas", 7), testing::Pair("identity.key", 5),
                                   testing::Pair("invite", 0), testing::Pair("shoald.log.1", 1)));
  EXPECT_TRUE(StateOf(At("nothing")).empty());
}

TEST_F(UninstallTest, RemovesAfterAYesAndNothingElse) {
  Write("home/.config/systemd/user/shoald.service", std::string(kUnitMark) + "\n[Unit]\n");
  EXPECT_EQ(Run(false, false, "no\n"), ExitCode::kFailure);
  EXPECT_EQ(Run(false, false, ""), ExitCode::kFailure);
  EXPECT_TRUE(fs::exists(At("state/identity.key")));
  EXPECT_EQ(Run(false, false, "y\n"), ExitCode::kOk);
  EXPECT_FALSE(fs::exists(At("state/identity.key")));
  EXPECT_FALSE(fs::exists(At("state/deltas")));
  EXPECT_FALSE(fs::exists(At("home/.config/systemd/user/shoald.service")));
  EXPECT_TRUE(fs::exists(At("state/thesis.txt"))) << "not ours";
  EXPECT_TRUE(fs::exists(At("precious"))) << "behind a link";
}

TEST_F(UninstallTest, TakesNothingWhereNoPeerHasItsKey) {
  fs::remove(At("state/identity.key"));
  Write("home/.config/systemd/user/shoald.service", "[Unit]\n");  // somebody's own
  EXPECT_TRUE(StateOf(At("state")).empty());
  EXPECT_EQ(Run(true, false, ""), ExitCode::kOk);
  EXPECT_TRUE(fs::exists(At("state/deltas/images/1")));
  EXPECT_TRUE(fs::exists(At("home/.config/systemd/user/shoald.service")));
}

TEST_F(UninstallTest, NeverTakesTheKeyOfARun) {
  for (const char* name : {"run.toml", "events/LOCK"}) {
    Write(std::string("state/") + name, "x");
    EXPECT_EQ(Run(true, false, ""), ExitCode::kFailure) << name;
    EXPECT_TRUE(fs::exists(At("state/identity.key"))) << name;
    fs::remove_all(At("state/run.toml"));
    fs::remove_all(At("state/events"));
  }
  EXPECT_EQ(Run(true, false, ""), ExitCode::kOk);
}

TEST_F(UninstallTest, LeavesNoEmptyFolder) {
  fs::remove(At("state/thesis.txt"));
  EXPECT_EQ(Run(true, false, ""), ExitCode::kOk);
  EXPECT_FALSE(fs::exists(At("state")));
  EXPECT_EQ(Run(true, false, ""), ExitCode::kOk) << "nothing is left to remove";
}

TEST_F(UninstallTest, RefusesWhileADaemonRuns) {
  EXPECT_EQ(Run(true, true, ""), ExitCode::kFailure);
  EXPECT_TRUE(fs::exists(At("state/identity.key")));
}

}  // namespace
}  // namespace shoal::client
