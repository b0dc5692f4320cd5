// StageRunner: one peer's part in the steps of a run, for one generation of the plan: schedule,
// boundary links, delta store, replica exchange and the step protocol.
//
// Knows no torch, gRPC or RocksDB: model, links and store come in as interfaces, and the daemon
// implements the Mediator. Thread: control; compute, codec and store work is posted to their
// executors and comes back.

#ifndef SHOAL_PIPELINE_RUNNER_STAGE_RUNNER_H_
#define SHOAL_PIPELINE_RUNNER_STAGE_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "net/links/link.h"
#include "pipeline/core/runner_types.h"

namespace shoal::pipeline {

class StageRunner {
 public:
  // What the runner needs from its owner. Thread: control; each call is a task of its own, in which
  // the runner may be destroyed. After OnFailed, or destruction, no call comes any more.
  class Mediator {
   public:
    virtual ~Mediator() = default;
    virtual void OnReady() = 0;  // links open, inventories exchanged: step plans may come
    virtual void OnStepReady(const StepReady& ready) = 0;
    // A norm that is not finite: a gradient of this peer was lost in the step.
    // `amendment`: of the plan whose gradients these are.
    virtual void OnSyncDone(std::uint64_t step, std::uint32_t amendment, double squared_norm) = 0;
    // The link to a peer broke. The generation goes on: that may leave it. `halted`: it is a
    // neighbour, without which this peer does nothing more for its pipeline; it may follow.
    virtual void OnPeerLost(const Status& /*status*/, const PeerId& /*peer*/, bool /*halted*/) {}
    // The model has made the step, and no task that changes its weights again was posted since. Not
    // a task of its own: the runner must not be destroyed in it.
    virtual void OnModelApplied(std::uint64_t /*step*/) {}
    // The step's m are kept, too; the next step may have gone on meanwhile, up to its own Apply.
    virtual void OnApplied(std::uint64_t step, const std::vector<BoundaryChecksum>& boundaries) = 0;
    // A shadow has the whole state of its stage after so many steps.
    virtual void OnCaughtUp(std::uint64_t /*steps*/) {}
    // As a checker (SpotOrder): what it found, before or after OnApplied of the step.
    virtual void OnSpotChecked(const SpotResult& /*result*/) {}
    // The generation cannot go on: a link broke (`peer` set), or something local failed.
    virtual void OnFailed(Status status, const PeerId* peer) = 0;
  };

  struct Dependencies : RunnerResources {
    Mediator* mediator = nullptr;
  };

  virtual ~StageRunner() =
      default;  // = Abort without waiting: in-flight work ends in the background

  // Opens links and exchanges inventories; Mediator::OnReady follows. Targets as in the plan.
  virtual void Start(const LinkTargets& targets) = 0;

  // Steps in order, a few ahead at most. With an amendment: a step before its Apply again, with
  // more micro-batches behind those that it had, because peers have left, or with none.
  virtual void OnStepPlan(StepPlan plan) = 0;
  // Before the plan of its step.
  virtual void OnSpotOrder(SpotOrder order) = 0;
  // Adds up gradients over the pipelines that count and over stages that share tensors; OnSyncDone.
  virtual void OnReduce(const replica::ReduceOrder& order) = 0;
  // Optimizer step, unless the order is to skip it; staged m becomes m; OnApplied. Where a link
  // broke since SyncDone, the model makes the step all the same: it counts.
  virtual void OnApply(const replica::ApplyOrder& order) = 0;

  // The generation is over: nothing begins any more, and no failure is reported. `done` runs once,
  // in a task of its own, when no task changes the model's weights any more. It gets how many steps
  // these hold: with an order to apply that came before, that one, too. An error: they hold none
  // exactly. After Start; again only after a further OnApply.
  virtual void Settle(std::function<void(Result<std::uint64_t> steps)> done) = 0;

  // Whether its group has agreed on a step whose order to apply has not come.
  virtual bool synced() const = 0;
  // Whether its links stand and nothing has failed: it does what it can until an order is missing.
  virtual bool goes_on() const = 0;
  // Of one that goes on; nothing: its model makes a step just now.
  virtual std::optional<StepInProgress> in_progress() const = 0;

  // What a shadow still lacks of its stage's state after the steps that it holds; nothing said:
  // all.
  virtual std::optional<replica::MissingValues> missing_state() const = 0;

  // The run is over: from now on a neighbour that closes its links is no failure. Nothing more is
  // called; destroy the runner once the neighbours know, too.
  virtual void OnFinished() = 0;

  virtual RunnerStats stats() const = 0;
  virtual std::vector<net::LinkStats> link_stats() const = 0;
};

Result<std::unique_ptr<StageRunner>> NewStageRunner(const RunnerConfig& config,
                                                    const StageRunner::Dependencies& dependencies);

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_RUNNER_STAGE_RUNNER_H_
