// ReportedValues: whether losses and gradient norms that members report can be, and fit what the
// run saw before. Pure; thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_REPORTED_VALUES_H_
#define SHOAL_SCHEDULER_SWARM_REPORTED_VALUES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/steps/plausibility.h"
#include "scheduler/steps/step_account.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/swarm_plan.h"

namespace shoal::scheduler {

// A value that cannot be, or does not fit.
struct Misfit {
  const Member* member = nullptr;  // to replace; null: one of several
  std::string cause;
};

class ReportedValues {
 public:
  // Both outlive it.
  ReportedValues(const RunConfig& config, const SwarmPlan& plan);

  // ---- nothing: it fits
  // The loss that a member of the last stage reports, if it is finite.
  std::optional<Misfit> Loss(const Member& member, const control::v1::StepReady& ready) const;
  // The losses of all pipelines, side by side; at least one is finite.
  std::optional<Misfit> Losses(const StepAccount& account) const;
  // The norms of each stage group, which has exchanged its gradients. `sync`: whether the step
  // exchanges between pipelines, which changes what a norm is of.
  std::optional<Misfit> Norms(const StepAccount& account, bool sync) const;

  // A step is applied: what is usual.
  void AddStep(const StepAccount& account, bool sync, double loss);
  void Refused(const std::string& cause) { plausibility_.Refused(cause); }
  std::uint64_t refused() const { return plausibility_.refused(); }
  const std::string& last_refused() const { return plausibility_.last_refused(); }

 private:
  std::optional<Misfit> UnusualNorm(const StepAccount& account, bool sync) const;

  const RunConfig& config_;
  const SwarmPlan& plan_;
  Plausibility plausibility_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_REPORTED_VALUES_H_
