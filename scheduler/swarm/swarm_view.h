// SwarmView: what a run shows of itself: its reason in words, and everything for the status. Reads
// only. Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_SWARM_VIEW_H_
#define SHOAL_SCHEDULER_SWARM_SWARM_VIEW_H_

#include <string>

#include "common/clock.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/history/run_history.h"
#include "scheduler/swarm/applied_checks.h"
#include "scheduler/swarm/checkpoint_uploads.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/member_faults.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/newcomers.h"
#include "scheduler/swarm/swarm_artefacts.h"
#include "scheduler/swarm/swarm_plan.h"
#include "scheduler/swarm/swarm_state.h"
#include "scheduler/swarm/training_steps.h"

namespace shoal::scheduler {

class SwarmView {
 public:
  // What it reads; all outlive it.
  struct Parts {
    const RunConfig& config;
    const RunHistory& history;
    const Members& members;
    const SwarmPlan& plan;
    const Lifecycle& lifecycle;
    const Newcomers& newcomers;
    const MemberFaults& faults;
    const SwarmArtefacts& artefacts;
    const CheckpointUploads& uploads;
    const AppliedChecks& applied;
    const SpotChecks& spots;
    const TrainingSteps& steps;
  };
  explicit SwarmView(const Parts& parts) : of_(parts) {}

  // Why the run is in its state; names peer and stage.
  std::string Reason() const;
  // What peers are told of the run.
  control::v1::RunStatus Message() const;
  // What the status endpoint shows.
  RunView At(TimePoint now) const;

 private:
  std::string WaitingFor() const;
  std::string TrainingReason() const;
  std::string RepairText() const;
  std::string Warning() const;

  const Parts of_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_SWARM_VIEW_H_
