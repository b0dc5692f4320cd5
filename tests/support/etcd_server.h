// Debian's etcd as a process of its own, which ends with this object. Its data are in memory.

#ifndef SHOAL_TESTS_SUPPORT_ETCD_SERVER_H_
#define SHOAL_TESTS_SUPPORT_ETCD_SERVER_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/status.h"
#include "tests/support/temporary_folder.h"

namespace shoal::test_support {

class EtcdServer {
 public:
  EtcdServer() {
    std::string pattern = "/dev/shm/shoal-etcd-XXXXXX";
    SHOAL_CHECK(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    // Another process may take a port that was free a moment ago.
    for (int tries = 0; tries < 5; ++tries) {
      Kill();
      address_ = "http://127.0.0.1:" + std::to_string(port_ = FreePort());
      peer_ = "http://127.0.0.1:" + std::to_string(FreePort());
      Start();
      if (Listens()) return;
    }
  }
  ~EtcdServer() {
    Kill();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  // As run.toml has it. It may take a second until somebody answers there.
  const std::string& address() const { return address_; }
  // On the data that it left.
  void Start() {
    const std::string kept = Environment("SHOAL_SOURCE_DIR") + "/.deps/bin/etcd";
    std::vector<std::string> command = {std::filesystem::exists(kept) ? kept : "etcd",
                                        "--data-dir",
                                        folder_ + "/data",
                                        "--listen-client-urls",
                                        address_,
                                        "--advertise-client-urls",
                                        address_,
                                        "--listen-peer-urls",
                                        peer_,
                                        "--initial-advertise-peer-urls",
                                        peer_,
                                        "--initial-cluster",
                                        "default=" + peer_,
                                        "--log-level",
                                        "error"};
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    child_ = ::fork();
    SHOAL_CHECK(child_ >= 0);
    if (child_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int null = ::open("/dev/null", O_RDWR);
    for (const int fd : {0, 1, 2}) ::dup2(null, fd);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  void Kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
    child_ = -1;
  }

 private:
  // Soon; false: it has ended, or does not within 20 s.
  bool Listens() const {
    for (int i = 0; i < 1000; ++i) {
      siginfo_t ended{};
      if (::waitid(P_PID, static_cast<id_t>(child_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
          ended.si_pid != 0) {
        return false;
      }
      const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(port_);
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      const int connected =
          ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
      ::close(fd);
      if (connected == 0) return true;
      ::usleep(20'000);
    }
    return false;
  }
  static std::uint16_t FreePort() {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    SHOAL_CHECK(::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
    SHOAL_CHECK(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    ::close(fd);
    return ntohs(address.sin_port);
  }

  std::string folder_, address_, peer_;
  std::uint16_t port_ = 0;
  pid_t child_ = -1;
};

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_ETCD_SERVER_H_
