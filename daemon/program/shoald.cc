#include "daemon/program/shoald.h"

#include <cstring>
#include <iostream>
#include <string>
#include <utility>

#include "common/command_line/delivered.h"
#include "common/log.h"
#include "common/process/descriptor_limit.h"
#include "common/process/service_manager.h"
#include "common/process/stop_signal.h"
#include "common/process/waiting_threads.h"
#include "common/trace.h"
#include "daemon/args.h"
#include "daemon/churn/churn_tool.h"
#include "daemon/devices_json.h"
#include "daemon/peer_daemon.h"
#include "daemon/store_tool.h"
#include "daemon/tools/simulate_tool.h"

namespace shoal::daemon {
namespace {

constexpr std::size_t kTraceEventsMax = 1'000'000;

ExitCode RunDaemon(const DaemonConfig& config, NewStage new_stage) {
  StopSignal stop;
  auto daemon = PeerDaemon::Open(config, std::move(new_stage),
                                 [&stop](Status status) { stop.Request(std::move(status)); });
  if (!daemon.ok()) {
    std::cerr << "shoald: " << daemon.status().message() << "\n";
    return PeerExitCode(daemon.status());
  }
  if (Status status = AddLogFile(config.directory + "/shoald.log"); !status.ok()) {
    SHOAL_LOG(kWarning, "daemon", "log_file", {"error", status.ToString()});
  }
  SHOAL_LOG(kInfo, "daemon", "started", {"peer", (*daemon)->id().ToShort()},
            {"status", "http://" + (*daemon)->status_address() + "/"});
  TellReady();
  (*daemon)->FeedWatchdog();
  const Status status = stop.Wait();
  TellStopping();
  if (status.ok()) (*daemon)->HandOver();
  // Who was refused reads it at once, not when all is put away.
  if (!status.ok()) std::cerr << "shoald: " << status.message() << std::endl;
  std::move(daemon).value().reset();
  return PeerExitCode(status);
}

}  // namespace

int RunShoald(int argc, char** argv, NewStage new_stage) {
  LetWaitingThreadsSleep(argv);
  SetThreadName("main");
  RaiseDescriptorLimit();
  if (argc > 1 && std::strcmp(argv[1], "store") == 0) {
    return static_cast<int>(Delivered(RunStoreTool(argc - 2, argv + 2)));
  }
  if (argc > 1 && std::strcmp(argv[1], "simulate") == 0) {
    return static_cast<int>(Delivered(RunSimulate(argc - 2, argv + 2)));
  }
  if (argc > 1 && std::strcmp(argv[1], "churn") == 0) {
    return static_cast<int>(Delivered(RunChurn(argc - 2, argv + 2)));
  }
  ExitCode exit_code = ExitCode::kOk;
  const auto args = ReadArgs(argc, argv, &exit_code);
  if (!args) return static_cast<int>(Delivered(exit_code));
  if (args->print_config) {
    std::cout << FormatConfig(args->config);
    return static_cast<int>(Delivered(ExitCode::kOk));
  }
  if (args->print_devices) {
    std::cout << DevicesJson(args->config) << "\n";
    return static_cast<int>(Delivered(ExitCode::kOk));
  }
  if (args->print_usage) return static_cast<int>(Delivered(PrintUsage(args->config.directory)));
  if (!args->config.trace_file.empty()) StartTrace(kTraceEventsMax);
  exit_code = RunDaemon(args->config, std::move(new_stage));
  if (!args->config.trace_file.empty()) {
    if (Status status = WriteTraceFile(args->config.trace_file, TakeTrace()); !status.ok()) {
      std::cerr << "shoald: " << status.message() << "\n";
    }
  }
  return static_cast<int>(exit_code);
}

}  // namespace shoal::daemon
