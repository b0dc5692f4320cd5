// ApplyingSteps: steps whose Apply was ordered, and how many of them the model's weights hold.
//
// A step is done when the model has made it and its m are in the store; the next one may go on
// meanwhile, up to its own Apply. Thread: one at a time.

#ifndef SHOAL_PIPELINE_RUNNER_APPLYING_STEPS_H_
#define SHOAL_PIPELINE_RUNNER_APPLYING_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/status.h"
#include "pipeline/core/runner_types.h"

namespace shoal::pipeline {

struct AppliedStep {
  std::uint64_t step = 0;
  std::vector<BoundaryChecksum> boundaries;
};

class ApplyingSteps {
 public:
  // `held`: steps that the weights hold at first.
  explicit ApplyingSteps(std::uint64_t held) : held_(held) {}

  // Steps in order.
  void Begin(std::uint64_t step) { steps_.push_back({{step, {}}, false, 0}); }
  // The newest step also waits for so many boundary ends.
  void Await(std::size_t boundaries) { steps_.back().boundaries_left += boundaries; }
  void AddBoundary(std::uint64_t step, const BoundaryChecksum& end);
  // No boundary end comes any more.
  void ForgoBoundaries() {
    for (Step& one : steps_) one.boundaries_left = 0;
  }
  // The oldest step, if it is done.
  std::optional<AppliedStep> TakeDone();

  // The model makes a step, one at a time, which need not have begun here.
  void BeginModel() { model_at_work_ = true; }
  void EndModel(std::uint64_t step, const Status& status);
  bool model_at_work() const { return model_at_work_; }
  // Steps that the weights hold; an error: none exactly, since the model could not make one.
  const Result<std::uint64_t>& held() const { return held_; }
  // The same where nothing changes them; nothing: they are at work, or it is an error.
  std::optional<std::uint64_t> settled() const {
    return !model_at_work_ && held_.ok() ? std::optional(*held_) : std::nullopt;
  }

 private:
  struct Step {
    AppliedStep applied;
    bool model_done = false;
    std::size_t boundaries_left = 0;
  };
  std::deque<Step> steps_;
  Result<std::uint64_t> held_;
  bool model_at_work_ = false;
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_RUNNER_APPLYING_STEPS_H_
