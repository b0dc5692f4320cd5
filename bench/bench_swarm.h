// BenchSwarm: one run with synthetic stages: real scheduler and peers, and what they did between
// two moments.

#ifndef SHOAL_BENCH_BENCH_SWARM_H_
#define SHOAL_BENCH_BENCH_SWARM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/bench_network.h"
#include "bench/bench_options.h"
#include "client/demo_swarm.h"
#include "common/clock.h"
#include "common/status.h"

namespace shoal::bench {

// One combination to measure.
struct BenchCase {
  BitsPerSecond link;  // 0: unlimited
  CodecPair codecs;
  std::string schedule;
};

// CPU time by where it went, in seconds.
struct CpuParts {
  double values = 0;  // making synthetic activations: no part of the product
  double codec = 0;   // encode and decode
  double store = 0;   // the store's thread and its background work
  double control = 0;
  double network = 0;  // gRPC, TLS and what the kernel does on their behalf
  double compute = 0;  // the compute thread, without `values`
  double other = 0;

  double product() const { return codec + store + control + network + compute + other; }
};

// Sums over all peers since their start, and of the machine since its.
struct BenchSample {
  std::uint64_t step = 0;  // in progress
  double time_s = 0;
  std::vector<double> last_step_seconds;
  CpuParts cpu;
  double scheduler_cpu_s = 0;
  double delay_cpu_s = 0;     // of what adds the round trip to the links
  double machine_busy_s = 0;  // all processes
  double cpu_wait_s = 0;      // threads of the peers that could run and had no core
  std::uint64_t forward_wire = 0, forward_raw = 0, backward_wire = 0, backward_raw = 0;
  std::uint64_t link_wire = 0;
  // Milliseconds over all peers.
  std::map<std::string, double> time;  // of the stages by use: "forward", "wait_input" ...
  double stall_rate = 0, stall_network = 0;
  double encode = 0, decode = 0, store = 0;
  std::vector<std::uint32_t> in_flight;  // by stage
  double relative_delta = 0;             // largest
  std::uint64_t resends = 0, mismatches = 0;
};

// Thread: main.
class BenchSwarm {
 public:
  // `interrupted` ends waits. `network` outlives the swarm.
  BenchSwarm(const BenchOptions& options, BenchNetwork& network, std::string directory,
             std::function<bool()> interrupted)
      : options_(options),
        network_(network),
        directory_(directory),
        swarm_(std::move(directory)),
        interrupted_(std::move(interrupted)) {}

  // InvalidArgument, with the scheduler's words, where this case could not start.
  Status Check(const BenchCase& bench_case);
  Status Start(const BenchCase& bench_case);
  // How many steps are applied; Aborted where the run goes no further.
  Result<std::uint64_t> Step() const;
  // Until `step` steps are applied; `show` hears how far it is. DeadlineExceeded once no step ended
  // for `limit`: the message names who waits for what, and the processes are gone.
  Status WaitForStep(std::uint64_t step, Duration limit,
                     const std::function<void(std::uint64_t)>& show);
  Result<BenchSample> Sample();
  void Stop() { swarm_.Stop(); }
  // Traces of the peers by stage; written when they stopped.
  std::string TracePath(std::uint32_t peer) const;

 private:
  Status MakeFiles() const;
  std::string StagePath() const { return directory_ + "/stage.json"; }
  client::RunFile RunOf(const BenchCase& bench_case) const;
  std::vector<client::PeerLaunch> Launches(const BenchCase& bench_case) const;
  // Writes the statuses beside the logs, too.
  Status Stalled(std::uint64_t step, Duration limit);

  const BenchOptions& options_;
  BenchNetwork& network_;
  const std::string directory_;
  client::DemoSwarm swarm_;
  const std::function<bool()> interrupted_;
};

}  // namespace shoal::bench

#endif  // SHOAL_BENCH_BENCH_SWARM_H_
