#include "daemon/terms/machine.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

namespace shoal::daemon {
namespace {

constexpr std::size_t kNameMax = 15;  // of /proc/PID/comm, which cuts longer ones
constexpr std::size_t kShownNameMax = 64;
constexpr int kAncestorsMax = 64;

// The beginning of a file of the kernel, at most a page; empty where it cannot be read.
std::string Beginning(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  std::array<char, 4096> bytes;
  const ssize_t got = ::read(fd, bytes.data(), bytes.size());
  ::close(fd);
  return got > 0 ? std::string(bytes.data(), static_cast<std::size_t>(got)) : "";
}

std::string FirstLine(const std::string& path) {
  const std::string text = Beginning(path);
  return text.substr(0, text.find('\n'));
}

// 0: none that can be seen.
int ParentOf(const std::string& process) {
  constexpr std::string_view kKey = "\nPPid:\t";
  const std::string status = Beginning(process + "/status");
  const std::size_t at = status.find(kKey);
  return at == std::string::npos ? 0 : std::atoi(status.c_str() + at + kKey.size());
}

// Where processes have other numbers than those that drivers know: in a container.
bool HasOwnProcessNumbers(const std::string& proc) {
  std::error_code error;
  const auto space = std::filesystem::read_symlink(proc + "/self/ns/pid", error);
  return !error && space.string() != "pid:[4026531836]";  // the kernel's PROC_PID_INIT_INO
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return lower;
}

bool IsNumber(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// What a process is called: its comm, and the last part of its first argument, which Wine gives as
// on Windows.
void AddNames(const std::string& process, std::set<std::string>* names) {
  names->insert(Lower(FirstLine(process + "/comm")));
  const std::string arguments = Beginning(process + "/cmdline");
  const std::string first = arguments.substr(0, arguments.find('\0'));
  names->insert(Lower(std::string_view(first).substr(first.find_last_of("/\\") + 1)));
}

// Anybody may read the name of process 1, unless processes of other users are hidden.
std::string HiddenOn(const std::string& proc) {
  if (HasOwnProcessNumbers(proc)) return "programs outside shoald's container are not seen";
  if (!Beginning(proc + "/1/comm").empty()) return "";
  return "programs of other users are hidden: mount /proc without hidepid, or renew an older "
         "service with `sudo shoal service install --system`";
}

}  // namespace

std::int64_t LinuxMachine::UnixMs() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Duration LinuxMachine::SinceBoot() const {
  struct timespec time {};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

ProgramSight LinuxMachine::Look(const std::vector<std::string>& programs) const {
  ProgramSight sight{"", HiddenOn(proc_)};
  if (programs.empty()) return sight;
  std::set<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(proc_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (IsNumber(entry->path().filename().string())) AddNames(entry->path().string(), &names);
  }
  for (const std::string& program : programs) {
    const std::string name = Lower(program);
    if (!names.contains(name) && !names.contains(name.substr(0, kNameMax))) continue;
    sight.running = program;
    break;
  }
  return sight;
}

std::string LinuxMachine::OtherProgram(int pid) const {
  if (HasOwnProcessNumbers(proc_)) return "";
  int ancestor = pid;
  for (int i = 0; i < kAncestorsMax && ancestor > 1; ++i) {
    if (ancestor == ::getpid()) return "";
    ancestor = ParentOf(proc_ + "/" + std::to_string(ancestor));
  }
  const std::string process = proc_ + "/" + std::to_string(pid);
  std::string name = FirstLine(process + "/comm");
  if (name.empty()) return "another program";  // of another user, where these are hidden
  const std::string arguments = Beginning(process + "/cmdline");
  std::string first = arguments.substr(0, arguments.find('\0'));
  first = first.substr(first.find_last_of("/\\") + 1);
  if (name.size() == kNameMax && first.starts_with(name)) name = first.substr(0, kShownNameMax);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return name;
}

bool LinuxMachine::OnBattery() const {
  bool battery = false, charging = false, discharging = false, plug = false, plugged = false;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(power_, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string supply = entry->path().string();
    const std::string type = FirstLine(supply + "/type");
    if (type == "Battery" && FirstLine(supply + "/scope") != "Device") {  // not that of a mouse
      battery = true;
      const std::string status = FirstLine(supply + "/status");
      discharging |= status == "Discharging";
      charging |= status == "Charging" || status == "Full";
    } else if (type == "Mains" || type == "USB") {
      plug |= type == "Mains";
      plugged |= FirstLine(supply + "/online") == "1";
    }
  }
  // A battery that is charged has a plug, whatever that says.
  return battery && !plugged && (discharging || (plug && !charging));
}

}  // namespace shoal::daemon
