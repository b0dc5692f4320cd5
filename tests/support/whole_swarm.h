// WholeSwarm: the real scheduler and real peers in virtual time, on one thread: SwarmState,
// PeerNode, StageHost, StageRunner and a small model that really learns. Simulated are threads,
// links, the control streams, and what goes wrong with them.
//
// Delays come from one seed; two swarms of equal options do the same. Model, data and the order of
// samples never differ, so that losses can be compared.

#ifndef SHOAL_TESTS_SUPPORT_WHOLE_SWARM_H_
#define SHOAL_TESTS_SUPPORT_WHOLE_SWARM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "daemon/config.h"
#include "net/control/control.h"
#include "scheduler/config/run_config.h"
#include "scheduler/history/stored_event.h"
#include "scheduler/server/run_artefacts.h"
#include "scheduler/swarm/swarm_state.h"
#include "storage/files/content_store.h"
#include "tests/support/sim_executor.h"
#include "tests/support/sim_links.h"
#include "tests/support/temporary_folder.h"

namespace shoal::test_support {

struct WholeOptions {
  std::uint32_t stages = 2, pipelines = 2;
  std::uint64_t steps = 200;
  std::uint32_t micro_batches = 4;
  std::uint64_t checkpoint_every = 10;
  std::string forward = "raw:dtype=fp32", backward = "raw:dtype=fp32", replica = "average";
  bool slow_lines = false;  // of 0.1 to 1 MB/s, by peer; else as fast as one likes
  bool late = false;        // now and then a task comes a hundred times later, or 3 s
  bool terms = false;       // peers keep their owners' terms
  double compute_ms = 20;   // of a task, on average
  unsigned seed = 1;
};

// Model and data of all swarms in a test; made once.
struct WholeInput {
  explicit WholeInput(std::uint32_t layers);
  const TemporaryFolder folder;
  std::string model, data;  // paths
};

class WholeSwarm {
 public:
  WholeSwarm(const WholeOptions& options, const WholeInput& input);
  ~WholeSwarm();

  // A new peer, whose process runs; its number.
  std::size_t AddPeer();
  // Its process dies at once; its folder stays. Start begins another in it.
  void Kill(std::size_t peer);
  void Start(std::size_t peer);
  bool Lives(std::size_t peer) const;
  // It stands still, and goes on.
  void Stall(std::size_t peer);
  void GoOn(std::size_t peer);
  // Nothing that it sends arrives any more, or that others send it, or both; both ends find that
  // out after a while. Until Mend no new connection comes about.
  enum class Lost : std::uint8_t { kSent, kReceived, kBoth };
  void Cut(std::size_t peer, Lost lost);
  void Mend(std::size_t peer);
  // It can write no checkpoint, and store nothing that it fetches.
  void FillDisk(std::size_t peer, bool full);
  // With terms: a program of its owner begins or ends; and what ran on it stood still so long, as
  // it slept.
  void Occupy(std::size_t peer, bool busy);
  void Slept(std::size_t peer, Duration time);
  // With terms: the driver reaches its card no more, or again.
  void LoseGpu(std::size_t peer, bool lost);
  // Why its last process ended by itself.
  const Status& ended(std::size_t peer) const;
  // An order of its owner: pause, resume, leave.
  void Order(std::size_t peer, const std::string& command);

  // What it stored stays.
  void KillScheduler();
  void StartScheduler();
  // The next scheduler finds that in its history: it came just now.
  void Remember(const scheduler::StoredEvent& event) {
    Carry(scheduler::Persist{EncodeEvent(event)});
  }
  bool scheduler_lives() const { return state_ != nullptr; }
  scheduler::RunState state() const { return state_->run_state(); }  // of one that lives
  void OrderRun(scheduler::AdminCommand::Kind kind);

  // False: it did not come to hold within `limit`. A task that fails a check ends the test program.
  bool RunUntil(const std::function<bool()>& holds, Duration limit = std::chrono::minutes(5));
  void RunFor(Duration duration);
  TimePoint now() const { return world_.Now(); }
  // Of a scheduler that lives.
  scheduler::RunView View() const;
  std::uint64_t step() const { return state_ ? View().step : 0; }
  // The peer that has a position of the newest plan; none: size().
  std::size_t PeerAt(std::uint32_t pipeline, std::uint32_t stage) const;
  std::size_t size() const { return peers_.size(); }
  // All that happened, as the log has it.
  std::vector<scheduler::TimedEvent> Events() const;
  std::uint64_t tasks() const { return tasks_; }  // of the world, so far
  const scheduler::RunConfig& config() const { return config_; }

 private:
  class Client;
  struct Process;
  struct Peer;
  struct Connection;

  Duration Delay(double mean_ms);
  Peer& PeerOf(const PeerId& id);
  void Feed(const scheduler::Event& event);
  void Carry(const scheduler::Action& action);
  std::vector<storage::ContentHash> Needed() const;
  Status Take(const std::string& hash, const std::string& bytes);
  void Tick(std::uint64_t life);
  void ToPeer(scheduler::ConnectionId connection, control::v1::SchedulerMessage message);
  void Break(scheduler::ConnectionId connection, const std::string& reason);
  void BreakAll(std::size_t peer, const std::string& reason);
  void Arrive(scheduler::ConnectionId connection, const control::v1::PeerMessage& message);
  std::unique_ptr<net::ControlClient> Dial(std::size_t peer, net::ControlClientHandlers handlers);
  SimNetwork::Options NetworkOptions();

  const WholeOptions options_;
  const TemporaryFolder folder_;
  std::mt19937_64 random_;
  SimWorld world_;
  SimNetwork network_;
  std::uint64_t tasks_ = 0;

  scheduler::RunConfig config_;
  scheduler::RunArtefacts artefacts_;
  std::unique_ptr<storage::ContentStore> content_;  // the scheduler's
  std::vector<std::string> log_;
  std::unique_ptr<scheduler::SwarmState> state_;
  std::uint64_t scheduler_life_ = 0;
  scheduler::ConnectionId last_connection_ = 0;
  std::map<scheduler::ConnectionId, std::shared_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_WHOLE_SWARM_H_
