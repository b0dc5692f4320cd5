#include "client/service/service.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "client/base/failure.h"
#include "client/base/paths.h"
#include "client/base/process.h"
#include "client/base/programs.h"
#include "client/service/unit.h"
#include "common/file.h"

namespace shoal::client {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kUnitBytesMax = 64 * 1024;
constexpr std::size_t kOutputBytesMax = 64 * 1024;

// What `systemctl` needs to reach the manager that runs the unit.
std::vector<std::string> Systemctl(const ServiceOptions& options,
                                   const std::vector<std::string>& words) {
  std::vector<std::string> command = {"/usr/bin/systemctl"};
  if (!options.system) command.emplace_back("--user");
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

std::string Line(const std::vector<std::string>& command) {
  std::string line = fs::path(command.front()).filename();
  for (std::size_t i = 1; i < command.size(); ++i) line += " " + command[i];
  return line;
}

bool HasManager(const ServiceOptions& options) {
  std::error_code error;
  if (options.system) return fs::is_directory("/run/systemd/system", error);
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && fs::exists(std::string(runtime) + "/systemd/private", error);
}

// Each in turn, as far as one fails.
Status RunAll(const std::vector<std::vector<std::string>>& commands) {
  for (const auto& command : commands) {
    SHOAL_ASSIGN_OR_RETURN(const Captured ran, RunAndCaptureAll(command, kOutputBytesMax));
    if (ran.exit_code == 0) continue;
    return Internal("`" + Line(command) +
                    "` failed: " + ran.output.substr(0, ran.output.find('\n')));
  }
  return Status::Ok();
}

// A unit that is there must be ours.
Status CheckOurs(const std::string& path) {
  const Result<std::string> text = ReadFile(path, kUnitBytesMax);
  if (text.status().code() == StatusCode::kNotFound) return Status::Ok();
  SHOAL_RETURN_IF_ERROR(text.status());
  if (text->starts_with(kUnitMark)) return Status::Ok();
  return AlreadyExists(path + " is not of `shoal service`; move it away, or keep that one");
}

Status CheckRoot(const ServiceOptions& options) {
  if (!options.system || ::geteuid() == 0) return Status::Ok();
  return PermissionDenied(
      "--system changes the whole machine; run it with sudo, or without --system");
}

// What StateDirectory lets the machine's service write to.
constexpr std::string_view kMachineFolder = "/var/lib/shoal";

// Where ProtectHome of the machine's unit hides files.
bool IsInHome(const std::string& path) {
  const fs::path parts(path);
  if (std::distance(parts.begin(), parts.end()) < 2) return false;
  const std::string top = std::next(parts.begin())->string();
  return top == "home" || top == "root";
}

Result<std::string> TextOf(const ServiceOptions& options) {
  UnitOptions unit;
  unit.system = options.system;
  unit.program = options.program;
  if (unit.program.empty()) {
    SHOAL_ASSIGN_OR_RETURN(unit.program, FindProgram("shoald"));
  }
  if (!options.directory.empty()) unit.directory = AbsolutePath(options.directory);
  if (!options.config.empty()) unit.config = AbsolutePath(options.config);
  for (const std::string& path : {unit.program, unit.config}) {
    if (!options.system || !IsInHome(path)) continue;
    return FailedPrecondition(
        "the machine's service cannot read homes, and " + path +
        " is in one; install the package of shoal, or copy that to /usr/local");
  }
  const bool within = unit.directory.empty() || unit.directory == kMachineFolder ||
                      unit.directory.starts_with(std::string(kMachineFolder) + "/");
  if (options.system && !within) {
    return FailedPrecondition("the machine's service may write to " + std::string(kMachineFolder) +
                              " only, and not to " + unit.directory +
                              "; give a folder in it, or leave --dir away");
  }
  return UnitText(unit);
}

// One that runs takes a changed unit only when it is started again.
std::vector<std::vector<std::string>> InstallCommands(const ServiceOptions& options, bool changed) {
  std::vector<std::vector<std::string>> commands = {Systemctl(options, {"daemon-reload"})};
  if (changed) {
    commands.push_back(Systemctl(options, {"enable", kUnitName}));
    commands.push_back(Systemctl(options, {"restart", kUnitName}));
  } else {
    commands.push_back(Systemctl(options, {"enable", "--now", kUnitName}));
  }
  return commands;
}

std::string ManagerState(const ServiceOptions& options) {
  if (!HasManager(options)) return "unknown";
  const auto ran = RunAndCaptureAll(Systemctl(options, {"is-active", kUnitName}), kOutputBytesMax);
  if (!ran.ok()) return "unknown";
  return ran->output.substr(0, ran->output.find('\n'));
}

// Without it, `shoal join` would prepare another folder than the one that the service reads.
std::string DirectoryOption(const ServiceOptions& options) {
  if (!options.directory.empty()) return " --dir " + AbsolutePath(options.directory);
  return options.system ? " --dir " + std::string(kMachineFolder) : "";
}

}  // namespace

bool WrittenByShoal(const std::string& path) {
  const Result<std::string> text = ReadFile(path, kUnitBytesMax);
  return text.ok() && text->starts_with(kUnitMark);
}

std::string UnitPath(const ServiceOptions& options) {
  if (options.system) return std::string("/etc/systemd/system/") + kUnitName;
  const char* home = std::getenv("HOME");
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const std::string base = config != nullptr && *config != '\0'
                               ? std::string(config)
                               : std::string(home == nullptr ? "" : home) + "/.config";
  return base + "/systemd/user/" + kUnitName;
}

Status StopService(const ServiceOptions& options) {
  if (!HasManager(options)) return Status::Ok();
  return RunAll({Systemctl(options, {"disable", "--now", kUnitName})});
}

ExitCode ServiceInstall(const ServiceOptions& options) {
  const std::string path = UnitPath(options);
  if (Status status = CheckRoot(options); !status.ok()) return Fail(status);
  if (Status status = CheckOurs(path); !status.ok()) return Fail(status);
  const Result<std::string> text = TextOf(options);
  if (!text.ok()) return Fail(text.status());
  if (Status status = MakeDirectories(fs::path(path).parent_path(), 0755); !status.ok()) {
    return Fail(status);
  }
  const Result<std::string> before = ReadFile(path, kUnitBytesMax);
  if (Status status = WriteFileAtomic(path, *text, 0644); !status.ok()) return Fail(status);
  const auto commands = InstallCommands(options, before.ok() && *before != *text);
  std::cout << "wrote " << path << "\n";
  if (HasManager(options)) {
    if (Status status = RunAll(commands); !status.ok()) return Fail(status);
    std::cout << "shoald runs, and starts "
              << (options.system ? "with this machine" : "when you log in") << "\n";
  } else {
    std::cout << "no systemd answers here; where it does, run:\n";
    for (const auto& command : commands) std::cout << "  " << Line(command) << "\n";
  }
  if (!options.system) {
    std::cout << "so that it runs while you are logged out, too: loginctl enable-linger\n";
  }
  std::cout << "next: shoal join INVITE --no-start" << DirectoryOption(options)
            << (options.system ? " (as root)" : "") << "\n";
  return ExitCode::kOk;
}

ExitCode ServiceRemove(const ServiceOptions& options) {
  const std::string path = UnitPath(options);
  std::error_code error;
  if (!fs::exists(path, error)) {
    std::cout << "there is no " << path << ", so nothing is to be removed\n";
    return ExitCode::kOk;
  }
  if (Status status = CheckRoot(options); !status.ok()) return Fail(status);
  if (Status status = CheckOurs(path); !status.ok()) return Fail(status);
  if (Status status = StopService(options); !status.ok()) return Fail(status);
  if (!fs::remove(path, error)) {
    return Fail(Internal(path + " cannot be removed: " + error.message()));
  }
  if (HasManager(options)) (void)RunAll({Systemctl(options, {"daemon-reload"})});
  std::cout << "removed " << path << "; what shoald stored stays (`shoal uninstall` lists it)\n";
  return ExitCode::kOk;
}

ExitCode ServiceStatus(const ServiceOptions& options) {
  const std::string path = UnitPath(options);
  std::error_code error;
  const bool installed = fs::exists(path, error);
  const std::string state = installed ? ManagerState(options) : "inactive";
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"schemaVersion", 1}, {"installed", installed}, {"unit", path}, {"state", state}};
    std::cout << json.dump() << "\n";
  } else if (!installed) {
    std::cout << "not installed: there is no " << path << "; `shoal service install` writes it\n";
  } else {
    std::cout << path << ": " << (state == "unknown" ? "no systemd answers here" : state) << "\n";
  }
  return state == "active" ? ExitCode::kOk : ExitCode::kDaemonNotRunning;
}

ExitCode ServiceUnit(const ServiceOptions& options) {
  const Result<std::string> text = TextOf(options);
  if (!text.ok()) return Fail(text.status());
  std::cout << *text;
  return ExitCode::kOk;
}

}  // namespace shoal::client
