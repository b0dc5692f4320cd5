#include "replica/collective/contribution_check.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string>

namespace shoal::collective {

double Norm(std::span<const float> values) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (; i < values.size(); ++i) lanes[0] += static_cast<double>(values[i]) * values[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return std::sqrt(sum);
}

double LargestNorm::Add(double norm) {
  double largest = largest_.load();
  while (std::isfinite(norm) && norm > largest && !largest_.compare_exchange_weak(largest, norm)) {
  }
  return largest_.load();
}

Status ContributionCheck::Check(double before, double after, double factor) const {
  if (!std::isfinite(before)) return Status::Ok();  // by another one
  if (!std::isfinite(after)) return InvalidArgument("its gradient has a value that is not finite");
  // By the triangle inequality it is at least that large.
  const double least = std::abs(after - before) / factor;
  std::call_once(once_, [this] { largest_ = norms_->Add(Norm(own_->floats())); });
  if (largest_ == 0 || least <= kContributionMost * largest_) return Status::Ok();
  char times[32];
  std::snprintf(times, sizeof times, "%.2g", least / largest_);
  return InvalidArgument("the norm of its gradient is at least " + std::string(times) +
                         " times that of the largest here");
}

}  // namespace shoal::collective
