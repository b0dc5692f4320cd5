// PipelineWork: what a peer does for its pipeline in the steps of a generation: the boundaries with
// its neighbours, the operations of micro-batches, evaluations and spot checks.
//
// It has a scope of its own. So it can end while the peer's part in its stage group goes on: where
// the pipeline has lost a member, but others go on with the step. Thread: control.

#ifndef SHOAL_PIPELINE_RUNNER_PIPELINE_WORK_H_
#define SHOAL_PIPELINE_RUNNER_PIPELINE_WORK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/status.h"
#include "net/links/generation_links.h"
#include "pipeline/boundary/boundary.h"
#include "pipeline/compute/step_compute.h"
#include "pipeline/compute/step_evaluation.h"
#include "pipeline/core/activity.h"
#include "pipeline/core/generation.h"
#include "pipeline/core/runner_types.h"
#include "pipeline/runner/runner_codecs.h"
#include "pipeline/runner/spot_checks.h"
#include "replica/operation_gate.h"
#include "replica/step_types.h"

namespace shoal::pipeline {

class PipelineWork {
 public:
  // All outlive it, and what RunnerResources says of tasks holds.
  struct Parts {
    const RunnerConfig* config = nullptr;
    const RunnerResources* resources = nullptr;
    const RunnerCodecs* codecs = nullptr;
    const net::GenerationLinks* links = nullptr;
    const StepPlan* plan = nullptr;  // of the running or last step
    TransferStats* transfers = nullptr;
    ComputeStats* computed = nullptr;
    ActivityAccount* activity = nullptr;
    std::shared_ptr<replica::GradientMark> mark;  // of gradients that it adds up
  };
  struct Handlers {
    std::function<void()> on_up;  // of a boundary
    std::function<void(std::size_t parts)> on_final_gradients;
    std::function<void()> on_done;  // all micro-batches of the step
    std::function<void(const SpotResult&)> on_spot_checked;
    Generation::OnFailed on_failed;  // nothing of it runs any more
  };
  // A target of all zeros: no such neighbour. `before`: the work that was ended because the
  // pipeline is broken, which is kept: an end of its links would look like a loss to its
  // neighbours.
  PipelineWork(const Parts& parts, Handlers handlers, const net::LinkTarget& previous,
               const net::LinkTarget& next, std::unique_ptr<PipelineWork> before = nullptr);

  // What the store has of later steps is forgotten first.
  void Open();
  bool up() const;
  // Bytes of a micro-batch in flight, and of one whose weight gradients are pending; what lets
  // parts of operations run, as StepCompute::set_gate.
  void SetUp(std::uint64_t in_flight, std::uint64_t pending, replica::OperationGate* gate);

  // Of the plan that Parts names. An error: the step cannot be done.
  Status StartStep();
  // It has more micro-batches than before, or none as before.
  void ExtendStep();

  // Fails where an operation, or a neighbour's frame, takes longer than it can. Call about every
  // OperationWatch::kLookEvery.
  void CheckOperations();

  // Whether there is work that was ended, and kept.
  bool broken() const { return before_ != nullptr; }
  // All neighbours know of that: it goes, and what the store has of its step and later ones.
  void DropBefore(std::uint64_t step);
  // That an operation took, of what was ended, too.
  Duration longest() const;

  // No task of it begins any more, none reports, and what arrives counts for nothing.
  void End() { generation_.End(); }

  template <typename Function>
  void EachBoundary(const Function& function) const {
    for (Boundary* boundary : {previous_.get(), next_.get()}) {
      if (boundary != nullptr) function(boundary);
    }
  }
  Boundary* previous() const { return previous_.get(); }
  Boundary* next() const { return next_.get(); }
  Generation& generation() { return generation_; }
  StepCompute& compute() { return *compute_; }
  StepEvaluation& evaluation() { return *evaluation_; }
  SpotChecks& spot_checks() { return *spot_checks_; }

 private:
  std::unique_ptr<Boundary> MakeBoundary(storage::BoundarySide side, const net::LinkTarget& target);
  void MakeCompute();
  void OnData();
  void RollBackStore(std::uint64_t step);

  const Parts parts_;
  const Handlers handlers_;
  Generation generation_;
  bool computes_ = false;  // the step's micro-batches, not its evaluation
  std::unique_ptr<PipelineWork> before_;
  // Last, in this order: their callbacks use what is above.
  std::unique_ptr<Boundary> previous_, next_;
  std::unique_ptr<StepCompute> compute_;
  std::unique_ptr<StepEvaluation> evaluation_;
  std::unique_ptr<SpotChecks> spot_checks_;
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_RUNNER_PIPELINE_WORK_H_
