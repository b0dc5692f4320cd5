// Learning rate of a step: linear warm-up, then constant, linear or cosine decay. Pure.

#ifndef SHOAL_MODEL_LEARNING_RATE_H_
#define SHOAL_MODEL_LEARNING_RATE_H_

#include <cstdint>
#include <string_view>

#include "common/status.h"

namespace shoal::model {

enum class LearningRateDecay { kConstant, kLinear, kCosine };

// "constant", "linear" or "cosine".
Result<LearningRateDecay> ParseLearningRateDecay(std::string_view text);

struct LearningRateSchedule {
  double peak = 5e-5;
  std::uint64_t warmup_steps = 0;  // step 0 has peak / warmup_steps, step warmup_steps - 1 the peak
  std::uint64_t total_steps = 0;   // the decay ends here; 0: constant after warm-up
  LearningRateDecay decay = LearningRateDecay::kLinear;
  double final_fraction = 0;  // of the peak, at and after total_steps
};

// `step` counts from 0.
double LearningRateAt(const LearningRateSchedule& schedule, std::uint64_t step);

}  // namespace shoal::model

#endif  // SHOAL_MODEL_LEARNING_RATE_H_
