#include "bench/bench_network.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <thread>

#include "client/base/programs.h"
#include "common/file.h"

namespace shoal::bench {
namespace {

using client::FindProgram;
using client::Process;
using client::ProcessOptions;
using client::RunScript;

constexpr const char* kIp = "/usr/sbin/ip";
constexpr const char* kNamespaceFolder = "/run/netns";
constexpr std::string_view kNamePrefix = "shoal-bench-";
constexpr std::size_t kOutputBytesMax = 1 << 20;
constexpr std::uint64_t kPacketBytes = 1514;
constexpr Duration kStartTimeout = std::chrono::seconds(30);
constexpr Duration kPoll = std::chrono::milliseconds(10);

Status Script(const std::string& text) {
  return RunScript(text).WithContext("setting up the bench's network failed");
}

// Of benches whose process is gone.
void RemoveLeftovers() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(kNamespaceFolder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kNamePrefix)) continue;
    pid_t pid = 0;
    const char* const digits = name.data() + kNamePrefix.size();
    const auto [end, failed] = std::from_chars(digits, name.data() + name.size(), pid);
    if (failed != std::errc() || *end != '-' || pid <= 1 || ::kill(pid, 0) == 0) continue;
    if (errno != ESRCH) continue;
    static_cast<void>(Script("ip netns del " + name));
  }
}

std::string Line(std::size_t machine) { return "line" + std::to_string(machine); }
std::string Subnet(std::size_t machine) { return "10.77." + std::to_string(machine) + "."; }
std::string In(const std::string& name) { return "ip netns exec " + name + " "; }

// Standard output and error of a process so far.
std::string Said(const std::string& log) {
  Result<std::string> text = ReadFile(log, kOutputBytesMax);
  if (!text.ok()) return "";
  while (text->ends_with('\n')) text->pop_back();
  return *std::move(text);
}

}  // namespace

Result<std::unique_ptr<BenchNetwork>> BenchNetwork::Make(const BenchNetworkOptions& options) {
  std::unique_ptr<BenchNetwork> network(new BenchNetwork);
  if (!options.namespaces || ::geteuid() != 0 || ::access(kIp, X_OK) != 0) return network;
  RemoveLeftovers();
  const std::string stem = std::string(kNamePrefix) + std::to_string(::getpid()) + "-";
  const std::string hub = stem + "hub";
  if (!Script("ip netns add " + hub + "\n" + In(hub) + "true").ok()) {
    static_cast<void>(Script("ip netns del " + hub));
    return network;  // a container without the right
  }
  network->hub_ = hub;
  network->rtt_ = options.rtt;
  network->log_ = options.log;
  if (options.rtt == Duration::zero()) {
    SHOAL_RETURN_IF_ERROR(Script(In(hub) + "sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'\n"));
  }
  for (std::uint32_t machine = 0; machine <= options.peers; ++machine) {
    SHOAL_RETURN_IF_ERROR(network->AddMachine(machine, stem + std::to_string(machine)));
  }
  if (options.rtt > Duration::zero()) SHOAL_RETURN_IF_ERROR(network->StartSwitch());
  return network;
}

Status BenchNetwork::AddMachine(std::size_t machine, const std::string& name) {
  SHOAL_RETURN_IF_ERROR(Script("ip netns add " + name));
  names_.push_back(name);
  const std::string in = In(name), hub = In(hub_), line = Line(machine);
  std::string text = in + "ip link set lo up\n";
  // Cubic is what most machines run; a machine's own choice must not change the figures.
  text += in + "sh -c 'echo cubic > /proc/sys/net/ipv4/tcp_congestion_control || true'\n";
  text += "ip link add " + line + " netns " + hub_ + " type veth peer name line netns " + name +
          "\n" + hub + "ip link set " + line + " up\n" + in + "ip link set line up\n";
  if (rtt_ > Duration::zero()) {
    text += in + "ip address add " + Subnet(machine) + "2/16 dev line\n";
  } else {
    text += hub + "ip address add " + Subnet(machine) + "1/24 dev " + line + "\n";
    text += in + "ip address add " + Subnet(machine) + "2/24 dev line\n";
    text += in + "ip route add default via " + Subnet(machine) + "1\n";
  }
  return Script(text);
}

Status BenchNetwork::StartSwitch() {
  SHOAL_ASSIGN_OR_RETURN(const std::string program, FindProgram("shoal-bench"));
  const auto half_ms = std::chrono::duration<double, std::milli>(rtt_).count() / 2;
  ProcessOptions options{
      {kIp, "netns", "exec", hub_, program, "switch", "--delay", std::to_string(half_ms) + "ms"},
      {},
      log_};
  for (std::size_t machine = 0; machine < names_.size(); ++machine) {
    options.command.push_back(Line(machine));
  }
  SHOAL_ASSIGN_OR_RETURN(switch_, Process::Start(options));
  const TimePoint deadline = SystemClock().Now() + kStartTimeout;
  while (Said(log_) != "ready") {
    SHOAL_RETURN_IF_ERROR(CheckAlive());
    if (SystemClock().Now() > deadline) {
      return DeadlineExceeded("the bench's switch did not start within " +
                              FormatDuration(kStartTimeout));
    }
    std::this_thread::sleep_for(kPoll);
  }
  return Status::Ok();
}

Status BenchNetwork::CheckAlive() {
  if (!switch_ || !switch_->Poll()) return Status::Ok();
  const std::string said = Said(log_);
  return Unavailable("the bench's switch ended: " + said.substr(said.rfind('\n') + 1));
}

std::optional<int> BenchNetwork::delay_pid() const {
  if (!switch_) return std::nullopt;
  return switch_->pid();
}

BenchNetwork::~BenchNetwork() {
  switch_.reset();  // while it runs, the hub's namespace lives
  if (!hub_.empty()) names_.push_back(hub_);
  for (const std::string& name : names_) {
    if (Status status = Script("ip netns del " + name); !status.ok()) {
      std::cerr << "shoal: " << status.message() << "\n";
    }
  }
}

Status BenchNetwork::Shape(BitsPerSecond rate, Duration queue) {
  std::string text;
  for (std::size_t machine = 1; machine < names_.size(); ++machine) {
    const std::string in = In(names_[machine]);
    if (rate.value == 0) {
      text += in + "tc qdisc del dev line root 2>/dev/null || true\n";
      text += in + "ip link set dev line gso_max_size 65536\n";
      continue;
    }
    // What may leave at once after a pause stays far below a message. Smaller bursts of packets
    // would cost more CPU than all the rest: each wakes the program at the other end.
    const auto half_ms = static_cast<std::uint64_t>(rate.bytes_per_second() / 2000);
    const std::uint64_t burst = std::clamp<std::uint64_t>(half_ms, 22 * kPacketBytes, 65536);
    const std::uint64_t bucket = std::max(burst + kPacketBytes, half_ms);
    text += in + "ip link set dev line gso_max_size " + std::to_string(burst - kPacketBytes) + "\n";
    text += in + "tc qdisc replace dev line root tbf rate " + std::to_string(rate.value) +
            "bit burst " + std::to_string(bucket) + " latency " +
            std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(queue).count()) +
            "us\n";
  }
  return Script(text);
}

std::vector<std::string> BenchNetwork::Prefix(std::size_t machine) const {
  if (!isolated()) return {};
  return {kIp, "netns", "exec", names_[machine]};
}

std::string BenchNetwork::scheduler_address() const {
  return isolated() ? Subnet(0) + "2" : "127.0.0.1";
}

std::string BenchNetwork::PeerAddress(std::uint32_t peer) const {
  return isolated() ? Subnet(peer + 1) + "2" : "127.0.0.1";
}

}  // namespace shoal::bench
