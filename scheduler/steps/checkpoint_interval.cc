#include "scheduler/steps/checkpoint_interval.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace shoal::scheduler {
namespace {

constexpr std::size_t kUsualKept = 32;
// Of a checkpoint: steps vary by more than a small cost, which is then not to be seen.
constexpr double kCostOfStepsMin = 0.05;
constexpr double kNewest = 0.5;  // its weight in an average

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

void Average(double value, std::optional<double>* average) {
  *average = *average ? (1 - kNewest) * **average + kNewest * value : value;
}

}  // namespace

double OptimalInterval(double cost_s, double between_s) {
  if (cost_s >= 2 * between_s) return between_s;
  const double ratio = cost_s / (2 * between_s);
  return std::sqrt(2 * cost_s * between_s) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost_s;
}

void CheckpointInterval::AddStep(Duration step, bool saving) {
  const double seconds = Seconds(step);
  if (!saving) {
    usual_.push_back(seconds);
    if (usual_.size() > kUsualKept) usual_.pop_front();
  } else if (const double usual = UsualSeconds(); usual > 0) {
    slower_s_ += seconds - usual;
  }
}

void CheckpointInterval::Begin(TimePoint now) {
  if (begun_) return;
  begun_ = now;
  slower_s_ = 0;
}

void CheckpointInterval::End(TimePoint now) {
  if (!begun_) return;
  Average(std::max(0.0, slower_s_), &cost_s_);
  Average(std::max(0.0, Seconds(now - *begun_)), &way_s_);
  begun_.reset();
}

void CheckpointInterval::Drop() { begun_.reset(); }

void CheckpointInterval::ForgetSteps() {
  before_s_ = UsualSeconds();
  usual_.clear();
}

std::uint64_t CheckpointInterval::Steps(const Losses& losses) const {
  const double step_s = UsualSeconds();
  if (!cost_s_ || step_s <= 0) return kFirstSteps;
  const double trained_s = static_cast<double>(losses.steps) * step_s + kAssumedSeconds;
  const double between_s = trained_s / static_cast<double>(losses.times + 1);
  const double cost_s = std::max(*cost_s_, kCostOfStepsMin * step_s);
  const double interval_s =
      std::max({OptimalInterval(cost_s, between_s), *way_s_ / kShareMax, kSecondsMin});
  constexpr double kStepsMax = 1e9;
  return static_cast<std::uint64_t>(std::clamp(std::round(interval_s / step_s), 1.0, kStepsMax));
}

double CheckpointInterval::UsualSeconds() const {
  if (usual_.empty()) return before_s_;
  std::vector<double> sorted(usual_.begin(), usual_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

}  // namespace shoal::scheduler
