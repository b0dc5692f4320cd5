// Plausibility: whether norms and losses that peers report fit what the run saw before.
//
// Honest training must not trigger it. It judges nothing in the first 32 steps and keeps the last
// 64. It complains only where a value exceeds their median both by a large factor and by ten median
// absolute deviations of the logarithms. Pure; thread: control.

#ifndef SHOAL_SCHEDULER_STEPS_PLAUSIBILITY_H_
#define SHOAL_SCHEDULER_STEPS_PLAUSIBILITY_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace shoal::scheduler {

inline constexpr std::size_t kHistoryKept = 64;
inline constexpr std::size_t kHistoryArmed = 32;
inline constexpr double kDeviationsMax = 10;    // median absolute deviations, as of a normal spread
inline constexpr double kNormFactorMax = 1e4;   // times the median norm
inline constexpr double kLossFactorMax = 10;    // times the median of losses + kLossShift
inline constexpr double kLossShift = 4;         // nats: a loss near 0 may rise to what is usual
inline constexpr double kLossMax = 100;         // nats a label
inline constexpr double kLossBelowZero = 1e-3;  // nats a label, by rounding
inline constexpr std::size_t kFlatSteps = 400;  // whose second half is no better than the first

// The last values of one kind, all above 0.
class RobustHistory {
 public:
  void Add(double value);
  // How many times the median this is, if it is too much.
  std::optional<double> Excess(double value, double factor_max) const;

 private:
  std::deque<double> logs_;
};

class Plausibility {
 public:
  explicit Plausibility(std::uint32_t stages) : norms_(2 * std::size_t{stages}) {}

  // `sync`: whether the step exchanges between pipelines, which changes what a norm is of.
  void AddNorm(std::uint32_t stage, bool sync, double squared_norm);
  std::optional<double> NormExcess(std::uint32_t stage, bool sync, double squared_norm) const;

  // The run's loss of a step.
  void AddLoss(double loss) { losses_.Add(loss + kLossShift); }
  // `others`: of the other pipelines at the same step; what they share is no fault of one.
  bool LossFits(double loss, std::vector<double> others) const;

  // What was refused last, and how much.
  void Refused(const std::string& what);
  std::uint64_t refused() const { return refused_; }
  const std::string& last_refused() const { return last_refused_; }

 private:
  std::vector<RobustHistory> norms_;  // by stage, then sync
  RobustHistory losses_;
  std::uint64_t refused_ = 0;
  std::string last_refused_;
};

// A warning if the loss has not fallen over the last kFlatSteps steps; else "".
std::string FlatLossText(const std::vector<double>& losses);

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STEPS_PLAUSIBILITY_H_
