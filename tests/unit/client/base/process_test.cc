#include "client/base/process.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>

#include "common/file.h"

namespace shoal::client {
namespace {

using testing::HasSubstr;

constexpr const char* kShell = "/bin/sh";
// Longer than any test: who waits for it was not ended.
constexpr const char* kForever = "while :; do sleep 0.05; done";

class ProcessTest : public testing::Test {
 protected:
  ProcessTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "shoal-process-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~ProcessTest() override { std::filesystem::remove_all(folder_); }

  std::string At(const std::string& name) const { return folder_ + "/" + name; }
  std::string Content(const std::string& name) const {
    Result<std::string> text = ReadFile(At(name), 1 << 20);
    return text.ok() ? *text : "";
  }
  static Process Shell(const std::string& script, const std::string& output = "") {
    return Process::Start({{kShell, "-c", script}, {}, output}).value();
  }
  // Until the file has something in it.
  std::string WaitForContent(const std::string& name) const {
    for (int i = 0; i < 12000; ++i) {
      if (const std::string text = Content(name); text.ends_with("\n")) return text;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return "";
  }
  // False if the process is still there after a time that no healthy machine needs.
  static bool WaitUntilGone(pid_t pid) {
    for (int i = 0; i < 12000; ++i) {
      if (::kill(pid, 0) != 0) return true;
      // Orphans become children of whoever adopts them, and may stay as zombies there.
      const auto stat = ReadFile("/proc/" + std::to_string(pid) + "/stat", 4096);
      if (stat.ok() && stat->find(") Z ") != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  std::string folder_;
};

TEST_F(ProcessTest, TellsExitCodes) {
  EXPECT_EQ(Shell("exit 0").Wait(), 0);
  Process process = Shell("exit 7");
  EXPECT_EQ(process.Wait(), 7);
  EXPECT_EQ(process.Wait(), 7);
  EXPECT_EQ(process.Poll(), 7);
  EXPECT_EQ(process.name(), "sh");
  EXPECT_EQ(Shell("kill -KILL $$").Wait(), 128 + SIGKILL);
}

TEST_F(ProcessTest, PollDoesNotWait) {
  Process process = Shell(kForever);
  EXPECT_FALSE(process.Poll().has_value());
  process.Signal(SIGKILL);
  EXPECT_EQ(process.Wait(), 128 + SIGKILL);
  process.Signal(SIGKILL);  // no other process is hit
}

TEST_F(ProcessTest, MissingProgramIsAnErrorThatNamesIt) {
  const Result<Process> process = Process::Start({{At("nothing")}, {}, ""});
  ASSERT_FALSE(process.ok());
  EXPECT_THAT(process.status().message(), HasSubstr(At("nothing")));
  EXPECT_FALSE(Process::Start({{kShell, "-c", "true"}, {}, At("no/such/folder")}).ok());
}

TEST_F(ProcessTest, BothOutputsGoToTheFile) {
  EXPECT_EQ(Shell("echo out; echo error >&2", At("log")).Wait(), 0);
  EXPECT_EQ(Shell("echo again", At("log")).Wait(), 0);
  EXPECT_EQ(Content("log"), "out\nerror\nagain\n");
}

TEST_F(ProcessTest, EnvironmentIsInheritedAndChanged) {
  ::setenv("SHOAL_TEST_A", "old", 1);
  ::setenv("SHOAL_TEST_B", "kept", 1);
  Process process = Process::Start({{kShell, "-c", "env | grep ^SHOAL_TEST_[ABC]= | sort"},
                                    {"SHOAL_TEST_A=new", "SHOAL_TEST_C=more"},
                                    At("log")})
                        .value();
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_EQ(Content("log"), "SHOAL_TEST_A=new\nSHOAL_TEST_B=kept\nSHOAL_TEST_C=more\n");
}

TEST_F(ProcessTest, StopAsksFirst) {
  Process process =
      Shell("trap 'echo bye; exit 3' TERM; echo ready; " + std::string(kForever), At("log"));
  ASSERT_EQ(WaitForContent("log"), "ready\n");
  process.Stop(std::chrono::seconds(60));
  EXPECT_EQ(process.Poll(), 3);
  EXPECT_EQ(Content("log"), "ready\nbye\n");
}

TEST_F(ProcessTest, StopEscalatesToKill) {
  Process process = Shell("trap '' TERM; echo ready; " + std::string(kForever), At("log"));
  ASSERT_EQ(WaitForContent("log"), "ready\n");
  process.Stop(std::chrono::milliseconds(100));
  EXPECT_EQ(process.Poll(), 128 + SIGKILL);
}

TEST_F(ProcessTest, DestructionStopsTheChild) {
  pid_t pid = 0;
  {
    const Process process = Shell("echo $$; " + std::string(kForever), At("log"));
    pid = std::atoi(WaitForContent("log").c_str());
    ASSERT_GT(pid, 0);
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST_F(ProcessTest, MovedFromItOwnsNothing) {
  Process first = Shell(kForever);
  Process second = std::move(first);
  EXPECT_FALSE(second.Poll().has_value());
  second = Shell("exit 4");  // ends the one before
  EXPECT_EQ(second.Wait(), 4);
}

TEST_F(ProcessTest, ChildDiesWithItsParent) {
  const pid_t parent = ::fork();
  if (parent == 0) {
    auto process =
        Process::Start({{kShell, "-c", "echo $$; " + std::string(kForever)}, {}, At("log")});
    for (;;) ::pause();
  }
  const pid_t child = std::atoi(WaitForContent("log").c_str());
  ASSERT_GT(child, 0);
  ASSERT_EQ(::kill(parent, SIGKILL), 0);
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  EXPECT_TRUE(WaitUntilGone(child));
}

TEST_F(ProcessTest, ChildHasAGroupOfItsOwnAndNoBlockedSignals) {
  sigset_t all, before;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const int code = Shell(
                       "echo $$; grep SigBlk /proc/self/status; ps -o pgid= -p $$ 2>/dev/null || "
                       "cut -d' ' -f5 /proc/$$/stat",
                       At("log"))
                       .Wait();
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ASSERT_EQ(code, 0);
  std::istringstream lines(Content("log"));
  long pid = 0, group = -1;
  std::string label, mask;
  lines >> pid >> label >> mask >> group;
  EXPECT_EQ(mask, "0000000000000000");
  EXPECT_EQ(group, pid);
}

TEST(RunAndCapture, GivesOutputAndCode) {
  const auto ran = RunAndCapture({kShell, "-c", "echo hello; exit 5"}, 100);
  ASSERT_TRUE(ran.ok()) << ran.status().ToString();
  EXPECT_EQ(ran->exit_code, 5);
  EXPECT_EQ(ran->output, "hello\n");
  const auto big = RunAndCapture({kShell, "-c", "head -c 300000 /dev/zero"}, 300'000);
  ASSERT_TRUE(big.ok());
  EXPECT_EQ(big->output.size(), 300'000u);
}

TEST(RunAndCapture, TooMuchOutputIsAnErrorAndDoesNotHang) {
  const auto ran = RunAndCapture({kShell, "-c", "head -c 300000 /dev/zero"}, 299'999);
  EXPECT_EQ(ran.status().code(), StatusCode::kResourceExhausted);
}

TEST(RunAndCapture, MissingProgramIsAnError) {
  EXPECT_FALSE(RunAndCapture({"/nothing/here"}, 100).ok());
}

TEST(RunAndCapture, StopsOnDemand) {
  const auto ran = RunAndCapture({kShell, "-c", kForever}, 100, [] { return true; });
  ASSERT_TRUE(ran.ok()) << ran.status().ToString();
  EXPECT_EQ(ran->exit_code, 128 + SIGTERM);
}

TEST_F(ProcessTest, APipeForTheOutputIsAnErrorAtOnce) {
  ASSERT_EQ(::mkfifo(At("pipe").c_str(), 0600), 0);
  const auto started = Process::Start({{kShell, "-c", "true"}, {}, At("pipe")});
  EXPECT_THAT(started.status().message(), HasSubstr("pipe is not a regular file"));
}

TEST(Exec, FailureComesBack) {
  const Status status = Exec({"/nothing/here"});
  EXPECT_THAT(status.message(), HasSubstr("/nothing/here"));
}

}  // namespace
}  // namespace shoal::client
