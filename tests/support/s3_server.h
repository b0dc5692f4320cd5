// tests/support/s3_server.py as a process of its own, which ends with this object.

#ifndef SHOAL_TESTS_SUPPORT_S3_SERVER_H_
#define SHOAL_TESTS_SUPPORT_S3_SERVER_H_

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "common/status.h"
#include "tests/support/temporary_folder.h"

namespace shoal::test_support {

class S3Server {
 public:
  // Options as the program's: "--token", "t".
  explicit S3Server(const std::vector<std::string>& options = {}) {
    int in[2], out[2];
    SHOAL_CHECK(::pipe(in) == 0 && ::pipe(out) == 0);
    std::vector<std::string> command = {
        "python3", "-B", Environment("SHOAL_SOURCE_DIR") + "/tests/support/s3_server.py"};
    command.insert(command.end(), options.begin(), options.end());
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    child_ = ::fork();
    SHOAL_CHECK(child_ >= 0);
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      for (const int fd : {in[0], in[1], out[0], out[1]}) ::close(fd);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
    port_ = ReadLine();
  }
  ~S3Server() {
    ::close(to_);
    ::close(from_);
    ::kill(child_, SIGKILL);
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;

  // Empty: it did not start.
  const std::string& port() const { return port_; }

  // The answer to one line, as the program describes them.
  std::string Tell(const std::string& line) {
    const std::string whole = line + "\n";
    SHOAL_CHECK(::write(to_, whole.data(), whole.size()) == static_cast<ssize_t>(whole.size()));
    return ReadLine();
  }

 private:
  std::string ReadLine() {
    std::string line;
    for (char c = 0; ::read(from_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }

  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
  std::string port_;
};

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_S3_SERVER_H_
