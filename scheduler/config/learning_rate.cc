#include <cmath>
#include <numbers>

#include "scheduler/config/run_config.h"

namespace shoal::scheduler {

double LearningRate(const RunConfig& config, std::uint64_t step) {
  const double base = config.learning_rate;
  if (step < config.warmup_steps) {
    // The first step already learns: (step + 1) / warmup, reaching the full rate at the end.
    return base * static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps);
  }
  if (config.decay == "none" || config.steps <= config.warmup_steps) return base;
  if (step >= config.steps) return 0;
  const double done = static_cast<double>(step - config.warmup_steps) /
                      static_cast<double>(config.steps - config.warmup_steps);
  if (config.decay == "cosine") return base * 0.5 * (1 + std::cos(std::numbers::pi * done));
  return base * (1 - done);
}

}  // namespace shoal::scheduler
