#include "net/control/local_control.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>

#include "tests/unit/net/net_test_util.h"

namespace shoal::net {
namespace {

using testing::HasSubstr;

class LocalControlTest : public testing::Test {
 protected:
  ~LocalControlTest() override { Stop(); }

  void Stop() {
    RunOn(executor_.get(), [this] {
      server_.reset();
      return 0;
    });
  }

  Status Start() {
    LocalHandlers handlers;
    handlers.on_status = [this](std::function<void(std::string)> reply) {
      // Later, from the executor's thread.
      executor_->Post("test", [reply] { reply("{\"state\":\"training\"}"); });
    };
    handlers.on_command = [this](const std::string& name,
                                 const std::map<std::string, std::string>& arguments,
                                 std::function<void(Result<CommandResult>)> reply) {
      if (name == "never") {
        kept_ = reply;
      } else if (name == "set") {
        reply(CommandResult{"upload is " + arguments.at("upload"), "{}"});
      } else {
        reply(NotFound("there is no command " + name));
      }
    };
    auto server = NewLocalServer(path_, executor_.get(), handlers);
    if (server.ok()) server_ = std::move(server).value();
    return server.status();
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/shoald.sock";
  std::unique_ptr<Executor> executor_ = NewThreadExecutor("control");
  std::function<void(Result<CommandResult>)> kept_;
  std::unique_ptr<LocalServer> server_;
};

TEST_F(LocalControlTest, StatusAndCommands) {
  ASSERT_EQ(Start().ToString(), "ok");
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);
  EXPECT_EQ(LocalStatus(path_, std::chrono::seconds(20)).value(), "{\"state\":\"training\"}");
  const auto set =
      LocalCommand(path_, "set", {{"upload", "20mbit"}}, std::chrono::seconds(20)).value();
  EXPECT_EQ(set.message, "upload is 20mbit");
  EXPECT_EQ(set.json, "{}");
  const auto unknown = LocalCommand(path_, "fly", {}, std::chrono::seconds(20));
  EXPECT_EQ(unknown.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(unknown.status().message(), "there is no command fly");
}

TEST_F(LocalControlTest, NobodyThere) {
  const auto status = LocalStatus(path_, std::chrono::seconds(5));
  EXPECT_EQ(status.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.status().message(), HasSubstr("nobody listens"));
}

TEST_F(LocalControlTest, LiveSocketIsRefusedStaleOneIsReplaced) {
  ASSERT_TRUE(Start().ok());
  const auto second = NewLocalServer(path_, executor_.get(), {});
  EXPECT_EQ(second.status().code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(second.status().message(), HasSubstr("another daemon listens"));
  EXPECT_TRUE(LocalStatus(path_, std::chrono::seconds(20)).ok()) << "the first one still works";
  Stop();

  // A socket file that its owner left behind.
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ::close(fd);
  EXPECT_EQ(Start().ToString(), "ok");
  EXPECT_TRUE(LocalStatus(path_, std::chrono::seconds(20)).ok());
}

TEST_F(LocalControlTest, AFileInTheWayIsNotTouched) {
  std::ofstream(path_) << "precious";
  EXPECT_EQ(Start().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(std::filesystem::file_size(path_), 8u);
}

TEST_F(LocalControlTest, TooLongPathAndMissingFolder) {
  EXPECT_EQ(NewLocalServer("/" + std::string(200, 'x'), executor_.get(), {}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(NewLocalServer(folder_.path() + "/absent/s", executor_.get(), {}).status().code(),
            StatusCode::kUnavailable);
}

TEST_F(LocalControlTest, ServerGoesWhileAnAnswerIsOwed) {
  ASSERT_TRUE(Start().ok());
  const auto late = LocalCommand(path_, "never", {}, std::chrono::milliseconds(300));
  EXPECT_EQ(late.status().code(), StatusCode::kDeadlineExceeded);
  auto waiting = std::async(std::launch::async, [this] {
    return LocalCommand(path_, "never", {}, std::chrono::seconds(60)).status();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  Stop();
  EXPECT_FALSE(waiting.get().ok());
  // Too late, and harmless.
  RunOn(executor_.get(), [this] {
    kept_(CommandResult{"late", ""});
    return 0;
  });
}

}  // namespace
}  // namespace shoal::net
