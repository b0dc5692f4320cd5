#include "pipeline/runner/applying_steps.h"

#include <utility>

namespace shoal::pipeline {

void ApplyingSteps::AddBoundary(std::uint64_t step, const BoundaryChecksum& end) {
  for (Step& one : steps_) {
    if (one.applied.step != step) continue;
    one.applied.boundaries.push_back(end);
    --one.boundaries_left;
  }
}

std::optional<AppliedStep> ApplyingSteps::TakeDone() {
  if (steps_.empty() || !steps_.front().model_done || steps_.front().boundaries_left > 0) {
    return std::nullopt;
  }
  AppliedStep done = std::move(steps_.front().applied);
  steps_.pop_front();
  return done;
}

void ApplyingSteps::EndModel(std::uint64_t step, const Status& status) {
  model_at_work_ = false;
  if (!status.ok()) {
    held_ = status.WithContext("optimizer");
    return;
  }
  held_ = step + 1;
  for (Step& one : steps_) {
    if (one.applied.step == step) one.model_done = true;
  }
}

}  // namespace shoal::pipeline
