#include "pipeline/runner/step_plans.h"

#include <algorithm>
#include <string>

#include "pipeline/runner/runner_checks.h"
#include "replica/methods/group_limits.h"

namespace shoal::pipeline {
namespace {

constexpr std::size_t kPlansMax = 64;

bool Same(const MicroBatchPlan& a, const MicroBatchPlan& b) {
  return a.global_index == b.global_index && a.samples == b.samples;
}

}  // namespace

Status CheckAmendment(const RunnerConfig& config, const StepPlan& before, const StepPlan& plan) {
  SHOAL_RETURN_IF_ERROR(CheckPlan(config, plan, before.step));
  const auto& had = before.micro_batches;
  const bool front = plan.micro_batches.size() >= had.size() &&
                     std::equal(had.begin(), had.end(), plan.micro_batches.begin(), Same);
  const bool follows = config.HasGap(config.pipeline) && plan.micro_batches.empty();
  if ((front || follows) && plan.evaluation.empty() && before.evaluation.empty() &&
      plan.amendment > before.amendment && plan.amendment <= replica::kAmendmentsMax) {
    return Status::Ok();
  }
  return InvalidArgument("the plan of step " + std::to_string(plan.step) + ", dealt out for the " +
                         std::to_string(plan.amendment + 1) +
                         "th time, does not go on with what this pipeline had before");
}

StepPlans::StepPlans(const RunnerConfig& config) : config_(config), planned_(config.resume_step) {}

Status StepPlans::Add(StepPlan plan) {
  SHOAL_RETURN_IF_ERROR(CheckPlan(config_, plan, planned_));
  if (plans_.size() >= kPlansMax) {
    return ResourceExhausted("the plan of step " + std::to_string(plan.step) + " is too far ahead");
  }
  ++planned_;
  plans_.push_back(std::move(plan));
  return Status::Ok();
}

Status StepPlans::Amend(StepPlan plan) {
  SHOAL_CHECK(Has(plan.step));
  StepPlan& before = plans_[plan.step + plans_.size() - planned_];
  SHOAL_RETURN_IF_ERROR(CheckAmendment(config_, before, plan));
  before.micro_batches = std::move(plan.micro_batches);
  before.counting = std::move(plan.counting);
  before.amendment = plan.amendment;
  return Status::Ok();
}

}  // namespace shoal::pipeline
