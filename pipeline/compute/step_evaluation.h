// StepEvaluation: a stage's part in taking the held-out loss of a plan's validation rows, before
// the micro-batches of its step: forward only, nothing kept, nothing compressed
// (evaluation_link.h).
//
// Micro-batches follow each other through the stages; a stage goes on to the step as soon as it has
// done its last one. Thread: control; the model runs on `compute`.

#ifndef SHOAL_PIPELINE_COMPUTE_STEP_EVALUATION_H_
#define SHOAL_PIPELINE_COMPUTE_STEP_EVALUATION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "compression/api/codec.h"
#include "pipeline/boundary/boundary.h"
#include "pipeline/core/activity.h"
#include "pipeline/core/generation.h"
#include "pipeline/core/runner_types.h"

namespace shoal::pipeline {

class StepEvaluation {
 public:
  // All outlive it; the model also what was posted to `compute`.
  struct Resources {
    Generation* generation = nullptr;
    Executor* compute = nullptr;
    model::StageModel* model = nullptr;                  // compute thread only
    std::shared_ptr<const dataset::PreparedData> data;   // first and last stage; segmented: all
    std::shared_ptr<const compression::ValueHome> home;  // where the model's values lie
    std::shared_ptr<const compression::MessageCodec>
        codec;  // of kEvaluationCodec, for values there
    ActivityAccount* activity = nullptr;
  };
  // `previous` and `next` are null on the first and last stage. `on_done` is called in a task of
  // its own, or in Start where the plan has no evaluation.
  StepEvaluation(compression::SampleShape sample, Resources resources, Boundary* previous,
                 Boundary* next, std::function<void()> on_done);

  void Start(const StepPlan& plan);
  // Goes on, if it can. Call whenever something arrived.
  void Pump();

  bool active() const {
    SHOAL_ASSERT_ON(generation_->control());
    return active_;
  }
  // Of the last plan; last stage only. Not finite where an activation was not.
  const model::StepLoss& loss() const {
    SHOAL_ASSERT_ON(generation_->control());
    return loss_;
  }
  // What it waits for, and from whom (null: from nobody else).
  std::string Awaited(const PeerId** peer) const;

 private:
  struct Task;
  struct Done {
    Status status;
    bool bad_input = false;  // the error is the previous stage's
    EvaluationMessage out;
    model::StepLoss loss;
  };
  static Done Evaluate(Task* task);

  bool CanGoOn() const;
  void RunNext();
  void OnEvaluated(Done done);

  const compression::SampleShape sample_;
  const Resources resources_;
  Generation* const generation_;
  Boundary* const previous_;
  Boundary* const next_;
  const std::function<void()> on_done_;
  StepPlan plan_;
  bool active_ = false, running_ = false;
  std::uint32_t done_ = 0;  // micro-batches
  model::StepLoss loss_;
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_COMPUTE_STEP_EVALUATION_H_
