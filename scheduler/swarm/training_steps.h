// TrainingSteps: the steps of a generation: plans ahead, reports, Reduce and Apply.
// Thread: control.

#ifndef SHOAL_SCHEDULER_SWARM_TRAINING_STEPS_H_
#define SHOAL_SCHEDULER_SWARM_TRAINING_STEPS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dataset/sampler.h"
#include "proto/control.pb.h"
#include "scheduler/config/run_config.h"
#include "scheduler/plan/counting_pipelines.h"
#include "scheduler/steps/line_rates.h"
#include "scheduler/steps/lost_gradients.h"
#include "scheduler/steps/stage_choice.h"
#include "scheduler/steps/step_account.h"
#include "scheduler/steps/step_decision.h"
#include "scheduler/steps/step_times.h"
#include "scheduler/swarm/checkpoint_uploads.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/member_faults.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/reported_values.h"
#include "scheduler/swarm/run_journal.h"
#include "scheduler/swarm/spot_checks.h"
#include "scheduler/swarm/swarm_plan.h"

namespace shoal::scheduler {

class TrainingSteps {
 public:
  // All outlive it. A run whose samples cannot be drawn fails at once.
  TrainingSteps(const RunConfig& config, const SwarmPlan& plan, RunJournal* journal,
                Lifecycle* lifecycle, MemberFaults* faults, CheckpointUploads* uploads,
                SpotChecks* spots, Reaction* reaction);

  // Of the newest plan. What was measured in the generation before counts no more.
  void BeginGeneration();
  void EndGeneration() { times_.Reset(); }
  // All members are ready: the first step.
  void Begin();
  // Instead: the members are at work on a step, and have the plans of those before `planned`.
  // `told`: how some were ordered to reduce it; all are to, if what they report gives the same
  // order.
  void GoOn(std::uint64_t planned, std::optional<control::v1::Reduce> told);
  // Reports of a member of the plan.
  void OnReady(const Member& member, const control::v1::StepReady& ready);
  void OnSynced(const Member& member, const control::v1::SyncDone& done);
  // Lets the members exchange their gradients, once they all have them and nothing holds it up.
  void ReduceIfReady();

  // Whether the step in progress can go on while these pipelines only follow, and is worth that:
  // what the others have done of it would take longer to do again than to begin anew in place.
  bool MayGoOnWithout(const std::set<std::uint32_t>& pipelines) const;
  // Whether a step that begins anew with `more` pipelines ends sooner than the one in progress does
  // with `left` of them. False where nobody knows how long micro-batches take.
  bool EndsSoonerAnew(std::size_t left, std::size_t more) const;
  // Members at these positions have left the plan: pipelines that are whole do the part of theirs,
  // too, and all report once more. `cause`: for people.
  void GoOnWithout(const std::set<Position>& lost, const std::string& cause);
  // Whether pipelines do so only, and nobody's part in the exchange goes through their members.
  bool OnlyFollow(const std::set<std::uint32_t>& pipelines) const;
  // Instead, where their pipelines did before: nobody does anything again.
  void GoOnWithoutFollowers(const std::set<Position>& lost, const std::string& cause);

  // A shadow of the plan has come in step: its pipeline may count from the next step plan on.
  void OnInStep();
  // With any event. Whether a shadow is judged after the step in progress: the plan of the step
  // behind that waits for the verdict where it can.
  void HoldPlans(bool hold);
  // The members tell the checksums of their weights with the next step.
  void CheckWeights() { check_weights_ = true; }
  const CountingPipelines& counting() const { return counting_; }

  const StepTimes& times() const { return times_; }
  // What was ordered for the newest step; none in this life of the scheduler: that of no step.
  const std::optional<control::v1::Apply>& last_apply() const { return last_apply_; }
  // Of the newest step that was reduced, by stage.
  const std::vector<control::v1::StageTiming>& timings() const { return timings_; }
  const ReportedValues& values() const { return values_; }

 private:
  // Whether a report is of the step in progress.
  bool InProgress(std::uint64_t step) const;
  void BeginStep();
  // Whose norms are compared; empty: all.
  Pipelines Judged() const;
  // Those that are to be out by now.
  void SendStepPlans();
  void SendStepPlan(std::uint64_t step);
  control::v1::StepPlan PlanOf(std::uint64_t step) const;
  std::vector<LineRate> KnownLines() const;
  StepDecision Decide() const;
  control::v1::SchedulerMessage ReduceMessage();
  // All members are ready.
  void JudgeReady();
  void EndExchange();
  void FinishStep();
  void RecordHeldOut();
  void SendApply(double loss, double norm, std::uint64_t labels);
  void TellApplied(double loss, double norm);
  // A gradient of this member is not finite: nobody applies the step, if it counts.
  void NoteLost(const Member& member);
  void SkipStep(double loss);
  // A gradient is lost at one step too many in a row.
  void StopOnGradients();
  std::optional<Misfit> LostByFollower() const;
  // Whose gradient alone is lost again and again, while those of other pipelines are not.
  const Member* WhoLosesGradients() const;
  void HoldOnLoss(const Member& member);
  void Refuse(const Misfit& misfit);

  const RunConfig& config_;
  const SwarmPlan& plan_;
  RunJournal& journal_;
  const RunHistory& history_;
  Lifecycle& lifecycle_;
  MemberFaults& faults_;
  CheckpointUploads& uploads_;
  SpotChecks& spots_;
  Reaction& reaction_;
  const bool amends_;              // by replica method and codecs
  const bool judges_all_;          // norms of who only follows, too
  std::uint32_t local_steps_ = 0;  // between the plan's pipelines; 0: none
  std::optional<dataset::Sampler> sampler_;

  // Of the step in progress.
  StepAccount account_;
  CountingPipelines counting_;
  std::uint64_t planned_ = 0;  // steps whose plans are out
  bool check_weights_ = false;
  bool holds_plans_ = false;
  bool reduced_ = false;                     // its Reduce is out
  std::optional<control::v1::Reduce> told_;  // by the scheduler before this one
  StepDecision decision_;

  LostGradients lost_;
  std::optional<PeerId> lost_follower_;  // of the step in progress
  StageChoice stage_choice_;
  LineRates line_rates_;
  ReportedValues values_;
  StepTimes times_;
  std::optional<control::v1::Apply> last_apply_;
  std::vector<control::v1::StageTiming> timings_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_TRAINING_STEPS_H_
