#include "replica/collective/contribution_check.h"

#include <cmath>
#include <cstdio>
#include <string>

#include "compression/simd/dither_kernels.h"

namespace shoal::collective {

double Norm(std::span<const float> values) {
  return std::sqrt(compression::SumOfSquares(values.data(), values.size()));
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
