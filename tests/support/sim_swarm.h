// SimSwarm: S x D StageRunners and a minimal scheduler in virtual time, on one thread.
//
// Everything random (delays, costs) comes from one seed; two swarms of equal options do the same.
// Stages are TinyStages on made-up rows, or what the options bring.

#ifndef SHOAL_TESTS_SUPPORT_SIM_SWARM_H_
#define SHOAL_TESTS_SUPPORT_SIM_SWARM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "pipeline/runner/stage_runner.h"
#include "storage/delta/delta_store.h"
#include "tests/support/sim_executor.h"
#include "tests/support/sim_links.h"
#include "tests/support/sim_swarm_options.h"
#include "tests/support/tiny_stage.h"

namespace shoal::test_support {

class SimSwarm {
 public:
  struct Failure {
    Status status;
    std::optional<PeerId> peer;
  };
  class Peer;

  explicit SimSwarm(const SwarmOptions& options);
  ~SimSwarm();

  // New runners of the next generation, everybody at `resume_step`; waits until all are ready.
  bool Open(std::uint64_t resume_step);
  // Trains until `steps` are applied on all peers; false if that did not happen: see failures and
  // held().
  bool TrainTo(std::uint64_t steps);
  // Sends the plans of TrainTo, and does not wait.
  void Begin(std::uint64_t steps);
  // Destroys all runners; what they posted still runs.
  void Close();
  // Between generations: the next one has the first so many pipelines. The peers of the others
  // rest, and keep what they have.
  void SetPipelines(std::uint32_t count);
  // Peers that had reported the end of their micro-batches and of the exchange, when a pipeline
  // left.
  struct Reported {
    std::size_t ready = 0, synced = 0;
  };
  // These peers (stage, pipeline) are gone at once; a little later the others are told to go on
  // with the step, and with what was dealt out of it and the next ones to their pipelines. Who is
  // left of these follows. Where all only followed, nobody does anything again.
  using Places = std::set<std::pair<std::uint32_t, std::uint32_t>>;
  Reported Leave(const Places& lost);
  // All peers of a pipeline.
  Reported Leave(std::uint32_t pipeline);
  // These pipelines count from the next step on that is not planned yet.
  void Count(std::vector<std::uint32_t> pipelines);
  // Runs the world for a while.
  void Run(Duration duration);
  bool AnyFailed() const;
  // Whether the run is held, as the scheduler does it: in a third step in a row a member's norm is
  // not finite.
  bool held() const { return held_; }

  Peer& at(std::uint32_t stage, std::uint32_t pipeline) {
    return *peers_[pipeline * options_.stages + stage];
  }
  std::vector<std::unique_ptr<Peer>>& peers() { return peers_; }
  const std::vector<std::unique_ptr<Peer>>& peers() const { return peers_; }

  std::vector<std::vector<float>> SaveWeights() const;
  void LoadWeights(const std::vector<std::vector<float>>& weights);  // nothing else is remembered
  // Weights and moments of a stage, and what puts them into all of its peers' models, as a
  // checkpoint does: they remember nothing else.
  using StageState = std::vector<std::vector<float>>;
  StageState SaveStage(std::uint32_t stage, std::uint32_t pipeline) const;
  void LoadStage(std::uint32_t stage, const StageState& state);

  SwarmOptions options_;
  std::mt19937 random_;
  SimWorld world_;
  TinyShape shape_;
  SimNetwork network_;
  std::shared_ptr<const dataset::PreparedData> data_;
  std::uint64_t generation_ = 0;
  std::vector<double> losses_;                         // per step, mean over labels
  std::map<std::uint64_t, model::StepLoss> held_out_;  // by step, over all pipelines
  std::vector<std::uint64_t> skipped_;                 // steps, as a member's norm is not finite
  std::map<std::uint64_t, int> checksum_mismatches_;   // by step
  std::uint64_t checksums_compared_ = 0;
  struct SpotChecked {
    SwarmOptions::SpotCheck check;
    std::uint32_t by = 0;  // pipeline
    pipeline::SpotResult result;
  };
  std::vector<SpotChecked> spot_checked_;
  // What peers said of their micro-batches, by step, stage and pipeline.
  std::map<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>, pipeline::StepReady> reports_;
  std::vector<std::uint32_t> counted_;  // pipelines that count; empty: all
  // That do not hold their stages when the next generation opens. Then only pipelines that count
  // have micro-batches.
  std::vector<std::uint32_t> shadows_;
  // Stage and pipeline of peers that the next generation is without; the others of their pipelines
  // only follow. As above, only pipelines that count have micro-batches.
  Places gaps_;

 private:
  friend class Peer;
  struct StepAccount {
    std::set<const Peer*> ready, synced, applied;
    bool reduced = false;
    double loss = 0;
    std::map<const Peer*, double> squared_norms;  // of who is synced
    std::uint64_t labels = 0;
    std::map<std::uint32_t, double> local;  // squared gradient norms, by pipeline
    std::map<std::uint32_t, std::uint64_t> labels_by_pipeline;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> places;  // pipeline, boundary
  };
  bool All(const std::set<const Peer*>& peers) const;
  bool IsLost(const Peer& peer) const;
  bool IsGap(std::uint32_t stage, std::uint32_t pipeline) const {
    return gaps_.contains({stage, pipeline});
  }
  bool IsWhole(std::uint32_t pipeline) const;
  std::uint32_t AmendmentOf(std::uint64_t step) const;
  std::vector<std::uint32_t> MicroBatchesOf(std::uint64_t step, std::uint32_t pipeline) const;
  void FinishIfApplied(std::uint64_t step);
  void FollowersLeave(const Places& lost);
  void PostPlan(Peer* peer, pipeline::StepPlan plan);
  void ReduceIfReady(std::uint64_t step);
  void ApplyIfSynced(std::uint64_t step);
  Duration Delay(int micros);
  pipeline::StepPlan PlanOf(std::uint64_t step, std::uint32_t stage, std::uint32_t pipeline) const;
  void SendPlans(std::uint64_t step);
  // Of the step's check, what `peer` has to do.
  std::optional<pipeline::SpotOrder> SpotOrderOf(std::uint64_t step, const Peer& peer) const;
  // Runs `order` on the control thread of every runner, after a delay each.
  void ToAll(std::function<void(Peer*)> order);
  void OnStepReady(Peer* peer, const pipeline::StepReady& ready);
  void OnSyncDone(Peer* peer, std::uint64_t step, std::uint32_t amendment, double squared_norm);
  void OnApplied(Peer* peer, std::uint64_t step,
                 const std::vector<pipeline::BoundaryChecksum>& places);

  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::unique_ptr<Peer>> resting_;  // the next one to return last
  std::map<std::uint64_t, StepAccount> accounts_;
  std::uint64_t planned_ = 0, wanted_ = 0, applied_ = 0;
  bool held_ = false;
  Places lost_;
  // Who counts from a step on, once somebody left; and by step who was left, each time.
  std::vector<std::uint32_t> counted_before_;  // before that
  std::map<std::uint64_t, std::vector<std::uint32_t>> left_from_;
  std::map<std::uint64_t, std::vector<std::vector<std::uint32_t>>> left_in_;
  std::vector<pipeline::StageTimes> timings_;
};

class SimSwarm::Peer final : public pipeline::StageRunner::Mediator {
 public:
  Peer(SimSwarm* swarm, std::uint32_t stage, std::uint32_t pipeline);
  ~Peer() override;

  void Make(std::uint64_t resume_step);
  void Start();

  TinyStage& tiny() const;  // only without options.new_model

  void OnReady() override { ready_ = true; }
  void OnStepReady(const pipeline::StepReady& ready) override { swarm_->OnStepReady(this, ready); }
  void OnCaughtUp(std::uint64_t steps) override { caught_up_ = steps; }
  void OnSpotChecked(const pipeline::SpotResult& result) override {
    swarm_->spot_checked_.push_back({*swarm_->options_.spot_check(result.step), pipeline_, result});
  }
  void OnSyncDone(std::uint64_t step, std::uint32_t amendment, double norm) override {
    swarm_->OnSyncDone(this, step, amendment, norm);
  }
  void OnApplied(std::uint64_t step,
                 const std::vector<pipeline::BoundaryChecksum>& places) override {
    swarm_->OnApplied(this, step, places);
  }
  void OnPeerLost(const Status& status, const PeerId& peer, bool /*halted*/) override {
    if (!lost_) lost_ = Failure{status, peer};
  }
  void OnFailed(Status status, const PeerId* peer) override;
  // Of a peer that is gone, whether it can go on without it or not.
  const std::optional<Failure>& trouble() const { return failure_ ? failure_ : lost_; }

  SimSwarm* const swarm_;
  const std::uint32_t stage_, pipeline_;
  PeerId id_;
  std::unique_ptr<Executor> control_, compute_, codec_, store_executor_;
  std::unique_ptr<net::LinkHub> hub_;
  std::unique_ptr<model::StageModel> model_;
  std::shared_ptr<const compression::ValueHome> home_;  // null: the host
  std::unique_ptr<storage::DeltaStore> store_;
  pipeline::KeptMemories kept_;
  std::unique_ptr<pipeline::StageRunner> runner_;
  bool ready_ = false;
  std::optional<Failure> failure_, lost_;
  std::optional<std::uint64_t> caught_up_;         // as a shadow, at so many steps
  std::optional<replica::MissingValues> missing_;  // of a shadow that has a part of its stage
};

}  // namespace shoal::test_support

#endif  // SHOAL_TESTS_SUPPORT_SIM_SWARM_H_
