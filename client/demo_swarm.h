// DemoSwarm: the processes of a demo and what they say.

#ifndef SHOAL_CLIENT_DEMO_SWARM_H_
#define SHOAL_CLIENT_DEMO_SWARM_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "client/base/process.h"
#include "client/base/run_file.h"
#include "common/clock.h"
#include "common/status.h"

namespace shoal::client {

struct KindTotals {
  std::uint64_t wire = 0, raw = 0;
};

// Sums over all peers, what each sent.
struct SwarmTotals {
  KindTotals forward, backward, replica;
  std::uint64_t control_wire = 0;  // checkpoints included
  std::uint64_t checkpoints = 0;
  std::uint64_t delta_store_bytes = 0;
  std::uint64_t state_bytes = 0, resident_peak_bytes = 0;  // of the peer with the most
  std::uint64_t delta_hits = 0, first_visits = 0;          // samples that crossed a boundary
  bool gradients_with_m = false;                           // their gradients count, too
  double relative_delta = 0;                               // the largest now; 0: nothing measured
  std::uint64_t busiest_raw_bytes = 0;   // of the peer that would send most as fp32
  std::uint64_t busiest_wire_bytes = 0;  // of the same peer
};

struct RunProgress {
  std::string state, reason;
  std::uint64_t step = 0, steps = 0;
  double loss = 0, samples_per_second = 0;
  std::vector<double> losses;
};

// How the scheduler is started.
struct SchedulerLaunch {
  std::vector<std::string> prefix;   // command words before shoal-scheduler
  std::vector<std::string> options;  // further ones of it
};

// How a peer is started.
struct PeerLaunch {
  std::vector<std::string> prefix;    // command words before shoald
  std::string address = "127.0.0.1";  // to listen at and to be found at
  std::string upload = "off", download = "off";
  std::vector<std::string> options;  // further ones of shoald
};

// Thread: main.
class DemoSwarm {
 public:
  explicit DemoSwarm(std::string directory) : directory_(std::move(directory)) {}
  ~DemoSwarm() { Stop(); }

  // Invalid argument, with the scheduler's reason, if it would refuse the run's settings.
  Status Check(const RunFile& run) const;
  // The replica method that the scheduler would take for such lines and steps; not found if none
  // fits. "off": lines that limit nothing.
  Result<std::string> SuggestReplica(const RunFile& run, const std::string& link,
                                     const std::string& step) const;
  // Writes run.toml, starts the scheduler, waits for its invite, starts the peers.
  Status Start(const RunFile& run, const SchedulerLaunch& scheduler,
               const std::vector<PeerLaunch>& peers);
  // An error if a process has ended, with the last lines that it wrote; but for those whose number
  // is in `but`, 0 for the scheduler, then the peers.
  Status CheckAlive(const std::set<std::size_t>& but = {});
  // A process by its number: a signal, and a start as before when it has ended.
  void Signal(std::size_t process, int signal) { processes_.at(process).Signal(signal); }
  Status Restart(std::size_t process);
  Status OrderPeer(std::size_t peer, const std::string& command,
                   const std::map<std::string, std::string>& arguments) const;
  Result<RunProgress> Progress() const;
  Result<SwarmTotals> Totals() const;
  // Their status as JSON text, and their process ids.
  Result<std::string> SchedulerStatus() const;
  Result<std::string> PeerStatus(std::size_t peer) const;
  int scheduler_pid() const { return processes_.at(0).pid(); }
  int peer_pid(std::size_t peer) const { return processes_.at(peer + 1).pid(); }
  // `as`: directory or adapter.
  Status Export(const std::string& path, const std::string& as);
  std::string page_url() const { return page_url_; }
  // Peers first, then the scheduler; returns when all are gone.
  // `grace`: how long each may take until it is killed.
  void Stop(Duration grace = std::chrono::seconds(15));

 private:
  std::string PeerDirectory(std::size_t peer) const;
  Result<std::string> CallScheduler(const RunFile& run,
                                    const std::vector<std::string>& options) const;
  Result<std::string> WaitForFile(const std::string& path);

  const std::string directory_;
  std::vector<Process> processes_;  // scheduler first
  std::vector<ProcessOptions> launches_;
  std::vector<std::string> logs_;
  std::string page_url_;
};

}  // namespace shoal::client

#endif  // SHOAL_CLIENT_DEMO_SWARM_H_
