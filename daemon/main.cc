// shoald: the peer daemon.

#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "common/log.h"
#include "common/mutex.h"
#include "common/trace.h"
#include "daemon/args.h"
#include "daemon/peer_daemon.h"

namespace {

constexpr std::size_t kTraceEventsMax = 1'000'000;

// Signals are taken by sigwait on the main thread: SIGINT and SIGTERM from outside, SIGUSR1 when
// the daemon itself wants to end.
sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGUSR1);
  return signals;
}

struct StopRequest {
  shoal::Mutex mutex;
  shoal::Status status SHOAL_GUARDED_BY(mutex);
};

shoal::ExitCode Run(const shoal::daemon::DaemonConfig& config) {
  using namespace shoal;
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // threads inherit it
  StopRequest request;
  auto daemon = daemon::PeerDaemon::Open(config, [&request](Status status) {
    {
      MutexLock lock(request.mutex);
      request.status = std::move(status);
    }
    kill(getpid(), SIGUSR1);
  });
  if (!daemon.ok()) {
    std::cerr << "shoald: " << daemon.status().message() << "\n";
    return ExitCodeFor(daemon.status());
  }
  if (Status status = AddLogFile(config.directory + "/shoald.log"); !status.ok()) {
    SHOAL_LOG(kWarning, "daemon", "log_file", {"error", status.ToString()});
  }
  SHOAL_LOG(kInfo, "daemon", "started", {"peer", (*daemon)->id().ToShort()},
            {"status", "http://" + (*daemon)->status_address() + "/"});
  int signal = 0;
  sigwait(&signals, &signal);
  // A second signal ends the process at once.
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  std::move(daemon).value().reset();
  MutexLock lock(request.mutex);
  if (signal != SIGUSR1 || request.status.ok()) return ExitCode::kOk;
  std::cerr << "shoald: " << request.status.message() << "\n";
  return ExitCodeFor(request.status);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace shoal;
  SetThreadName("main");
  ExitCode exit_code = ExitCode::kOk;
  const auto args = daemon::ReadArgs(argc, argv, &exit_code);
  if (!args) return static_cast<int>(exit_code);
  if (args->print_config) {
    std::cout << daemon::FormatConfig(args->config);
    return 0;
  }
  if (!args->config.trace_file.empty()) StartTrace(kTraceEventsMax);
  exit_code = Run(args->config);
  if (!args->config.trace_file.empty()) {
    if (Status status = WriteTraceFile(args->config.trace_file, TakeTrace()); !status.ok()) {
      std::cerr << "shoald: " << status.message() << "\n";
    }
  }
  return static_cast<int>(exit_code);
}
