// SyntheticStage: a stage for benches. It computes nothing, takes the time that it is told to, and
// puts out values that behave like activations and their gradients.
//
// Activations are fixed Gaussian values per (sample, stage, token), times a scale per token and one
// per channel. Each visit of the sample adds a new change. Gradients: new at each visit, Gaussian,
// with few tokens that hold much of the energy. All from counters: the same visits give the same
// bits. Time passes asleep, so that many stages fit on few cores.

#ifndef SHOAL_MODEL_SYNTHETIC_STAGE_H_
#define SHOAL_MODEL_SYNTHETIC_STAGE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "common/clock.h"
#include "common/status.h"
#include "model/stage_model.h"

namespace shoal::model {

struct SyntheticOptions {
  double forward_ms = 0;           // wall time per micro-batch, 0 .. 60000
  double backward_ms = 0;          // of both halves of the backward
  double weight_ms = 0;            // of these, BackwardWeights; at most backward_ms
  std::uint32_t weight_parts = 1;  // calls of BackwardWeights, 1 .. 1024
  // ||x - x of the visit before|| / ||x|| about the second visit, and by what it shrinks from one
  // visit to the next. Both 0 .. 1.
  double change = 0.1;
  double change_decay = 0.9;
};

// What making values cost, apart from the time that the stage pretends to compute. Thread: any.
struct SyntheticMeter {
  std::atomic<std::uint64_t> cpu_ns = 0;
};

// How a stage passes time; tests pass a fake one. `clock` outlives the stage.
struct SyntheticTime {
  const Clock* clock = &SystemClock();
  std::function<void(TimePoint)> sleep_until;  // null: the calling thread sleeps
};

// InvalidArgument for what is out of the ranges above.
Status CheckSyntheticOptions(const SyntheticOptions& options);

// Checks `options`. `spec` gives the shape only. The stage has no weights: it takes none in Load,
// and Save, Evaluate, Logits and LoadDirectory fail. `meter` may be null.
Result<std::unique_ptr<StageModel>> NewSyntheticStage(const ModelSpec& spec,
                                                      const StageOptions& stage,
                                                      const SyntheticOptions& options,
                                                      std::shared_ptr<SyntheticMeter> meter,
                                                      SyntheticTime time = {});

}  // namespace shoal::model

#endif  // SHOAL_MODEL_SYNTHETIC_STAGE_H_
