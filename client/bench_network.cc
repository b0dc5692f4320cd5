#include "client/bench_network.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <string_view>

#include "client/process.h"

namespace shoal::client {
namespace {

constexpr const char* kIp = "/usr/sbin/ip";
constexpr const char* kNamespaceFolder = "/run/netns";
constexpr std::string_view kNamePrefix = "shoal-bench-";
constexpr std::size_t kOutputBytesMax = 1 << 20;
constexpr std::uint64_t kPacketBytes = 1514;

// A shell script; stops at the first error, which becomes the status.
Status Script(const std::string& text) {
  SHOAL_ASSIGN_OR_RETURN(
      const Captured ran,
      RunAndCapture({"/bin/sh", "-c", "exec 2>&1; set -e; PATH=$PATH:/usr/sbin:/sbin\n" + text},
                    kOutputBytesMax));
  if (ran.exit_code == 0) return Status::Ok();
  return Internal("setting up the bench's network failed: " +
                  ran.output.substr(0, ran.output.find('\n')));
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

std::string Line(std::size_t peer) { return "line" + std::to_string(peer); }
std::string Subnet(std::size_t peer) { return "10.77." + std::to_string(peer) + "."; }

}  // namespace

Result<std::unique_ptr<BenchNetwork>> BenchNetwork::Make(std::uint32_t peers, bool namespaces) {
  std::unique_ptr<BenchNetwork> network(new BenchNetwork);
  if (!namespaces || ::geteuid() != 0 || ::access(kIp, X_OK) != 0) return network;
  RemoveLeftovers();
  const std::string stem = std::string(kNamePrefix) + std::to_string(::getpid()) + "-";
  for (std::uint32_t place = 0; place <= peers; ++place) {
    const std::string name = stem + (place == 0 ? "hub" : std::to_string(place));
    const std::string in = "ip netns exec " + name + " ";
    if (Status made = Script("ip netns add " + name + "\n" + in + "true"); !made.ok()) {
      if (place > 0) return made;
      static_cast<void>(Script("ip netns del " + name));
      return network;  // a container without the right
    }
    network->names_.push_back(name);
    // Cubic is what most machines run; a machine's own choice must not change the figures.
    std::string text = in + "ip link set lo up\n" + in +
                       "sh -c 'echo cubic > /proc/sys/net/ipv4/tcp_congestion_control || true'\n";
    if (place == 0) {
      text += in + "sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'\n" + in +
              "ip address add 10.77.0.1/32 dev lo\n";
    } else {
      const std::string hub = "ip netns exec " + network->names_[0] + " ";
      text += "ip link add " + Line(place) + " netns " + network->names_[0] +
              " type veth peer name line netns " + name + "\n";
      text += hub + "ip address add " + Subnet(place) + "1/24 dev " + Line(place) + "\n";
      text += hub + "ip link set " + Line(place) + " up\n";
      text += in + "ip address add " + Subnet(place) + "2/24 dev line\n";
      text += in + "ip link set line up\n";
      text += in + "ip route add default via " + Subnet(place) + "1\n";
    }
    SHOAL_RETURN_IF_ERROR(Script(text));
  }
  return network;
}

BenchNetwork::~BenchNetwork() {
  for (const std::string& name : names_) {
    if (Status status = Script("ip netns del " + name); !status.ok()) {
      std::cerr << "shoal: " << status.message() << "\n";
    }
  }
}

Status BenchNetwork::Shape(BitsPerSecond rate) {
  std::string text;
  for (std::size_t place = 1; place < names_.size(); ++place) {
    const std::string in = "ip netns exec " + names_[place] + " ";
    if (rate.value == 0) {
      text += in + "tc qdisc del dev line root 2>/dev/null || true\n";
      text += in + "ip link set dev line gso_max_size 65536\n";
      continue;
    }
    // What may leave at once after a pause stays far below a message; smaller bursts of segments
    // would cost more CPU than all the rest, for each wakes the program at the other end.
    const auto half_ms = static_cast<std::uint64_t>(rate.bytes_per_second() / 2000);
    const std::uint64_t burst = std::clamp<std::uint64_t>(half_ms, 22 * kPacketBytes, 65536);
    const std::uint64_t bucket = std::max(burst + kPacketBytes, half_ms);
    text += in + "ip link set dev line gso_max_size " + std::to_string(burst - kPacketBytes) + "\n";
    text += in + "tc qdisc replace dev line root tbf rate " + std::to_string(rate.value) +
            "bit burst " + std::to_string(bucket) + " latency 50ms\n";
  }
  return Script(text);
}

Result<bool> BenchNetwork::Delay(Duration rtt) {
  if (rtt <= Duration::zero()) return true;
  if (!isolated()) return false;
  const auto half_us = std::chrono::duration_cast<std::chrono::microseconds>(rtt).count() / 2;
  std::string text;
  for (std::size_t place = 1; place < names_.size(); ++place) {
    text += "ip netns exec " + names_[0] + " tc qdisc replace dev " + Line(place) +
            " root netem limit 100000 delay " + std::to_string(half_us) + "us\n";
  }
  return Script(text).ok();
}

std::vector<std::string> BenchNetwork::Prefix(std::size_t place) const {
  if (!isolated()) return {};
  return {kIp, "netns", "exec", names_[place]};
}

std::string BenchNetwork::scheduler_address() const {
  return isolated() ? "10.77.0.1" : "127.0.0.1";
}

std::string BenchNetwork::PeerAddress(std::uint32_t peer) const {
  return isolated() ? Subnet(peer + 1) + "2" : "127.0.0.1";
}

}  // namespace shoal::client
