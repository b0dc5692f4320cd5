// StepTimes: how long the steps of a generation take. Thread: one at a time.

#ifndef SHOAL_SCHEDULER_STEPS_STEP_TIMES_H_
#define SHOAL_SCHEDULER_STEPS_STEP_TIMES_H_

#include <deque>
#include <vector>

#include "common/clock.h"

namespace shoal::scheduler {

class StepTimes {
 public:
  static constexpr std::size_t kKept = 16;  // steps

  // A step took so long, of which `control` went by between the peers' last word and the answer.
  void Add(Duration step, Duration control);
  // A generation has ended. The share of control stays on show.
  void Reset();

  double seconds() const { return seconds_; }  // a step, recent average; 0: not known
  double control_seconds() const { return control_seconds_; }                // of the last step
  std::vector<double> last() const { return {last_.begin(), last_.end()}; }  // the newest last

 private:
  double seconds_ = 0, control_seconds_ = 0;
  std::deque<double> last_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STEPS_STEP_TIMES_H_
