#include "replica/collective/contribution_check.h"

#include <cmath>
#include <cstdio>
#include <string>

#include "compression/simd/dither_kernels.h"

namespace shoal::collective {
namespace {

// 0 compares with nothing.
bool Fits(double norm, double usual, double most) { return usual == 0 || norm <= most * usual; }

Status CheckNorm(const char* what, double norm, double usual, double most) {
  if (!std::isfinite(norm)) {
    return InvalidArgument(std::string(what) + " has a value that is not finite");
  }
  if (Fits(norm, usual, most)) return Status::Ok();
  char times[32];
  std::snprintf(times, sizeof times, "%.2g", norm / usual);
  return InvalidArgument("the norm of " + std::string(what) + " is " + times +
                         " times that of usual gradients here");
}

}  // namespace

Status CheckContribution(double norm, double usual) {
  return CheckNorm("its gradient", norm, usual, kContributionMost);
}

double HostNorm(std::span<const float> values) {
  return std::sqrt(compression::SumOfSquares(values.data(), values.size()));
}

double LargestNorm::Add(double norm) {
  double largest = largest_.load();
  while (std::isfinite(norm) && norm > largest && !largest_.compare_exchange_weak(largest, norm)) {
  }
  return largest_.load();
}

Result<double> ContributionCheck::Norm(std::span<const float> values) const {
  SHOAL_ASSIGN_OR_RETURN(const double squares, home_->SumOfSquares(values));
  return std::sqrt(squares);
}

Result<double> ContributionCheck::LargestFor(double norm, double most) const {
  const double known = norms_->largest();
  if (known > 0 && norm <= most * known) return known;
  std::call_once(once_, [this] { own_norm_ = Norm(own_->floats()); });
  SHOAL_RETURN_IF_ERROR(own_norm_.status());
  return norms_->Add(*own_norm_);
}

Status ContributionCheck::Answer(std::span<const float> sum) const {
  SHOAL_ASSIGN_OR_RETURN(const double norm, Norm(sum));
  SHOAL_ASSIGN_OR_RETURN(const double largest, LargestFor(norm, kAnswerMost));
  return CheckNorm("its sum", norm, largest, kAnswerMost);
}

Result<bool> ContributionCheck::MayAdd(std::span<const float> errors) const {
  SHOAL_ASSIGN_OR_RETURN(const double norm, Norm(errors));
  SHOAL_ASSIGN_OR_RETURN(const double largest, LargestFor(norm, kErrorMost));
  return norm == 0 || (largest > 0 && norm <= kErrorMost * largest);
}

}  // namespace shoal::collective
