// AppliedChecks: what members report once a step is applied must be equal: m on both ends of a
// boundary, and the weights of a stage group. Whose weights differ takes the majority's.
// Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_APPLIED_CHECKS_H_
#define SHOAL_SCHEDULER_SWARM_APPLIED_CHECKS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "common/status.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/steps/consistency.h"
#include "scheduler/swarm/checkpoint_uploads.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/member_faults.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/swarm_plan.h"

namespace shoal::scheduler {

class AppliedChecks {
 public:
  // All outlive it.
  AppliedChecks(const RunConfig& config, const SwarmPlan& plan, const RunHistory& history,
                Lifecycle* lifecycle, CheckpointUploads* uploads, MemberFaults* faults);

  void BeginGeneration();
  // Members at these positions have left the plan: their weights are not compared any more.
  void Lose(const std::set<Position>& lost);
  // A report of a member of the plan, while the run trains. Invalid argument: the report is of a
  // boundary that the member does not have.
  Status OnApplied(const Member& member, const control::v1::Applied& applied);
  // The organiser ordered to resume: earlier repairs of a peer do not count any more.
  void Forgive() { repairs_.clear(); }

  const ConsistencyChecks& counts() const { return consistency_; }
  // Whose weights differed last and what was done, for people; empty: nobody's.
  const std::string& last_difference() const { return last_difference_; }

 private:
  void OnWeightsDiffer(std::uint64_t step, std::uint32_t stage, const WeightVerdict& verdict);
  // The most that any of those was repaired, if it is to be now.
  std::uint32_t CountRepairs(std::uint32_t stage, const WeightVerdict& verdict);
  // Faults of all of them; says who is in quarantine for that, if anybody is.
  std::string AddFaults(std::uint32_t stage, const WeightVerdict& verdict,
                        const std::string& cause);

  const RunConfig& config_;
  const SwarmPlan& plan_;
  const RunHistory& history_;
  Lifecycle& lifecycle_;
  CheckpointUploads& uploads_;
  MemberFaults& faults_;
  ConsistencyChecks consistency_;
  std::string last_difference_;
  std::set<PeerId> repairing_;               // take the majority's weights with the next plan
  std::map<PeerId, std::uint32_t> repairs_;  // how often a peer did
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_APPLIED_CHECKS_H_
