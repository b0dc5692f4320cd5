#include "client/service/uninstall.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "client/base/failure.h"
#include "client/base/terminal.h"
#include "client/service/service.h"
#include "common/open_file.h"
#include "common/units.h"

namespace shoal::client {
namespace {

namespace fs = std::filesystem;

// As docs/OPERATIONS.md lists them, with RocksDB's and the log's further files.
constexpr std::string_view kStateNames[] = {
    "identity.key",   "invite",    "overlay.json",        "usage.json",
    "history.bin",    "device",    "history.bin.damaged", "deltas",
    "deltas.damaged", "content",   "checkpoints",         "status.addr",
    "shoald.sock",    "shoald.log"};

// A store that opens takes minutes, before the socket is there: who holds its lock runs.
bool StoreInUse(const std::string& directory) {
  const int fd = ::open((directory + "/deltas/headers/LOCK").c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool asked = ::fcntl(fd, F_GETLK, &lock) == 0;
  ::close(fd);
  return asked && lock.l_type != F_UNLCK;
}

bool IsStateName(std::string_view name) {
  // What a crash left of a file that was being replaced.
  if (const std::size_t rest = name.find(".tmp-"); rest != std::string_view::npos) {
    name = name.substr(0, rest);
  }
  return std::ranges::find(kStateNames, name) != std::end(kStateNames) ||
         name.starts_with("shoald.log.") || (name.starts_with("shoald.") && name.ends_with(".log"));
}

std::uint64_t SizeOf(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (error) return 0;
  if (fs::is_regular_file(status)) {
    const std::uintmax_t size = fs::file_size(path, error);
    return error ? 0 : size;
  }
  if (!fs::is_directory(status)) return 0;
  std::uint64_t sum = 0;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code of_file;
    if (!at->is_regular_file(of_file) || at->is_symlink(of_file)) continue;
    const std::uintmax_t size = at->file_size(of_file);
    if (!of_file) sum += size;
  }
  return sum;
}

void AddIfThere(const std::string& path, std::vector<LeftBehind>* found) {
  std::error_code error;
  if (fs::symlink_status(path, error).type() == fs::file_type::not_found || error) return;
  found->push_back({path, SizeOf(path)});
}

// An organiser's: the names of some files are those of a peer's.
bool IsOfARun(const std::string& directory) {
  std::error_code error;
  return std::ranges::any_of(
      std::initializer_list<const char*>{"events", "run.toml", "scheduler.sock", "artefacts"},
      [&](const char* name) { return fs::exists(directory + "/" + name, error); });
}

// Where the help of `shoal completion` says that scripts go, and units.
void AddOfUser(std::vector<LeftBehind>* found) {
  const std::string unit = UnitPath(ServiceOptions());
  if (WrittenByShoal(unit)) AddIfThere(unit, found);
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return;
  for (const char* name : {"/.local/share/bash-completion/completions/shoal", "/.zfunc/_shoal",
                           "/.config/fish/completions/shoal.fish"}) {
    AddIfThere(std::string(home) + name, found);
  }
}

ExitCode RemoveAll(const UninstallOptions& options, const std::vector<LeftBehind>& found) {
  // It may run with another folder.
  const ServiceOptions service;
  const bool unit = std::ranges::find(found, UnitPath(service), &LeftBehind::path) != found.end();
  if (unit) {
    if (Status status = StopService(service); !status.ok()) return Fail(status);
  }
  std::string failed;
  for (const LeftBehind& left : found) {
    std::error_code error;
    fs::remove_all(left.path, error);
    if (error) failed += (failed.empty() ? "" : ", ") + left.path + " (" + error.message() + ")";
  }
  std::error_code error;
  // Only if nothing else is in it.
  if (!fs::is_symlink(options.directory, error)) fs::remove(options.directory, error);
  if (!failed.empty()) return Fail(Internal("could not be removed: " + failed));
  std::cout << "removed; the programs stay: `sudo apt remove shoal` removes those of a package\n";
  return ExitCode::kOk;
}

}  // namespace

std::vector<LeftBehind> StateOf(const std::string& directory) {
  std::vector<LeftBehind> found;
  std::error_code error;
  // Folders of these names are others', where no peer has its key.
  if (!fs::is_regular_file(directory + "/identity.key", error)) return found;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    if (IsStateName(at->path().filename().string())) {
      found.push_back({at->path().string(), SizeOf(at->path())});
    }
  }
  std::ranges::sort(found, {}, &LeftBehind::path);
  return found;
}

ExitCode Uninstall(const UninstallOptions& options, const std::function<bool()>& runs,
                   std::istream& input) {
  if (Status status = CheckAccess(options.directory, R_OK | X_OK); !status.ok()) {
    return Fail(status);
  }
  if (IsOfARun(options.directory)) {
    return Fail(FailedPrecondition(
        options.directory +
        " is the folder of a run, not of a peer: members know the run by its identity.key. If "
        "nobody needs the run any more, delete the folder"));
  }
  std::vector<LeftBehind> found = StateOf(options.directory);
  AddOfUser(&found);
  std::uint64_t sum = 0;
  for (const LeftBehind& left : found) sum += left.bytes;
  if (options.json) {
    nlohmann::ordered_json files = nlohmann::ordered_json::array();
    for (const LeftBehind& left : found) {
      files.push_back({{"path", left.path}, {"bytes", left.bytes}});
    }
    const nlohmann::ordered_json json = {
        {"schemaVersion", 1}, {"bytes", sum}, {"files", std::move(files)}};
    std::cout << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return ExitCode::kOk;
  }
  if (found.empty()) {
    std::cout << "nothing of shoal is in " << options.directory << "\n";
    return ExitCode::kOk;
  }
  if (runs() || StoreInUse(options.directory)) {
    return Fail(FailedPrecondition(
        "shoald runs in " + options.directory +
        "; end it first with `shoal leave`, or `shoal service remove` where it is a service"));
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(found.size() + 1);
  for (const LeftBehind& left : found) {
    rows.push_back({FormatBytes(left.bytes), Printable(left.path)});
  }
  rows.push_back({FormatBytes(sum), "together"});
  std::cout << FormatTable(rows) << std::flush;
  if (!options.yes) {
    std::cerr << "Remove all of this? The swarm will not know this machine again. [y/N] ";
    std::string answer;
    if (!std::getline(input, answer) || (answer != "y" && answer != "yes")) {
      return Fail(ExitCode::kFailure, "nothing was removed; --yes removes without asking");
    }
  }
  return RemoveAll(options, found);
}

}  // namespace shoal::client
