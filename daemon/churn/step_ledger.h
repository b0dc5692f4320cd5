// StepLedger: that each sample of an epoch is trained once, whatever comes between: what each step
// may hold is computed again by the sampler, apart from the scheduler's. Thread: one.

#ifndef SHOAL_DAEMON_CHURN_STEP_LEDGER_H_
#define SHOAL_DAEMON_CHURN_STEP_LEDGER_H_

#include <cstdint>
#include <vector>

#include "common/status.h"
#include "dataset/sampler.h"
#include "proto/control.pb.h"

namespace shoal::daemon {

class StepLedger {
 public:
  static Result<StepLedger> Make(const dataset::SamplerOptions& options);

  std::uint64_t steps() const { return steps_; }
  // The step is applied, of this plan. Error: it does not follow, or samples are missing, not the
  // step's, or trained in this epoch before.
  Status Applied(const control::v1::StepPlan& plan);
  // Steps from `step` on never were.
  void BackTo(std::uint64_t step);

 private:
  StepLedger(dataset::Sampler sampler, std::uint64_t rows);

  dataset::Sampler sampler_;
  std::uint64_t steps_ = 0;
  std::vector<std::uint32_t> epochs_;  // by sample: in how many it was trained, at most
};

}  // namespace shoal::daemon

#endif  // SHOAL_DAEMON_CHURN_STEP_LEDGER_H_
