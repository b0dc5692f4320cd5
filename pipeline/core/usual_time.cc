#include "pipeline/core/usual_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shoal::pipeline {
namespace {

constexpr std::uint32_t kForget = 256;

Duration FromNanoseconds(double ns) {
  constexpr double kMost = static_cast<double>(std::numeric_limits<std::int64_t>::max()) / 2;
  return Duration(static_cast<std::int64_t>(std::min(ns, kMost)));
}

}  // namespace

void UsualTime::Add(Duration time) {
  const double value = std::log(static_cast<double>(std::max<std::int64_t>(time.count(), 1)));
  count_ = std::min(count_ + 1, kForget);
  const double weight = 1.0 / count_;
  const double off = value - mean_;
  mean_ += weight * off;
  variance_ = (1 - weight) * (variance_ + weight * off * off);
  longest_ = std::max(longest_, time);
}

std::optional<Duration> UsualTime::Deadline(Duration least) const {
  if (count_ < kTimesMin) return std::nullopt;
  const double longest = static_cast<double>(longest_.count());
  const double usual = std::exp(mean_ + kDeviations * std::sqrt(variance_));
  const double deadline = std::clamp(usual, kLongestMin * longest, kLongestMax * longest);
  return std::max(least, FromNanoseconds(deadline));
}

Duration UsualTime::typical() const {
  return count_ == 0 ? Duration::zero() : FromNanoseconds(std::exp(mean_));
}

}  // namespace shoal::pipeline
