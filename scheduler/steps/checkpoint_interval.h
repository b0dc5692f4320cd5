// CheckpointInterval: how many steps lie between checkpoints where the run file leaves that open,
// from what one costs and how often steps were lost. Thread: one at a time.

#ifndef SHOAL_SCHEDULER_STEPS_CHECKPOINT_INTERVAL_H_
#define SHOAL_SCHEDULER_STEPS_CHECKPOINT_INTERVAL_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "common/clock.h"

namespace shoal::scheduler {

// Seconds of work between two checkpoints that lose least time, where each costs `cost` and losses
// come at random, `between` apart on average; both above 0. Daly, A higher order estimate of the
// optimum checkpoint interval for restart dumps (2006), equation 37. Pure.
double OptimalInterval(double cost_s, double between_s);

class CheckpointInterval {
 public:
  // Before the first checkpoint tells what one costs.
  static constexpr std::uint64_t kFirstSteps = 10;
  // A checkpoint is on its way for at most this share of the time, whatever the optimum is: so much
  // of a line's upload, and of a disk's life, is theirs.
  static constexpr double kShareMax = 0.5;
  // Even where they cost nothing: for the disks.
  static constexpr double kSecondsMin = 10;
  // How often steps are lost is measured; in the beginning as if one time this long lay behind.
  static constexpr double kAssumedSeconds = 3600;

  // A step took so long, while a checkpoint was on its way or not.
  void AddStep(Duration step, bool saving);
  // A checkpoint was asked for, and one became whole, or everything under way ended without.
  void Begin(TimePoint now);
  void End(TimePoint now);
  void Drop();
  // Steps take another time from now on, by another plan; as long as before until one is known.
  void ForgetSteps();

  // What the run went through, in steps: all that were applied, also those that were lost, and how
  // often some were.
  struct Losses {
    std::uint64_t steps = 0, times = 0;
  };
  // At least 1.
  std::uint64_t Steps(const Losses& losses) const;

 private:
  double UsualSeconds() const;  // of a step while nothing is saved; 0: not known

  double before_s_ = 0;                   // of a usual step of the plan before
  std::deque<double> usual_;              // seconds of the newest such steps
  std::optional<TimePoint> begun_;        // of the oldest under way
  double slower_s_ = 0;                   // what steps took longer since
  std::optional<double> cost_s_, way_s_;  // of a checkpoint, recent averages
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STEPS_CHECKPOINT_INTERVAL_H_
