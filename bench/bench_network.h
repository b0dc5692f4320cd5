// BenchNetwork: a machine of its own, as the network sees it, for each process of a bench.
//
// Each peer and the scheduler have a network namespace with one line to a hub in a namespace of its
// own. What leaves a peer is shaped by tbf on its end of the line. The hub is the kernel, which
// routes. Where a round trip time is asked for, the hub is a process that switches frames after
// half of it (packet_switch.h). So any two machines, peers and scheduler, are that far apart.
// Nothing outside these namespaces is touched. Without the right to make them all processes share
// the loopback.
// Thread: main.

#ifndef SHOAL_BENCH_BENCH_NETWORK_H_
#define SHOAL_BENCH_BENCH_NETWORK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/base/process.h"
#include "common/clock.h"
#include "common/status.h"
#include "common/units.h"

namespace shoal::bench {

struct BenchNetworkOptions {
  std::uint32_t peers = 0;
  bool namespaces = true;  // false: all on the loopback, as where they are not possible
  Duration rtt{};          // between any two machines; only with namespaces
  std::string log;         // file for what the switching process says
};

class BenchNetwork {
 public:
  static Result<std::unique_ptr<BenchNetwork>> Make(const BenchNetworkOptions& options);
  // Removes the namespaces. A bench that was killed leaves its own, without any process; the next
  // one removes them.
  ~BenchNetwork();

  bool isolated() const { return !names_.empty(); }
  // "tbf" or "caps": who holds the rate.
  const char* shaped_by() const { return isolated() ? "tbf" : "caps"; }
  // From now on, 0: unlimited; `queue` is the time in which a full queue before a line empties.
  // Only where isolated().
  Status Shape(BitsPerSecond rate, Duration queue);
  // What is added between any two machines.
  Duration rtt() const { return rtt_; }
  // Unavailable once the switching process has ended.
  Status CheckAlive();
  // Of the switching process, if there is one.
  std::optional<int> delay_pid() const;

  // Command words before a program; empty where not isolated().
  std::vector<std::string> SchedulerPrefix() const { return Prefix(0); }
  std::vector<std::string> PeerPrefix(std::uint32_t peer) const { return Prefix(peer + 1); }
  std::string scheduler_address() const;
  std::string PeerAddress(std::uint32_t peer) const;

 private:
  BenchNetwork() = default;
  Status AddMachine(std::size_t machine, const std::string& name);
  Status StartSwitch();
  std::vector<std::string> Prefix(std::size_t machine) const;

  std::string hub_;                 // namespaces
  std::vector<std::string> names_;  // scheduler first
  Duration rtt_{};
  std::string log_;
  std::optional<client::Process> switch_;
};

}  // namespace shoal::bench

#endif  // SHOAL_BENCH_BENCH_NETWORK_H_
