// Commands about a run, on the scheduler's machine.

#include <sys/statvfs.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "client/base/orders.h"
#include "client/base/paths.h"
#include "client/base/process.h"
#include "client/base/programs.h"
#include "client/base/run_file.h"
#include "client/commands.h"
#include "client/status_view.h"
#include "common/file.h"
#include "common/units.h"
#include "net/control/local_control.h"

namespace shoal::client {
namespace {

namespace fs = std::filesystem;

// An export copies the whole model; other commands answer at once.
constexpr Duration kCommandTimeout = std::chrono::minutes(10);
constexpr Duration kStatusTimeout = std::chrono::seconds(5);
constexpr std::size_t kConfigBytesMax = 1 << 20;

std::string Socket(const Target& target) { return target.directory + "/scheduler.sock"; }

ExitCode NotRunning(const Target& target, const Status& status) {
  if (status.code() != StatusCode::kUnavailable) {
    return Fail(ExitCodeFor(status), RunOrders(status.message(), target.directory));
  }
  const std::string config = target.directory + "/run.toml";
  std::error_code error;
  return Fail(ExitCode::kDaemonNotRunning,
              "no shoal-scheduler runs in " + target.directory +
                  (fs::exists(config, error)
                       ? "; start it with `shoal-scheduler --config " + config + "`"
                       : "; start it with `shoal-scheduler --config RUN.TOML`, or name the "
                         "folder of a run with --dir"));
}

// The scheduler writes an export, as its own user: a service or container may not see the folders
// of who asked for it, or sees others under the same names.
Result<net::CommandResult> WrittenHere(Result<net::CommandResult> reply, const std::string& path,
                                       const Target& target) {
  const std::string way_out =
      "; the scheduler writes it, as its own user and with the folders "
      "that it sees: give one below " +
      target.directory;
  if (reply.status().code() == StatusCode::kPermissionDenied) {
    return Status(reply.status().code(), reply.status().message() + way_out);
  }
  std::error_code error;
  if (!reply.ok() || fs::exists(path, error)) return reply;
  return NotFound("the scheduler has written it, but not to the " + path + " that is here" +
                  way_out);
}

// Makes a folder with its parents; those that are empty at the end are removed again, so that a
// refused command leaves nothing.
class NewFolder {
 public:
  explicit NewFolder(std::string path) : path_(std::move(path)) {
    std::error_code error;
    for (fs::path at = path_; !at.empty() && !fs::exists(at, error); at = at.parent_path()) {
      made_.push_back(at);
    }
  }
  ~NewFolder() {
    std::error_code error;
    for (const fs::path& at : made_) {
      if (!fs::is_empty(at, error) || error || !fs::remove(at, error)) return;
    }
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  Status Make() const { return MakeDirectories(path_, 0700); }

 private:
  const std::string path_;
  std::vector<fs::path> made_;  // the deepest first
};

// The scheduler checks the values and writes every key with its explanation. What it says of wrong
// ones goes to standard error, without the lines of a file that nobody sees.
Result<Captured> CompletedRunFile(const std::string& program, const std::string& draft) {
  const std::vector<std::string> command = {program, "--config", draft, "--print-config"};
  SHOAL_ASSIGN_OR_RETURN(Captured tried, RunAndCaptureAll(command, kConfigBytesMax));
  if (tried.exit_code == 0) return RunAndCapture(command, kConfigBytesMax);
  std::string& text = tried.output;
  for (std::size_t at; (at = text.find(draft)) != text.npos;) {
    std::size_t end = at + draft.size();
    if (end < text.size() && text[end] == ':') ++end;
    const std::size_t line = end;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    if (end > line && end < text.size() && text[end] == ':') ++end;
    if (end < text.size() && text[end] == ' ') ++end;
    text.erase(at, end - at);
  }
  std::cerr << text;
  return tried;
}

// How much m the run will keep, against this disk, and what its pipelines' exchange takes. Where
// the model or the data cannot be read the scheduler has said so, and its exit code is set.
Result<Captured> SizeOfRun(const std::string& program, const std::string& path,
                           const std::string& directory, const SwarmInitOptions& options) {
  std::vector<std::string> command = {program,  "--config",   path,     "--print-size",
                                      "--link", options.link, "--step", options.step};
  if (!options.memory.empty()) command.insert(command.end(), {"--memory", options.memory});
  SHOAL_ASSIGN_OR_RETURN(Captured size, RunAndCapture(command, kConfigBytesMax));
  std::string& text = size.output;
  struct statvfs info {};
  if (text.find("a peer keeps") != text.npos && ::statvfs(directory.c_str(), &info) == 0) {
    text += "free on the disk of " + directory + ": " +
            FormatBytes(std::uint64_t{info.f_bavail} * info.f_frsize) +
            "; a peer's quota is 50 GiB unless its owner changes limits.delta_store\n";
  }
  return size;
}

}  // namespace

ExitCode SwarmInit(const SwarmInitOptions& options) {
  std::error_code error;
  const std::string directory = AbsolutePath(options.directory);
  const std::string path = directory + "/run.toml";
  if (fs::exists(path, error)) {
    return Fail(AlreadyExists(path + " exists already; choose another --dir, or edit that file"));
  }
  if (const auto link = ParseRate(options.link); !link.ok() || link->value == 0) {
    return Fail(ExitCode::kUsage, "--link must be a rate, like 100mbit");
  }
  if (const auto step = ParseDuration(options.step); !step.ok() || *step <= Duration::zero()) {
    return Fail(ExitCode::kUsage, "--step must be a time above 0, like 30s");
  }
  if (const auto memory = ParseBytesWithUnit(options.memory);
      !options.memory.empty() && !memory.ok()) {
    return Fail(ExitCode::kUsage, "--memory: " + memory.status().message());
  }
  const Result<std::string> program = FindProgram("shoal-scheduler");
  if (!program.ok()) return Fail(program.status());
  const NewFolder folder(directory);
  if (Status status = folder.Make(); !status.ok()) return Fail(status);
  RunFile file;
  file.name = options.name;
  file.model = AbsolutePath(options.model);
  file.data = AbsolutePath(options.data);
  file.directory = directory;
  file.stages = options.stages;
  file.pipelines = options.pipelines;
  file.steps = options.steps;
  file.micro_batches = options.micro_batches;
  file.micro_batch_rows = options.micro_batch_rows;
  file.forward = options.forward;
  file.backward = options.backward;
  file.replica = options.replica;
  file.adapter = options.adapter;
  file.rank = options.rank;
  file.base = options.base;
  const std::string draft = path + ".draft";
  Status status = WriteFileAtomic(draft, FormatRunFile(file), 0600);
  if (!status.ok()) return Fail(status);
  const auto checked = CompletedRunFile(*program, draft);
  const bool right = checked.ok() && checked->exit_code == 0;
  const auto size = right ? SizeOfRun(*program, draft, directory, options) : checked;
  fs::remove(draft, error);
  if (!size.ok()) return Fail(size.status());
  if (size->exit_code != 0) return static_cast<ExitCode>(size->exit_code);
  status = WriteFileAtomic(path, checked->output, 0600);
  if (!status.ok()) return Fail(status);
  std::cout << "wrote " << path << "\n"
            << size->output << "next: shoal-scheduler --config " << path
            << "\n      it prints the invite line for your peers\n";
  return ExitCode::kOk;
}

ExitCode SwarmRestore(const SwarmRestoreOptions& options) {
  std::vector<std::string> arguments = {"--restore", options.store, "--dir",
                                        AbsolutePath(options.directory)};
  if (!options.endpoint.empty()) {
    arguments.insert(arguments.end(), {"--endpoint", options.endpoint});
  }
  if (!options.region.empty()) arguments.insert(arguments.end(), {"--region", options.region});
  if (options.plain_http) arguments.push_back("--plain-http");
  return RunProgram(arguments, "shoal-scheduler");
}

ExitCode SwarmStatus(const Target& target) {
  const Result<std::string> json = net::LocalStatus(Socket(target), kStatusTimeout);
  if (!json.ok()) return NotRunning(target, json.status());
  if (target.json) {
    std::cout << *json << "\n";
    return ExitCode::kOk;
  }
  const Result<std::string> view = SwarmView(*json);
  if (!view.ok()) return Fail(view.status());
  std::cout << RunOrders(*view, target.directory);
  return ExitCode::kOk;
}

ExitCode SwarmList(const Target& target, const std::string& name) {
  const auto reply = net::LocalCommand(Socket(target), name, {}, kStatusTimeout);
  if (!reply.ok()) return NotRunning(target, reply.status());
  if (target.json) {
    std::cout << reply->json << "\n";
    return ExitCode::kOk;
  }
  const auto view = name == "invites" ? InvitesView(reply->json) : MembersView(reply->json);
  if (!view.ok()) return Fail(view.status());
  std::cout << RunOrders(*view, target.directory);
  return ExitCode::kOk;
}

ExitCode SwarmCommand(const Target& target, const std::string& name,
                      const std::map<std::string, std::string>& arguments) {
  auto reply = net::LocalCommand(Socket(target), name, arguments, kCommandTimeout);
  const auto path = arguments.find("path");
  if (path != arguments.end()) reply = WrittenHere(std::move(reply), path->second, target);
  if (!reply.ok()) return NotRunning(target, reply.status());
  if (target.json && !reply->json.empty()) {
    std::cout << reply->json << "\n";
  } else if (target.json) {
    const nlohmann::ordered_json json = {{"schemaVersion", 1}, {"message", reply->message}};
    std::cout << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  } else {
    std::cout << RunOrders(reply->message, target.directory) << "\n";
  }
  return ExitCode::kOk;
}

ExitCode RunProgram(const std::vector<std::string>& arguments, const std::string& name) {
  const Result<std::string> program = FindProgram(name);
  if (!program.ok()) return Fail(program.status());
  std::vector<std::string> command = {*program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return Fail(Exec(command));
}

}  // namespace shoal::client
