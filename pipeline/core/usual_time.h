// UsualTime: how long something usually takes, and after how long it takes too long.
//
// Times have long tails upwards, so their logarithms are taken for normally distributed: the
// deadline is kDeviations above their mean. It is never less than three times the longest time so
// far, and never more than ten times that: what hangs is found within a bound that people can see.
// New times count 1/256 at least, so that the deadline follows a machine that changes. Pure.
// Thread: one at a time.

#ifndef SHOAL_PIPELINE_CORE_USUAL_TIME_H_
#define SHOAL_PIPELINE_CORE_USUAL_TIME_H_

#include <cstdint>
#include <optional>

#include "common/clock.h"

namespace shoal::pipeline {

class UsualTime {
 public:
  static constexpr std::uint32_t kTimesMin = 32;  // before that there is no deadline
  static constexpr double kDeviations = 7;
  static constexpr double kLongestMin = 3, kLongestMax = 10;  // times the longest so far

  void Add(Duration time);
  // At least `least`. Nothing: too few times are known.
  std::optional<Duration> Deadline(Duration least) const;
  // Their geometric mean, and the longest so far.
  Duration typical() const;
  Duration longest() const { return longest_; }

 private:
  std::uint32_t count_ = 0;         // up to kForget
  double mean_ = 0, variance_ = 0;  // of logarithms of nanoseconds
  Duration longest_{};
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_USUAL_TIME_H_
