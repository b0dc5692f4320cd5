#include "client/base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "common/regular_file.h"

namespace shoal::client {
namespace {

constexpr std::size_t kScriptOutputBytesMax = 1 << 20;

constexpr Duration kPollInterval = std::chrono::milliseconds(20);
constexpr int kStopPoll_ms = 100;
constexpr Duration kDefaultGrace = std::chrono::seconds(5);

int ExitCodeOf(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<char*> ToArgv(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  return argv;
}

// In the child, between fork and exec: only async-signal-safe calls.
[[noreturn]] void BecomeChild(char* const* argv, char* const* environment, int output,
                              bool output_is_error_too, pid_t parent, int failure_pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  // A group of its own: Ctrl-C reaches the CLI only, which then stops its children in order.
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (output >= 0) {
    ::dup2(output, STDOUT_FILENO);
    if (output_is_error_too) ::dup2(output, STDERR_FILENO);
  }
  ::execve(argv[0], argv, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(failure_pipe, &error, sizeof(error));
  ::_exit(127);
}

// The CLI's environment with `changes` in place of variables of the same name.
std::vector<std::string> Merged(const std::vector<std::string>& changes) {
  std::vector<std::string> variables = changes;
  for (char** item = environ; *item != nullptr; ++item) {
    const std::string_view variable(*item);
    const std::string_view name = variable.substr(0, variable.find('=') + 1);
    const bool changed = std::any_of(changes.begin(), changes.end(), [name](const auto& change) {
      return !name.empty() && change.starts_with(name);
    });
    if (!changed) variables.emplace_back(variable);
  }
  return variables;
}

// Starts `command`; execve's failure comes back as a status.
Result<pid_t> Spawn(const std::vector<std::string>& command,
                    const std::vector<std::string>& environment, int output,
                    bool output_is_error_too) {
  const std::vector<std::string> variables = Merged(environment);
  const std::vector<char*> argv = ToArgv(command);
  const std::vector<char*> envp = ToArgv(variables);
  std::array<int, 2> failure{};
  if (::pipe2(failure.data(), O_CLOEXEC) != 0) return FromErrno(errno, "pipe");
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    BecomeChild(argv.data(), envp.data(), output, output_is_error_too, parent, failure[1]);
  }
  ::close(failure[1]);
  int error = pid < 0 ? errno : 0;
  if (pid > 0) {
    ssize_t got = 0;
    while ((got = ::read(failure[0], &error, sizeof(error))) < 0 && errno == EINTR) {
    }
    if (got > 0) ::waitpid(pid, nullptr, 0);
  }
  ::close(failure[0]);
  if (error != 0) return FromErrno(error, "start " + command[0]);
  return pid;
}

}  // namespace

Result<Process> Process::Start(const ProcessOptions& options) {
  SHOAL_CHECK(!options.command.empty());
  int output = -1;
  if (!options.output_file.empty()) {
    SHOAL_ASSIGN_OR_RETURN(
        output, OpenRegularFile(options.output_file, O_WRONLY | O_CREAT | O_APPEND, 0600));
  }
  Result<pid_t> pid = Spawn(options.command, options.environment, output, true);
  if (output >= 0) ::close(output);
  if (!pid.ok()) return pid.status();
  const std::string& path = options.command[0];
  return Process(*pid, path.substr(path.rfind('/') + 1));
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      name_(std::move(other.name_)),
      exit_code_(other.exit_code_) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    Stop(kDefaultGrace);
    pid_ = std::exchange(other.pid_, -1);
    name_ = std::move(other.name_);
    exit_code_ = other.exit_code_;
  }
  return *this;
}

Process::~Process() { Stop(kDefaultGrace); }

std::optional<int> Process::Poll() {
  if (pid_ < 0 || exit_code_) return exit_code_;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == pid_) exit_code_ = ExitCodeOf(status);
  return exit_code_;
}

int Process::Wait() {
  SHOAL_CHECK(pid_ >= 0);
  while (!exit_code_) {
    int status = 0;
    if (::waitpid(pid_, &status, 0) == pid_) exit_code_ = ExitCodeOf(status);
  }
  return *exit_code_;
}

void Process::Signal(int signal) {
  if (pid_ > 0 && !Poll()) ::kill(pid_, signal);
}

void Process::Stop(Duration grace) {
  if (pid_ < 0 || Poll()) return;
  Signal(SIGTERM);
  const TimePoint deadline = SystemClock().Now() + grace;
  while (!Poll() && SystemClock().Now() < deadline) std::this_thread::sleep_for(kPollInterval);
  Signal(SIGKILL);
  Wait();
}

namespace {

Result<Captured> Capture(const std::vector<std::string>& command, std::size_t max_bytes,
                         bool with_errors, const std::function<bool()>& stop) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return FromErrno(errno, "pipe");
  Result<pid_t> pid = Spawn(command, {}, ends[1], with_errors);
  ::close(ends[1]);
  Captured captured;
  if (pid.ok()) {
    std::array<char, 65536> chunk;
    pollfd readable{ends[0], POLLIN, 0};
    for (bool told = false;;) {
      if (!told && stop && stop()) {
        told = true;
        ::kill(*pid, SIGTERM);
      }
      if (::poll(&readable, 1, kStopPoll_ms) <= 0) continue;  // also when a signal came
      const ssize_t got = ::read(ends[0], chunk.data(), chunk.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      if (captured.output.size() <= max_bytes) {
        captured.output.append(chunk.data(), static_cast<std::size_t>(got));
      }
    }
  }
  ::close(ends[0]);
  if (!pid.ok()) return pid.status();
  int status = 0;
  while (::waitpid(*pid, &status, 0) < 0 && errno == EINTR) {
  }
  captured.exit_code = ExitCodeOf(status);
  if (captured.output.size() > max_bytes) {
    return ResourceExhausted(command[0] + " printed more than expected");
  }
  return captured;
}

}  // namespace

Result<Captured> RunAndCapture(const std::vector<std::string>& command, std::size_t max_bytes,
                               const std::function<bool()>& stop) {
  return Capture(command, max_bytes, false, stop);
}

Result<Captured> RunAndCaptureAll(const std::vector<std::string>& command, std::size_t max_bytes) {
  return Capture(command, max_bytes, true, nullptr);
}

Status RunScript(const std::string& text) {
  SHOAL_ASSIGN_OR_RETURN(
      const Captured ran,
      RunAndCaptureAll({"/bin/sh", "-c", "set -e; PATH=$PATH:/usr/sbin:/sbin\n" + text},
                       kScriptOutputBytesMax));
  if (ran.exit_code == 0) return Status::Ok();
  return Internal(ran.output.substr(0, ran.output.find('\n')));
}

Status Exec(const std::vector<std::string>& command) {
  const std::vector<char*> argv = ToArgv(command);
  ::execv(argv[0], argv.data());
  return FromErrno(errno, "start " + command[0]);
}

}  // namespace shoal::client
