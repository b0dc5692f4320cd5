// BenchNetwork: a machine of its own, as the network sees it, for each process of a bench.
//
// Each peer has a network namespace with one line to a hub that forwards; the scheduler lives in
// the hub. What leaves a peer is shaped by tbf on its end of the line. Nothing outside these
// namespaces is touched. Without the right to make them all processes share the loopback.
// Thread: main.

#ifndef SHOAL_CLIENT_BENCH_NETWORK_H_
#define SHOAL_CLIENT_BENCH_NETWORK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/status.h"
#include "common/units.h"

namespace shoal::client {

class BenchNetwork {
 public:
  // `namespaces` false, or not possible here: all on the loopback.
  static Result<std::unique_ptr<BenchNetwork>> Make(std::uint32_t peers, bool namespaces);
  // Removes the namespaces. A bench that was killed leaves its own; the next one removes them.
  ~BenchNetwork();

  bool isolated() const { return !names_.empty(); }
  // "tbf" or "caps": who holds the rate.
  const char* shaped_by() const { return isolated() ? "tbf" : "caps"; }
  // From now on, 0: unlimited. Only where isolated().
  Status Shape(BitsPerSecond rate);
  // Delays every packet between two peers by half of `rtt`; false if this kernel cannot.
  Result<bool> Delay(Duration rtt);

  // Command words before a program; empty where not isolated().
  std::vector<std::string> SchedulerPrefix() const { return Prefix(0); }
  std::vector<std::string> PeerPrefix(std::uint32_t peer) const { return Prefix(peer + 1); }
  std::string scheduler_address() const;
  std::string PeerAddress(std::uint32_t peer) const;

 private:
  BenchNetwork() = default;
  std::vector<std::string> Prefix(std::size_t place) const;

  std::vector<std::string> names_;  // hub first
};

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_BENCH_NETWORK_H_
