#include "replica/collective/contribution_check.h"

#include <cmath>
#include <cstdio>
#include <string>

#include "compression/simd/dither_kernels.h"

namespace shoal::collective {
namespace {

Status CheckSize(const char* what, double norm, double largest, double most) {
  if (largest == 0 || norm <= most * largest) return Status::Ok();
  char times[32];
  std::snprintf(times, sizeof times, "%.2g", norm / largest);
  return InvalidArgument("the norm of " + std::string(what) + " is at least " + times +
                         " times that of the largest gradient here");
}

Status NotFinite(const char* what) {
  return InvalidArgument(std::string(what) + " has a value that is not finite");
}

}  // namespace

double HostNorm(std::span<const float> values) {
  return std::sqrt(compression::SumOfSquares(values.data(), values.size()));
}

double LargestNorm::Add(double norm) {
  double largest = largest_.load();
  while (std::isfinite(norm) && norm > largest && !largest_.compare_exchange_weak(largest, norm)) {
  }
  return largest_.load();
}

Status LargestNorm::Compare(double norm) const {
  return CheckSize("its gradient", norm, largest(), kContributionMost);
}

Result<double> ContributionCheck::Norm(std::span<const float> values) const {
  SHOAL_ASSIGN_OR_RETURN(const double squares, home_->SumOfSquares(values));
  return std::sqrt(squares);
}

Status ContributionCheck::CheckSize(const char* what, double norm, double most) const {
  const double known = norms_->largest();
  if (known > 0 && norm <= most * known) return Status::Ok();
  std::call_once(once_, [this] { own_norm_ = Norm(own_->floats()); });
  SHOAL_RETURN_IF_ERROR(own_norm_.status());
  return collective::CheckSize(what, norm, norms_->Add(*own_norm_), most);
}

Status ContributionCheck::Contribution(double before, double after, double factor) const {
  if (!std::isfinite(before)) return Status::Ok();  // by another one
  if (!std::isfinite(after)) return NotFinite("its gradient");
  // By the triangle inequality it is at least that large.
  return CheckSize("its gradient", std::abs(after - before) / factor, kContributionMost);
}

Status ContributionCheck::Answer(std::span<const float> sum) const {
  SHOAL_ASSIGN_OR_RETURN(const double norm, Norm(sum));
  if (!std::isfinite(norm)) return NotFinite("its sum");
  return CheckSize("its sum", norm, kAnswerMost);
}

}  // namespace shoal::collective
