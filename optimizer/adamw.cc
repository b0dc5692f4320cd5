#include "optimizer/adamw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "common/status.h"

namespace shoal::optimizer {

AdamWStep MakeAdamWStep(const AdamWOptions& options) {
  const double count = static_cast<double>(options.step) + 1;
  AdamWStep step;
  step.gradient_factor = static_cast<float>(options.gradient_factor);
  step.decay = static_cast<float>(1 - options.learning_rate * options.weight_decay);
  step.beta1 = static_cast<float>(options.beta1);
  step.one_minus_beta1 = static_cast<float>(1 - options.beta1);
  step.beta2 = static_cast<float>(options.beta2);
  step.one_minus_beta2 = static_cast<float>(1 - options.beta2);
  step.inverse_root_correction2 =
      static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, count)));
  step.epsilon = static_cast<float>(options.epsilon);
  step.step_size = static_cast<float>(options.learning_rate / (1 - std::pow(options.beta1, count)));
  return step;
}

void AdamWUpdate(const AdamWStep& step, std::span<const float> gradient, std::span<float> value,
                 std::span<float> exp_avg, std::span<float> exp_avg_sq) {
  SHOAL_CHECK(gradient.size() == value.size() && exp_avg.size() == value.size() &&
              exp_avg_sq.size() == value.size());
  const AdamWStep s = step;
  const float* __restrict__ gradients = gradient.data();
  float* __restrict__ values = value.data();
  float* __restrict__ first = exp_avg.data();
  float* __restrict__ second = exp_avg_sq.data();
  const std::size_t count = value.size();
  for (std::size_t i = 0; i < count; ++i) {
    const float g = gradients[i] * s.gradient_factor;
    const float m = first[i] * s.beta1 + g * s.one_minus_beta1;
    const float v = second[i] * s.beta2 + g * g * s.one_minus_beta2;
    const float denominator = std::sqrt(v) * s.inverse_root_correction2 + s.epsilon;
    first[i] = m;
    second[i] = v;
    values[i] = values[i] * s.decay - m / denominator * s.step_size;
  }
}

namespace {

// Steps between two updates of the variance, from the n-th one after the start on.
std::uint64_t RefreshInterval(std::uint64_t updates) {
  constexpr std::uint64_t kPerInterval = 16, kDoublingsMax = 32;
  return std::uint64_t{1} << std::min(updates / kPerInterval, kDoublingsMax);
}

}  // namespace

bool UpdatesVariance(const VarianceSchedule& schedule, std::uint64_t step) {
  if (step < schedule.start) return true;
  return VarianceUpdates(schedule, step) > VarianceUpdates(schedule, step - 1);
}

std::uint64_t VarianceUpdates(const VarianceSchedule& schedule, std::uint64_t step) {
  if (step < schedule.start) return step + 1;
  if (!schedule.refresh) return schedule.start;
  std::uint64_t updates = 0;
  for (std::uint64_t at = schedule.start - 1 + RefreshInterval(0); at <= step;
       at += RefreshInterval(updates)) {
    ++updates;
  }
  return schedule.start + updates;
}

AdamWStep MakeFrozenStep(const AdamWOptions& options, std::uint64_t updates) {
  SHOAL_CHECK(updates > 0);
  AdamWStep step = MakeAdamWStep(options);
  AdamWOptions frozen = options;
  frozen.step = updates - 1;
  step.inverse_root_correction2 = MakeAdamWStep(frozen).inverse_root_correction2;
  return step;
}

void FoldMomentum(const AdamWStep& step, std::span<const float> gradient,
                  std::span<float> exp_avg) {
  SHOAL_CHECK(gradient.size() == exp_avg.size());
  const AdamWStep s = step;
  const float* __restrict__ gradients = gradient.data();
  float* __restrict__ first = exp_avg.data();
  const std::size_t count = exp_avg.size();
  for (std::size_t i = 0; i < count; ++i) {
    const float g = gradients[i] * s.gradient_factor;
    first[i] = first[i] * s.beta1 + g * s.one_minus_beta1;
  }
}

void ScaleFold(const AdamWStep& step, float factor, std::span<const float> exp_avg,
               std::span<float> agreed) {
  SHOAL_CHECK(exp_avg.size() == agreed.size());
  const float beta1 = step.beta1;
  const float* __restrict__ before = exp_avg.data();
  float* __restrict__ values = agreed.data();
  const std::size_t count = agreed.size();
  for (std::size_t i = 0; i < count; ++i) {
    const float kept = before[i] * beta1;
    values[i] = kept + (values[i] - kept) * factor;
  }
}

namespace {

float BoundedDirection(const AdamWStep& step, float most, float exp_avg, float exp_avg_sq) {
  const float denominator = std::sqrt(exp_avg_sq) * step.inverse_root_correction2 + step.epsilon;
  const float ratio = std::min(std::max(exp_avg / denominator, -most), most);
  return exp_avg_sq > 0 ? ratio : 0.0f;
}

// How far Adam's own m / sqrt(v) gets: the first case is that of a single gradient after zeros, the
// second that of equal gradients.
float DirectionMost(const AdamWStep& step) {
  return std::max(1.0F, step.one_minus_beta1 / std::sqrt(step.one_minus_beta2));
}

}  // namespace

void FrozenUpdate(const AdamWStep& step, std::span<const float> exp_avg,
                  std::span<const float> exp_avg_sq, std::span<float> value) {
  SHOAL_CHECK(exp_avg.size() == value.size() && exp_avg_sq.size() == value.size());
  const AdamWStep s = step;
  const float* __restrict__ first = exp_avg.data();
  const float* __restrict__ second = exp_avg_sq.data();
  float* __restrict__ values = value.data();
  const std::size_t count = value.size();
  const float most = DirectionMost(s);
  for (std::size_t i = 0; i < count; ++i) {
    const float direction = BoundedDirection(s, most, first[i], second[i]);
    values[i] = values[i] * s.decay - direction * s.step_size;
  }
}

void AdamDirection(const AdamWStep& step, std::span<const float> exp_avg,
                   std::span<const float> exp_avg_sq, std::span<float> direction, float times) {
  SHOAL_CHECK(exp_avg.size() == direction.size() && exp_avg_sq.size() == direction.size());
  const AdamWStep s = step;
  const float* __restrict__ first = exp_avg.data();
  const float* __restrict__ second = exp_avg_sq.data();
  float* __restrict__ directions = direction.data();
  const std::size_t count = direction.size();
  const float most = DirectionMost(s) * times;
  for (std::size_t i = 0; i < count; ++i) {
    directions[i] = BoundedDirection(s, most, first[i], second[i]);
  }
}

double ClipFactor(double clip_norm, double global_norm) {
  if (clip_norm <= 0) return 1;
  return std::fmin(1.0, clip_norm / (global_norm + 1e-6));
}

double SumOfSquares(std::span<const float> values) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (; i < values.size(); ++i) {
    const double value = values[i];
    lanes[i % kLanes] += value * value;
  }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

}  // namespace shoal::optimizer
