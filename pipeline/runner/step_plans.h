// StepPlans: the plans of steps that have not begun, in order. Pure; thread: control.

#ifndef SHOAL_PIPELINE_RUNNER_STEP_PLANS_H_
#define SHOAL_PIPELINE_RUNNER_STEP_PLANS_H_

#include <cstdint>
#include <deque>
#include <utility>

#include "common/status.h"
#include "pipeline/core/runner_types.h"

namespace shoal::pipeline {

// Invalid argument unless `plan` is the step of `before` with the same micro-batches in front, or
// with none where the pipeline has a gap.
Status CheckAmendment(const RunnerConfig& config, const StepPlan& before, const StepPlan& plan);

class StepPlans {
 public:
  // `config` outlives it; the first plan is that of its resume step.
  explicit StepPlans(const RunnerConfig& config);

  bool empty() const { return plans_.empty(); }
  // The step of the next plan to come.
  std::uint64_t planned() const { return planned_; }
  // Whether the step waits here.
  bool Has(std::uint64_t step) const { return step < planned_ && step + plans_.size() >= planned_; }
  // The plan of the step behind the last one. Invalid argument: of another step, or not a plan of
  // such a runner; resource exhausted: too many steps ahead.
  Status Add(StepPlan plan);
  // More micro-batches for a step that waits here. Errors as CheckAmendment.
  Status Amend(StepPlan plan);
  // The first one; it is not empty.
  StepPlan Take() {
    StepPlan plan = std::move(plans_.front());
    plans_.pop_front();
    return plan;
  }

 private:
  const RunnerConfig& config_;
  std::deque<StepPlan> plans_;
  std::uint64_t planned_;
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_RUNNER_STEP_PLANS_H_
