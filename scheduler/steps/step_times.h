// StepTimes: how long the steps of a generation take. Thread: one at a time.

#ifndef SHOAL_SCHEDULER_STEPS_STEP_TIMES_H_
#define SHOAL_SCHEDULER_STEPS_STEP_TIMES_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "common/clock.h"

namespace shoal::scheduler {

class StepTimes {
 public:
  static constexpr std::size_t kKept = 16;  // steps

  // A step took so long, of which `control` went by between the peers' last word and the answer.
  void Add(Duration step, Duration control);
  // All members were ready with a step, of which a pipeline had so many micro-batches at most.
  void AddReady(Duration elapsed, std::uint32_t micro_batches);
  // A generation has ended. The share of control stays on show.
  void Reset();

  double seconds() const { return seconds_; }  // a step, recent average; 0: not known
  // Of a pipeline, for each micro-batch of a step, recent average, of all generations; 0: not
  // known.
  double micro_batch_seconds() const { return micro_batch_seconds_; }
  double control_seconds() const { return control_seconds_; }                // of the last step
  std::vector<double> last() const { return {last_.begin(), last_.end()}; }  // the newest last

 private:
  double seconds_ = 0, control_seconds_ = 0, micro_batch_seconds_ = 0;
  std::deque<double> last_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_STEPS_STEP_TIMES_H_
