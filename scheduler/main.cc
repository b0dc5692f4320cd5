// shoal-scheduler: opens a run and serves it until it is told to stop.

#include <signal.h>
#include <unistd.h>

#include <iostream>
#include <optional>

#include <CLI/CLI.hpp>

#include "common/exit_code.h"
#include "common/file.h"
#include "common/log.h"
#include "common/mutex.h"
#include "common/trace.h"
#include "common/version.h"
#include "scheduler/run_config_keys.h"
#include "scheduler/server.h"

namespace shoal::scheduler {
namespace {

struct Flags {
  std::string config, directory, listen, log_level = "info", port_file;
  bool print_config = false;
};

ExitCode Fail(ExitCode code, const std::string& message) {
  std::cerr << "shoal-scheduler: " << message << "\n";
  return code;
}

// What is wrong with run.toml, the model or the data is the configuration's fault.
ExitCode CodeFor(const Status& status) {
  switch (status.code()) {
    case StatusCode::kNotFound:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kUnimplemented:
    case StatusCode::kOutOfRange: return ExitCode::kBadConfig;
    default: return ExitCodeFor(status);
  }
}

// Nothing: go on. Otherwise the exit code of the program.
std::optional<ExitCode> ReadFlags(int argc, char** argv, Flags* flags) {
  CLI::App app("Serves a run of shoal: who takes part, which micro-batches count, checkpoints.",
               "shoal-scheduler");
  app.add_option("--config", flags->config, "Settings of the run (run.toml)")
      ->envname("SHOAL_RUN_CONFIG");
  app.add_option("--dir", flags->directory, "Folder of all state, instead of run.directory");
  app.add_option("--listen", flags->listen, "host:port for peers, instead of network.listen");
  app.add_option("--log-level", flags->log_level, "trace, debug, info, warning, error or off")
      ->capture_default_str();
  app.add_option("--port-file", flags->port_file, "File to write the port for peers to");
  app.add_flag("--print-config", flags->print_config, "Print the effective settings and end");
  app.set_version_flag("--version", std::string("shoal-scheduler ") + kVersion);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? ExitCode::kOk : ExitCode::kUsage;
  }
  if (flags->config.empty() && !flags->print_config) {
    return Fail(ExitCode::kUsage,
                "--config is missing; make one with `shoal swarm init`, or see --print-config");
  }
  return std::nullopt;
}

Result<RunConfig> EffectiveConfig(const Flags& flags) {
  RunConfig config;
  if (!flags.config.empty()) {
    SHOAL_ASSIGN_OR_RETURN(config, ReadRunConfig(flags.config));
  }
  if (!flags.directory.empty()) config.directory = flags.directory;
  if (!flags.listen.empty()) config.listen = flags.listen;
  SHOAL_RETURN_IF_ERROR(CheckRunConfig(config));
  return config;
}

// Signals are taken by sigwait on the main thread: SIGINT and SIGTERM from outside, SIGUSR1 when
// the server itself wants to end.
sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGUSR1);
  return signals;
}

void Greet(const SchedulerServer& server) {
  const RunConfig& config = server.config();
  const std::uint64_t needed = std::uint64_t{config.stages} * config.pipelines;
  std::cout << "run \"" << config.name << "\" (" << config.run.ToHex() << "): " << config.steps
            << " steps, " << config.stages << " stages x " << config.pipelines
            << " pipelines, forward " << config.forward << ", backward " << config.backward << "\n";
  if (server.boundary_bytes() > 0 && config.stages > 1) {
    std::cout << "each end of a boundary will keep up to "
              << FormatBytes(server.boundary_bytes() / config.pipelines)
              << " of activations on its disk\n";
  }
  std::cout << "status page: http://" << server.status_address() << "/\n"
            << "next: on each of " << needed << (needed == 1 ? " machine" : " machines")
            << ", start shoald and type\n\n  shoal join " << server.invite() << "\n"
            << std::endl;
}

ExitCode Serve(const Flags& flags, const RunConfig& config) {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // threads inherit it
  struct {
    Mutex mutex;
    Status status SHOAL_GUARDED_BY(mutex);
  } request;
  auto server = SchedulerServer::Open(config, [&request](Status status) {
    {
      MutexLock lock(request.mutex);
      request.status = std::move(status);
    }
    kill(getpid(), SIGUSR1);
  });
  if (!server.ok()) return Fail(CodeFor(server.status()), server.status().message());
  if (!flags.port_file.empty()) {
    const std::string port = std::to_string((*server)->port()) + "\n";
    if (Status status = WriteFileAtomic(flags.port_file, port); !status.ok()) {
      return Fail(ExitCode::kFailure, status.message());
    }
  }
  Greet(**server);
  int signal = 0;
  sigwait(&signals, &signal);
  // A second signal ends the process at once.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  std::move(server).value().reset();
  MutexLock lock(request.mutex);
  if (signal != SIGUSR1 || request.status.ok()) return ExitCode::kOk;
  return Fail(ExitCodeFor(request.status), request.status.message());
}

ExitCode Main(int argc, char** argv) {
  SetThreadName("main");
  Flags flags;
  if (const auto code = ReadFlags(argc, argv, &flags)) return *code;
  const auto level = ParseLogLevel(flags.log_level);
  if (!level.ok()) return Fail(ExitCode::kUsage, "--log-level: " + level.status().message());
  SetLogLevel(*level);
  const auto config = EffectiveConfig(flags);
  if (!config.ok()) return Fail(ExitCode::kBadConfig, config.status().message());
  if (flags.print_config) {
    std::cout << FormatRunConfig(*config);
    return ExitCode::kOk;
  }
  return Serve(flags, *config);
}

}  // namespace
}  // namespace shoal::scheduler

int main(int argc, char** argv) { return static_cast<int>(shoal::scheduler::Main(argc, argv)); }
