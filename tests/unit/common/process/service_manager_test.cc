#include "common/process/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace shoal {
namespace {

// What systemd listens on.
class ServiceManager : public testing::Test {
 protected:
  ServiceManager() {
    path_ = testing::TempDir() + "/notify-" + std::to_string(::getpid());
    socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ::setenv("NOTIFY_SOCKET", path_.c_str(), 1);
  }
  ~ServiceManager() override {
    ::close(socket_);
    ::unlink(path_.c_str());
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
  }
  std::string Heard() const {
    char text[256];
    const ssize_t got = ::recv(socket_, text, sizeof(text), MSG_DONTWAIT);
    return got > 0 ? std::string(text, static_cast<std::size_t>(got)) : "";
  }

  std::string path_;
  int socket_ = -1;
};

TEST_F(ServiceManager, HearsOfEachState) {
  TellReady();
  EXPECT_EQ(Heard(), "READY=1");
  TellAlive();
  EXPECT_EQ(Heard(), "WATCHDOG=1");
  TellStopping();
  EXPECT_EQ(Heard(), "STOPPING=1");
  ::unsetenv("NOTIFY_SOCKET");
  TellReady();
  EXPECT_EQ(Heard(), "");
}

TEST_F(ServiceManager, WatchesOnlyIfItSaysSo) {
  EXPECT_FALSE(WatchdogInterval());
  ::setenv("WATCHDOG_USEC", "90000000", 1);
  ASSERT_TRUE(WatchdogInterval());
  EXPECT_EQ(*WatchdogInterval(), std::chrono::seconds(30));
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_FALSE(WatchdogInterval()) << "another process is meant";
  ::setenv("WATCHDOG_USEC", "nonsense", 1);
  ::unsetenv("WATCHDOG_PID");
  EXPECT_FALSE(WatchdogInterval());
}

}  // namespace
}  // namespace shoal
