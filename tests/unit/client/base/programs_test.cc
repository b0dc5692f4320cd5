#include "client/base/programs.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

namespace shoal::client {
namespace {

using testing::HasSubstr;

TEST(Programs, FindsWhatLiesBesideItself) {
  const Result<std::string> path = FindProgram("client_programs_test");
  ASSERT_TRUE(path.ok()) << path.status().ToString();
  EXPECT_TRUE(std::filesystem::equivalent(*path, "/proc/self/exe"));
}

TEST(Programs, MissingOnesAreNamedWithTheWayOut) {
  const Status status = FindProgram("shoal-nothing").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("shoal-nothing"));
  EXPECT_THAT(status.message(), HasSubstr("./x build"));
}

TEST(Programs, FindsTheExamplesOfTheSourceTreeOrWhereItIsTold) {
  const std::string source = std::getenv("SHOAL_SOURCE_DIR");
  const Result<std::string> found = FindExamples();
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  EXPECT_TRUE(std::filesystem::equivalent(*found, source + "/examples"));
  ::setenv("SHOAL_EXAMPLES", (source + "/build/../examples").c_str(), 1);
  EXPECT_EQ(FindExamples().value(),
            std::filesystem::weakly_canonical(source + "/examples").string());
  ::unsetenv("SHOAL_EXAMPLES");
}

TEST(Programs, DirectoryFollowsTheEnvironment) {
  ::setenv("HOME", "/people/me", 1);
  ::unsetenv("SHOAL_DIR");
  ::unsetenv("XDG_STATE_HOME");
  EXPECT_EQ(DefaultDirectory(), "/people/me/.local/state/shoal");
  ::setenv("XDG_STATE_HOME", "/state", 1);
  EXPECT_EQ(DefaultDirectory(), "/state/shoal");
  ::setenv("SHOAL_DIR", "/mine", 1);
  EXPECT_EQ(DefaultDirectory(), "/mine");
}

}  // namespace
}  // namespace shoal::client
