// StageHost: this peer's stage for one generation of the plan: fetches what the stage needs, loads
// the model, runs the StageRunner, saves checkpoints.

#ifndef SHOAL_DAEMON_STAGE_HOST_H_
#define SHOAL_DAEMON_STAGE_HOST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/executor.h"
#include "common/status.h"
#include "common/timeouts.h"
#include "daemon/applied_steps.h"
#include "daemon/artefacts/artefact_fetcher.h"
#include "daemon/artefacts/checkpoint_saver.h"
#include "daemon/config.h"
#include "daemon/peer_state.h"
#include "daemon/stage_budget.h"
#include "model/stage_model.h"
#include "pipeline/runner/stage_runner.h"
#include "proto/control.pb.h"
#include "storage/delta/delta_store.h"
#include "storage/files/content_store.h"

namespace shoal::daemon {

// Makes a stage with zeros for weights. Thread: compute.
using NewStage = std::function<Result<std::unique_ptr<model::StageModel>>(
    const model::ModelSpec& spec, const model::StageOptions& options)>;

// What lives as long as the daemon. Thread of content and delta store: `store`.
struct StageResources {
  Executor* control = nullptr;
  Executor* compute = nullptr;
  Executor* codec = nullptr;
  Executor* store = nullptr;
  net::LinkHub* hub = nullptr;
  storage::ContentStore* content = nullptr;
  storage::DeltaStore* delta_store = nullptr;
  CheckpointSaver* saver = nullptr;
  const DaemonConfig* config = nullptr;
  Timeouts timeouts = TimeoutsOf(kPeerTimeoutDefault);  // of the run
  NewStage new_stage = model::NewTorchStage;
};

// Thread: control.
class StageHost : private pipeline::StageRunner::Mediator {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual net::ControlClient* client() = 0;  // null: not connected
    virtual void Tell(control::v1::PeerMessage message) = 0;
    // Called while the host runs; the owner may destroy the host only later, from a posted task.
    virtual void OnStageState(PeerState state, const std::string& reason) = 0;
    virtual void OnLinkTrouble(const std::string& /*text*/) {}  // to whom, and why
    // Something of this machine hangs: the model, a codec, a store. The stage is of no use.
    virtual void OnStageHangs(const std::string& what) = 0;
  };

  // `own` is this peer's position in the plan.
  StageHost(const StageResources& resources, Owner* owner, control::v1::Plan plan,
            control::v1::Position own);
  ~StageHost() override;

  void Start();
  // The same in a plan in place, with what `former` holds: the stage or, if the plan makes this
  // peer a shadow, what it prepared of it, or has got so far. Null: nothing, which is an error.
  void StartInPlace(std::unique_ptr<StageHost> former);
  void OnStepPlan(const control::v1::StepPlan& plan);
  void OnSpotCheck(const control::v1::SpotCheck& check);
  // Of other peers of the plan, whose links dial these from now on.
  void OnNewAddresses(const control::v1::NewAddresses& news);
  void OnReduce(const control::v1::Reduce& reduce);
  void OnApply(const control::v1::Apply& apply);
  // The generation has ended, or the scheduler is gone: keeps the stage as it is.
  void Hold();
  // With what it keeps: whether a further step is only to be ordered, and that order.
  bool synced() const;
  void ApplyHeld(const control::v1::Apply& apply);
  const std::optional<control::v1::Apply>& last_apply() const {
    SHOAL_ASSERT_ON(*resources_.control);
    return last_apply_;
  }
  // Instead of Start: fetches and loads what never changes of the stage, and tells the scheduler.
  void Prepare();
  // It prepares a stage, or has.
  bool prepares() const {
    SHOAL_ASSERT_ON(*resources_.control);
    return prepares_;
  }
  // Its weights are not those of any step, or only in part.
  bool shadow() const {
    SHOAL_ASSERT_ON(*resources_.control);
    return own_.shadow() && !caught_up_;
  }
  // Nobody waits for what Close saves any more.
  void OnDisconnected();
  // Without a scheduler, too, it goes on with the step at hand until an order is missing; it has
  // its whole state. So until Hold, or a failure.
  bool goes_on() const;
  // Of one that goes on; nothing: its model makes a step just now.
  std::optional<pipeline::StepInProgress> in_progress() const;
  // The order to reduce the step at hand, if it was heard.
  const std::optional<control::v1::Reduce>& last_reduce() const {
    SHOAL_ASSERT_ON(*resources_.control);
    return last_reduce_;
  }
  // The scheduler is back, and goes on with the generation: says again that the micro-batches are
  // done, or why it cannot go on. The same order to reduce, when it comes again, is answered again.
  void TellAgain();
  // What it keeps; nothing: it does not know yet, or its weights are those of no step exactly.
  std::optional<std::uint64_t> held() const {
    SHOAL_ASSERT_ON(*resources_.control);
    return held_ && held_->ok() ? std::optional(**held_) : std::nullopt;
  }
  // The generation has ended: saves the stage as it is after `step` applied steps, and tells the
  // scheduler; `told` runs then, once. Asked again for the same step it tells what it saved.
  void Close(std::uint64_t step, std::function<void()> told);
  // What it keeps is not known yet: something of it still computes.
  bool settling() const {
    SHOAL_ASSERT_ON(*resources_.control);
    return settling_ && !held_;
  }
  // The scheduler does not know yet what came of Close.
  bool closing() const {
    SHOAL_ASSERT_ON(*resources_.control);
    return closing_ && closing_->told != nullptr;
  }
  // The run is over; destroy the host a moment later, when the neighbours have heard it, too.
  void OnFinished();

  // That it needs: of the plan, of the model that never changes, of its newest checkpoint.
  std::vector<storage::ContentHash> blobs() const;

  const control::v1::Plan& plan() const {
    SHOAL_ASSERT_ON(*resources_.control);
    return plan_;
  }
  const control::v1::Position& position() const {
    SHOAL_ASSERT_ON(*resources_.control);
    return own_;
  }
  pipeline::RunnerStats stats() const;
  std::vector<net::LinkStats> link_stats() const;
  // Of artefacts; of a shadow, of its stage's state.
  FetchProgress fetch_progress() const;
  StageBudget budget() const {
    SHOAL_ASSERT_ON(*resources_.control);
    return budget_;
  }
  // In a bench: CPU time spent on making values, which is no part of what it measures.
  std::optional<double> synthetic_cpu_ms() const;
  const std::string& device_name() const {
    SHOAL_ASSERT_ON(*resources_.control);
    return device_name_;
  }
  const std::vector<pipeline::BoundaryChecksum>& boundaries() const {
    SHOAL_ASSERT_ON(*resources_.control);
    return boundaries_;
  }

 private:
  struct Loaded;

  // StageRunner::Mediator
  void OnReady() override;
  void OnStepReady(const pipeline::StepReady& ready) override;
  void OnSyncDone(std::uint64_t step, std::uint32_t amendment, double squared_norm) override;
  void OnPeerLost(const Status& status, const PeerId& peer, bool halted) override;
  void OnModelApplied(std::uint64_t step) override;
  void OnCaughtUp(std::uint64_t steps) override;
  void OnSpotChecked(const pipeline::SpotResult& result) override;
  void OnApplied(std::uint64_t step,
                 const std::vector<pipeline::BoundaryChecksum>& boundaries) override;
  void OnFailed(Status status, const PeerId* peer) override;

  void OnFetched(Status status);
  void LoadStage(std::shared_ptr<Loaded> loaded);
  void OnLoaded(Result<std::shared_ptr<Loaded>> loaded);
  Status StartRunner();
  void TellReady();
  void ShowTraining(bool whole);
  void TellPrepared(const Status& status);
  bool SameStage(const StageHost& former) const;
  void GoOnWithFormer();
  void SettleAsFormer();
  Status TakeShadowOf(const StageHost& former);
  void AwaitRoundTrips(TimePoint until);
  // `step`: applied ones.
  CheckpointSaver::Order SaveOrder(std::uint64_t step);
  void SaveCheckpoint(std::uint64_t step);
  void Settle();
  void OnSettled(const Result<std::uint64_t>& held);
  Status CanGoOnWith(const StageHost& former) const;
  void OnSaveTold(std::uint64_t step, bool saved);
  std::string TellLinkBroken(control::v1::PeerMessage message, const Status& status);
  void FailPlan(const Status& status);
  void ForgetReports();
  // Runs `task` on `executor`; its result reaches `then` on control if the host still lives.
  template <typename T>
  void Run(Executor* executor, const char* name, std::function<T()> task,
           std::function<void(T)> then);

  const StageResources resources_;
  Owner* const owner_;
  control::v1::Plan plan_;  // but for addresses, constant
  const control::v1::Position own_;
  std::vector<std::uint32_t> sharing_;  // as RunnerConfig has it
  const std::shared_ptr<bool> alive_;   // shared with posted tasks: false once destroyed
  AppliedSteps steps_;
  ArtefactFetcher fetcher_;
  std::shared_ptr<Loaded> loaded_;  // shared with compute tasks; dies on the compute thread
  std::unique_ptr<pipeline::StageRunner> runner_;
  StageBudget budget_;
  std::string device_name_;
  std::vector<pipeline::BoundaryChecksum> boundaries_;
  struct Closing {
    std::uint64_t step = 0;
    bool saved = false;  // and told
    std::function<void()> told;
  };
  std::optional<Closing> closing_;
  std::optional<control::v1::Apply> last_apply_;
  std::optional<control::v1::PeerMessage> last_ready_, last_sync_;  // of the step at hand
  std::optional<control::v1::Reduce> last_reduce_;
  std::optional<control::v1::PeerMessage> last_failure_;  // of the stage, or of one of its links
  bool settling_ = false;
  std::unique_ptr<StageHost> former_;  // until it has settled
  std::function<void()> on_settled_;   // once
  bool prepares_ = false, caught_up_ = false;
  bool whole_ = true;                              // its pipeline
  std::optional<replica::MissingValues> missing_;  // of a shadow, at its start
  std::optional<Result<std::uint64_t>> held_;      // applied steps in the stage's weights
  bool failed_ = false;
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_STAGE_HOST_H_
