#include "model/learning_rate.h"

#include <cmath>
#include <numbers>
#include <string>

namespace shoal::model {

Result<LearningRateDecay> ParseLearningRateDecay(std::string_view text) {
  if (text == "constant") return LearningRateDecay::kConstant;
  if (text == "linear") return LearningRateDecay::kLinear;
  if (text == "cosine") return LearningRateDecay::kCosine;
  return InvalidArgument("unknown learning rate decay '" + std::string(text) +
                         "': use constant, linear or cosine");
}

double LearningRateAt(const LearningRateSchedule& schedule, std::uint64_t step) {
  if (step < schedule.warmup_steps) {
    return schedule.peak * static_cast<double>(step + 1) /
           static_cast<double>(schedule.warmup_steps);
  }
  if (schedule.decay == LearningRateDecay::kConstant || schedule.total_steps == 0) {
    return schedule.peak;
  }
  const double floor = schedule.peak * schedule.final_fraction;
  if (step >= schedule.total_steps) return floor;
  const double progress = static_cast<double>(step - schedule.warmup_steps) /
                          static_cast<double>(schedule.total_steps - schedule.warmup_steps);
  const double weight = schedule.decay == LearningRateDecay::kLinear
                            ? 1 - progress
                            : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return floor + (schedule.peak - floor) * weight;
}

}  // namespace shoal::model
