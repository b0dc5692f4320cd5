// ActivityTimes: where a stage's time goes. The compute thread does one thing at a time, or waits
// for one thing. The account has no gaps: its parts add up to the time since the links opened. What
// happens beside it (coding, sending, reading m) is no part of it unless compute waits for it.

#ifndef SHOAL_PIPELINE_CORE_ACTIVITY_H_
#define SHOAL_PIPELINE_CORE_ACTIVITY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/clock.h"

namespace shoal::pipeline {

enum class Activity : std::uint8_t {
  kForward,
  kBackwardInput,
  kBackwardWeights,
  kOptimizer,     // the update of the weights
  kWaitInput,     // an activation of the previous stage has not arrived
  kWaitGradient,  // a gradient of the next stage has not arrived
  kCodec,         // what is awaited has arrived and is being decoded
  kStore,         // what is awaited has arrived, but its m is not read yet
  kExchange,      // sums over the stage group and shared tensors, and what owners make of them
  kStep,          // the others' end of the step, and the scheduler's word
};
inline constexpr std::size_t kActivities = 10;

// As in the status and as label in the metrics: "forward", "wait_input", ...
std::string_view ActivityName(Activity activity);

// Milliseconds by activity.
struct ActivityTimes {
  std::array<double, kActivities> ms{};

  double& operator[](Activity activity) { return ms[static_cast<std::size_t>(activity)]; }
  double operator[](Activity activity) const { return ms[static_cast<std::size_t>(activity)]; }
};

// Thread: one at a time.
class ActivityAccount {
 public:
  explicit ActivityAccount(const Clock* clock) : clock_(clock) {}

  // From now on the time counts as `activity`. The first call opens the account.
  void Become(Activity activity);
  // What comes now does not count.
  void Close();
  // Up to now.
  ActivityTimes used() const;

 private:
  const Clock* const clock_;
  ActivityTimes used_;
  Activity activity_ = Activity::kStep;
  TimePoint since_{};
  bool open_ = false;
};

}  // namespace shoal::pipeline

#endif  // SHOAL_PIPELINE_CORE_ACTIVITY_H_
