// Child processes of the CLI: started without a shell, ended with the CLI, output captured or in
// a log file.

#ifndef SHOAL_CLIENT_BASE_PROCESS_H_
#define SHOAL_CLIENT_BASE_PROCESS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"

namespace shoal::client {

struct ProcessOptions {
  std::vector<std::string> command;  // program path and arguments
  // Variables set on top of the CLI's own environment: "NAME=value".
  std::vector<std::string> environment;
  std::string output_file;  // both outputs go there; empty: inherited
};

// Thread: main.
class Process {
 public:
  // The kernel ends the child when the CLI dies, so nothing is left running even after SIGKILL.
  static Result<Process> Start(const ProcessOptions& options);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();  // Stop with five seconds of grace

  // The exit code if the child has ended (128 + signal when killed).
  std::optional<int> Poll();
  int Wait();
  void Signal(int signal);
  // SIGTERM, then SIGKILL after `grace`.
  void Stop(Duration grace);
  int pid() const { return pid_; }
  const std::string& name() const { return name_; }

 private:
  Process(int pid, std::string name) : pid_(pid), name_(std::move(name)) {}
  int pid_ = -1;  // pid_t
  std::string name_;
  std::optional<int> exit_code_;
};

struct Captured {
  int exit_code = 0;
  std::string output;  // standard output
};
// Runs to the end; output over `max_bytes` is an error. Once `stop` holds the child gets SIGTERM.
// Standard error is inherited.
Result<Captured> RunAndCapture(const std::vector<std::string>& command, std::size_t max_bytes,
                               const std::function<bool()>& stop = nullptr);
// The same, with standard error in the output.
Result<Captured> RunAndCaptureAll(const std::vector<std::string>& command, std::size_t max_bytes);

// A shell script, which finds what root's shell does; stops at the first error. Internal: what it
// printed first.
Status RunScript(const std::string& text);

// Replaces the CLI by `command`; returns only on failure.
Status Exec(const std::vector<std::string>& command);

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_BASE_PROCESS_H_
