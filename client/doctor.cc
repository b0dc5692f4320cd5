// `shoal doctor`: looks at this machine and says what to mend before joining.

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <cctype>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "client/base/orders.h"
#include "client/base/process.h"
#include "client/base/programs.h"
#include "client/base/terminal.h"
#include "client/commands.h"
#include "client/finding.h"
#include "common/file.h"
#include "common/nesting.h"
#include "common/process/machine_memory.h"
#include "common/timeouts.h"
#include "common/units.h"
#include "net/control/local_control.h"

namespace shoal::client {
namespace {

constexpr std::uint64_t kMemoryWanted_bytes = 2ull << 30;
constexpr std::uint64_t kDiskWanted_bytes = 5ull << 30;
constexpr std::uint64_t kDiskLeast_bytes = 100ull << 20;

Finding CheckProgram(const std::string& name) {
  const Result<std::string> path = FindProgram(name);
  if (!path.ok()) {
    return {Verdict::kBad, name, "not found beside shoal",
            "build it with ./x build, or install all of shoal"};
  }
  const Result<Captured> ran = RunAndCaptureAll({*path, "--version"}, 4096);
  if (!ran.ok() || ran->exit_code != 0) return JudgeStart(name, ran.ok() ? ran->output : "");
  std::string version = ran->output.substr(0, ran->output.find('\n'));
  return {Verdict::kGood, name, version, ""};
}

Finding CheckMemory() {
  const std::uint64_t total = MachineMemoryBytes();
  if (total == 0) {
    return {Verdict::kHint, "memory", "unknown", "look with `free -h`: a stage wants 2 GiB"};
  }
  const bool enough = total >= kMemoryWanted_bytes;
  return {enough ? Verdict::kGood : Verdict::kHint, "memory", FormatBytes(total),
          enough ? "" : "only small stages fit"};
}

// The nearest folder that exists tells the free space of where the state will be.
Finding CheckDisk(const std::string& directory) {
  std::filesystem::path path = directory;
  std::error_code error;
  while (path.has_parent_path() && path != path.parent_path() &&
         !std::filesystem::exists(path, error)) {
    path = path.parent_path();
  }
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) {
    return {Verdict::kBad, "disk", "cannot look at " + path.string(), "choose another --dir"};
  }
  if (::access(path.c_str(), W_OK) != 0) {
    return {Verdict::kBad, "disk", path.string() + " is not writable", "choose another --dir"};
  }
  const std::uint64_t free = std::uint64_t{info.f_bavail} * info.f_frsize;
  const std::string text = FormatBytes(free) + " free below " + path.string();
  if (free < kDiskLeast_bytes) {
    return {Verdict::kBad, "disk", text,
            "a checkpoint may find no room there, and steps are lost then: free some, or choose "
            "another --dir"};
  }
  const bool enough = free >= kDiskWanted_bytes;
  return {enough ? Verdict::kGood : Verdict::kHint, "disk", text,
          enough ? "" : "the delta store may need more; set limits.delta_store"};
}

constexpr std::size_t kDevicesBytesMax = 64 << 10;
constexpr const char* kNvidiaVendor = "0x10de";
constexpr const char* kDisplayClass = "0x03";  // of PCI: graphics and 3D controllers

bool NvidiaCardOnBus() {
  std::error_code error;
  for (const auto& device : std::filesystem::directory_iterator("/sys/bus/pci/devices", error)) {
    const Result<std::string> vendor = ReadFile((device.path() / "vendor").string(), 64);
    const Result<std::string> kind = ReadFile((device.path() / "class").string(), 64);
    if (vendor.ok() && kind.ok() && vendor->starts_with(kNvidiaVendor) &&
        kind->starts_with(kDisplayClass)) {
      return true;
    }
  }
  return false;
}

// One of /dev/nvidia0, nvidia1, ...: a container may have been given another one than the first.
std::string NvidiaDevice() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view kPrefix = "nvidia";
    if (name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
        std::isdigit(static_cast<unsigned char>(name[kPrefix.size()]))) {
      return entry.path().string();
    }
  }
  return "";
}

Finding CheckGpu() {
  GpuFacts facts;
  const std::string device = NvidiaDevice();
  facts.driver = !device.empty();
  facts.card = facts.driver || NvidiaCardOnBus();
  facts.accessible = facts.driver && ::access(device.c_str(), R_OK | W_OK) == 0;
  const Result<std::string> program = FindProgram("shoald");
  if (facts.accessible && program.ok()) {
    const Result<Captured> ran = RunAndCapture({*program, "--print-devices"}, kDevicesBytesMax);
    if (ran.ok() && ran->exit_code == 0) facts.devices_json = ran->output;
  }
  return JudgeGpu(facts);
}

Finding CheckSlowStart() {
  const Result<std::string> value = ReadFile("/proc/sys/net/ipv4/tcp_slow_start_after_idle", 64);
  if (!value.ok() || value->empty()) return {Verdict::kGood, "tcp", "unknown", ""};
  if ((*value)[0] == '0') return {Verdict::kGood, "tcp", "keeps its window when idle", ""};
  return {Verdict::kHint, "tcp", "connections slow down after every pause",
          "`sysctl net.ipv4.tcp_slow_start_after_idle=0` (as root) makes bursts faster"};
}

void CheckDaemon(const Target& target, const Result<std::string>& status,
                 std::vector<Finding>* findings) {
  if (!status.ok() && status.status().code() != StatusCode::kUnavailable) {
    const bool hangs = status.status().code() != StatusCode::kPermissionDenied;
    findings->push_back(
        {Verdict::kBad, "daemon", status.status().message(),
         hangs ? "`shoal logs` shows its last lines; stop it and start it again" : ""});
    return;
  }
  if (!status.ok()) {
    findings->push_back(
        {Verdict::kHint, "daemon", "does not run", "`shoal join INVITE` starts it"});
    return;
  }
  findings->push_back({Verdict::kGood, "daemon", "runs in " + target.directory, ""});
  for (Finding& finding : JudgePeer(*status)) findings->push_back(std::move(finding));
}

Finding CheckIdentity(const Target& target) {
  struct stat info {};
  const std::string path = target.directory + "/identity.key";
  if (::stat(path.c_str(), &info) != 0) {
    return {Verdict::kGood, "identity", "will be made at the first start", ""};
  }
  if ((info.st_mode & 077) != 0) {
    return {Verdict::kBad, "identity", path + " can be read by others", "chmod 600 " + path};
  }
  return {Verdict::kGood, "identity", path, ""};
}

// What the running peer was told, or else nothing.
std::optional<Duration> PeerTimeoutOf(const Result<std::string>& status) {
  if (!status.ok()) return std::nullopt;
  const nlohmann::json json = ParseJson<nlohmann::json>(*status);
  const auto limits = json.is_object() ? json.find("limits") : json.end();
  if (limits == json.end() || !limits->is_object()) return std::nullopt;
  const auto told = limits->find("peerTimeoutMs");
  if (told == limits->end() || !told->is_number()) return std::nullopt;
  const double seconds = told->get<double>() / 1000;
  const double most = std::chrono::duration<double>(kPeerTimeoutMax).count();
  if (!(seconds > 0 && seconds <= most)) return std::nullopt;
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

nlohmann::ordered_json TimeoutsJson(const Timeouts& timeouts) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TimeoutRow& row : TimeoutTable(timeouts)) {
    list.push_back({{"name", row.name},
                    {"seconds", std::chrono::duration<double>(row.value).count()},
                    {"meaning", row.meaning},
                    {"action", row.action}});
  }
  return list;
}

void PrintTimeouts(const Timeouts& timeouts, bool told) {
  std::cout << "\ntimeouts, all derived from network.peer_timeout = "
            << FormatDuration(timeouts.peer_timeout)
            << (told ? ", as the peer here was told" : ", the default") << "\n";
  std::vector<std::vector<std::string>> rows = {{"timeout", "after", "if", "then"}};
  for (const TimeoutRow& row : TimeoutTable(timeouts)) {
    rows.push_back({row.name, FormatDuration(row.value), row.meaning, row.action});
  }
  std::cout << FormatTable(rows);
}

std::string VerdictText(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood: return Green("ok");
    case Verdict::kHint: return Yellow("hint");
    case Verdict::kBad: return Red("bad");
  }
  return "";
}

const char* VerdictName(Verdict verdict) {
  return verdict == Verdict::kGood ? "ok" : verdict == Verdict::kHint ? "hint" : "bad";
}

}  // namespace

ExitCode Doctor(const Target& target) {
  std::vector<Finding> findings;
  for (const char* program : {"shoald", "shoal-scheduler", "shoal-run"}) {
    findings.push_back(CheckProgram(program));
  }
  findings.push_back(
      {Verdict::kGood, "cores", std::to_string(std::thread::hardware_concurrency()), ""});
  findings.push_back(CheckMemory());
  findings.push_back(CheckDisk(target.directory));
  findings.push_back(CheckGpu());
  findings.push_back(CheckSlowStart());
  findings.push_back(CheckIdentity(target));
  const auto status = net::LocalStatus(target.directory + "/shoald.sock", std::chrono::seconds(2));
  CheckDaemon(target, status, &findings);
  const std::optional<Duration> told = PeerTimeoutOf(status);
  const Timeouts timeouts = TimeoutsOf(told.value_or(kPeerTimeoutDefault));
  bool bad = false;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows;
  for (const Finding& finding : findings) {
    bad = bad || finding.verdict == Verdict::kBad;
    list.push_back({{"check", finding.check},
                    {"verdict", VerdictName(finding.verdict)},
                    {"text", finding.text},
                    {"fix", finding.fix}});
    rows.push_back({VerdictText(finding.verdict), finding.check,
                    finding.text + (finding.fix.empty() ? "" : "; " + finding.fix)});
  }
  if (target.json) {
    std::cout << nlohmann::ordered_json{{"schemaVersion", 1},
                                        {"findings", list},
                                        {"timeouts", TimeoutsJson(timeouts)}}
                     .dump()
              << "\n";
  } else {
    std::cout << PeerOrders(FormatTable(rows), target.directory);
    PrintTimeouts(timeouts, told.has_value());
  }
  return bad ? ExitCode::kFailure : ExitCode::kOk;
}

}  // namespace shoal::client
