// SimSwarm: a SwarmState with scripted peers, a fake clock and random delays drawn from a seed.
// Peers answer as shoald does; tests kill, mute and replace them. What is persisted goes through an
// event log of the kind that SHOAL_TEST_EVENT_LOG names.

#ifndef SHOAL_TESTS_UNIT_SCHEDULER_SIM_SWARM_H_
#define SHOAL_TESTS_UNIT_SCHEDULER_SIM_SWARM_H_

#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "net/control/control.h"
#include "scheduler/swarm/swarm_state.h"
#include "unit/scheduler/test_event_log.h"

namespace shoal::scheduler {

RunConfig SimConfig(std::uint32_t stages, std::uint32_t pipelines);
// Of a file of the checkpoint of so many applied steps.
std::string SimHash(const std::string& name, std::uint64_t step);
std::map<std::string, control::v1::ArtefactRef> SimArtefacts(const RunConfig& config);
PeerId SimPeerId(std::uint32_t number);
// Of a micro-batch, by its global index.
double SimLossSum(std::uint64_t step, std::uint32_t micro_batch);

struct SimPeer {
  PeerId id;
  std::string name;
  bool alive = true;
  bool mute = false;  // connected, says nothing
  bool paused = false;
  std::uint64_t memory_bytes = 0;
  ConnectionId connection = 0;
  std::uint64_t life = 0;   // grows with each connection: what was under way before is void
  std::uint64_t epoch = 0;  // and with each plan or abort
  // Of the newest plan.
  std::uint64_t generation = 0;
  int pipeline = -1, stage = -1;
  std::uint64_t applied = 0;
  std::map<std::uint64_t, control::v1::StepPlan> plans;
  std::vector<control::v1::StepPlan> with_lines;  // plans that say something of lines
  bool working = false;
  std::string last_abort;
  std::vector<control::v1::Abort> closings;  // that asked it to save
  bool forgets = false;                      // its process ends with its connection
  bool holds = false;                        // `applied` steps of `generation`, at its place
  std::vector<double> losses;                // as it was told, by step
  std::uint64_t preparations = 0;            // that it was asked for
  int prepared = -1;                         // stage
  bool shadow = false;                       // it does not hold its stage yet
  bool corrupt = false;                      // what it gets from its group it gets wrong
  bool cheats = false;                       // what its stage gives is wrong
  bool slanders = false;                     // as a checker it says so of all
  bool forges = false;                       // it tells other digests than its neighbours have
  bool stops = false;                        // its stage, as soon as the scheduler is gone
  std::uint64_t gone_on = 0;                 // times that a scheduler went on with the generation
  bool synced = false;
  std::uint32_t agreed = 0;  // amendment of the plan whose gradients it agreed on last
  control::v1::Apply last_apply;
  control::v1::RunStatus status;
  control::v1::Plan plan;
  control::v1::Refused refused;
  bool finished = false;
  std::vector<control::v1::Reduce> reduces;
  // Script: changes a message before it is sent; false swallows it.
  std::function<bool(control::v1::PeerMessage*)> filter;
  double slowness = 1;
  // What it can upload when the scheduler has lost it; none: nothing.
  std::function<bool(const control::v1::ArtefactRef&)> has;
  std::uint64_t upload_bps = 0;                      // as its heartbeats say
  std::set<std::string> saved;                       // hashes of what it has of checkpoints
  std::uint64_t request = 0;                         // for some of that, the newest
  std::uint64_t process = 0;                         // grows with each death
  std::vector<control::v1::PeerMessage> told_saved;  // of its process; told again after a hello
};

class SimSwarm {
 public:
  SimSwarm(const RunConfig& config, std::uint64_t seed);

  // How long a shadow needs to get its stage.
  Duration catch_up = std::chrono::seconds(2);
  // How long a member of a stage works until its gradients are complete; null: drawn.
  std::function<Duration(int stage)> backward_end;

  SimPeer& Peer(std::size_t index) { return *peers_[index]; }
  std::size_t AddPeer(std::uint64_t memory_bytes = 0);  // connects at once
  void Connect(std::size_t index);
  // The connection breaks (the scheduler hears of it after a delay); the process is gone.
  void Kill(std::size_t index);
  // The connection breaks; the process lives on.
  void CutOff(std::size_t index);
  void Say(std::size_t index, control::v1::PeerMessage message);  // now, in order
  void Order(AdminCommand::Kind kind);
  void Release(std::size_t index) { Feed(PeerReleased{Peer(index).id}); }
  void Lose(const std::vector<std::string>& hashes) {
    for (const std::string& hash : hashes) here_.erase(hash);
    Feed(ArtefactsLost{hashes});
  }

  // A new scheduler from the persisted events; all connections break, living peers come back.
  void RestartScheduler(bool reconnect);
  Status RestoreInto(SwarmState* state) const;

  // Something happens, drawn by `random`: the scheduler is started again (one time in so many), or
  // one of the first peers dies or comes back; now and then somebody orders to resume.
  void Disturb(std::mt19937_64* random, std::size_t peers, std::uint64_t restart_one_in);

  void RunFor(Duration duration);
  // Until `done`, at most `limit` of fake time; whether it came.
  bool RunUntil(const std::function<bool()>& done, Duration limit = std::chrono::minutes(30));
  bool RunUntilState(RunState state, Duration limit = std::chrono::minutes(30));

  SwarmState& state() { return *state_; }
  RunView View() const { return state_->View(now_); }
  TimePoint now() const { return now_; }
  const RunConfig& config() const { return config_; }
  const std::vector<std::string>& persisted() const { return persisted_; }
  // Artefacts that the state wanted of the server, by name, in order.
  const std::vector<std::string>& wanted() const { return wanted_; }
  // Names of peers that uploaded files of the newest checkpoint for a stage.
  std::set<std::string> UploadersOf(std::uint32_t stage) const;
  const std::vector<std::uint64_t>& checkpoints() const { return checkpoints_; }
  std::size_t disconnects() const { return disconnects_; }
  std::size_t last_actions() const { return last_actions_; }
  // Of a step's labels, whoever has which micro-batches.
  double Loss(std::uint64_t step) const;

 private:
  void At(Duration delay, std::function<void()> task);
  Duration Delay(double mean_ms);
  void Feed(const Event& event);
  void Deliver(ConnectionId connection, const control::v1::SchedulerMessage& message);
  void OnPlan(SimPeer* peer, const control::v1::Plan& plan);
  void OnStepPlan(SimPeer* peer, const control::v1::StepPlan& plan);
  void OnAbort(SimPeer* peer, const control::v1::Abort& abort);
  void OnGoOn(SimPeer* peer, const control::v1::GoOn& go_on);
  void Save(SimPeer* peer, std::uint64_t step);
  void Prune();
  void Want(const control::v1::ArtefactRef& file);
  void OnWanted(SimPeer* peer, const control::v1::WantArtefacts& want);
  void OnPrepare(SimPeer* peer, const control::v1::Prepare& prepare);
  void CatchUp(SimPeer* peer);
  void CheckAgreed(const SimPeer& peer);
  void OnApply(SimPeer* peer, const control::v1::Apply& apply);
  void CheckWhole(const control::v1::Plan& former, const SimPeer& peer) const;
  void CheckShares(const control::v1::StepPlan& plan, const SimPeer& peer) const;
  void Work(SimPeer* peer);
  void AddDigests(const SimPeer& peer, int micro_batches, control::v1::StepReady* ready) const;
  void OnSpotCheck(SimPeer* peer, const control::v1::SpotCheck& check);
  void Answer(SimPeer* peer, double mean_ms, control::v1::PeerMessage message);
  void AnswerIn(Duration delay, SimPeer* peer, control::v1::PeerMessage message);
  void Heartbeat(SimPeer* peer);
  SimPeer* ByConnection(ConnectionId connection);

  struct Task {
    TimePoint when;
    std::uint64_t order;
    std::function<void()> run;
    bool operator>(const Task& other) const {
      return std::tie(when, order) > std::tie(other.when, other.order);
    }
  };

  RunConfig config_;
  std::mt19937_64 random_;
  std::unique_ptr<SwarmState> state_;
  TimePoint now_{std::chrono::hours(1)};
  std::uint64_t order_ = 0, scheduler_life_ = 0;
  ConnectionId last_connection_ = 0;
  std::priority_queue<Task, std::vector<Task>, std::greater<>> tasks_;
  std::vector<std::unique_ptr<SimPeer>> peers_;
  std::map<ConnectionId, TimePoint> to_scheduler_, to_peer_;  // in order per connection
  std::vector<std::string> persisted_;
  std::vector<TimePoint> persisted_at_;
  const std::unique_ptr<TestEventLog> log_ = std::make_unique<TestEventLog>(WantedLogKind());
  std::vector<std::string> wanted_;
  std::vector<std::uint64_t> checkpoints_;
  // By generation and step: what those who applied it had agreed on.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> agreed_;
  std::map<std::string, std::string> here_;  // hash of what the server has: who uploaded it
  std::size_t disconnects_ = 0, last_actions_ = 0;
};

// Each step's is that of all its micro-batches.
void ExpectRightLosses(SimSwarm* swarm);

// Index of the peer at a place, of the first `peers`.
std::size_t PeerAt(SimSwarm* swarm, std::size_t peers, int pipeline, int stage);

}  // namespace shoal::scheduler

#endif  // SHOAL_TESTS_UNIT_SCHEDULER_SIM_SWARM_H_
