// The SwarmState, by file:
//   swarm_state_impl.cc   membership and lifecycle
//   swarm_view.cc         its status
//   swarm_messages.cc     messages of peers
//   swarm_complaints.cc   complaints about peers
//   swarm_training.cc     plans, steps and checkpoints
//   swarm_consistency.cc  comparisons of what peers report
//   swarm_artefacts.cc    artefacts that the server lost
//
// State with rules of its own lies in classes beside it: RunJournal, SwarmPlan, CheckpointRounds,
// LostArtefacts, FailureBackoff, StepTimes, Members, StepAccount and those of swarm_consistency.cc.

#ifndef SHOAL_SCHEDULER_SWARM_SWARM_STATE_IMPL_H_
#define SHOAL_SCHEDULER_SWARM_SWARM_STATE_IMPL_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dataset/sampler.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/history/checkpoint_rounds.h"
#include "scheduler/history/failure_backoff.h"
#include "scheduler/history/lost_artefacts.h"
#include "scheduler/history/run_history.h"
#include "scheduler/history/run_lifecycle.h"
#include "scheduler/history/stored_event.h"
#include "scheduler/steps/consistency.h"
#include "scheduler/steps/plausibility.h"
#include "scheduler/steps/stage_choice.h"
#include "scheduler/steps/step_account.h"
#include "scheduler/steps/step_decision.h"
#include "scheduler/steps/step_times.h"
#include "scheduler/swarm/complaints.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/plan_messages.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/run_journal.h"
#include "scheduler/swarm/swarm_plan.h"
#include "scheduler/swarm/swarm_state.h"

namespace shoal::scheduler {

class SwarmStateImpl final : public SwarmState {
 public:
  SwarmStateImpl(const RunConfig& config, ArtefactMap initial, std::string join_secret);

  std::vector<Action> Handle(const Event& event, TimePoint now) override;
  Status Restore(std::string_view event) override;
  RunState run_state() const override { return state_; }
  RunView View(TimePoint now) const override;
  const RunConfig& config() const override { return config_; }
  ArtefactMap CurrentWeights() const override;
  bool IsMember(const PeerId& peer) const override;

 private:
  // Why the generation ends as soon as a checkpoint of more than `from` applied steps is whole, so
  // that no work is lost.
  struct Ending {
    std::string cause;
    std::uint64_t from = 0;
    bool hold = false;  // then wait for an order to resume; else plan again at once
  };

  // ---- events (swarm_state_impl.cc) ----
  void On(const PeerConnected& event);
  void On(const PeerMessageReceived& event);
  void On(const PeerDisconnected& event);
  void On(const AdminCommand& event);
  void On(const Tick& event);
  void On(const ArtefactsLost& event);
  void On(const ArtefactHere& event);
  void OrderPause();
  void OrderResume();

  bool Enter(RunEvent event);
  // Pauses; a generation in progress is aborted on every peer but `lost`.
  void EndGeneration(const std::string& cause, const Member* lost);
  // The same to a generation in progress, and tries again after a while.
  void Interrupt(const std::string& cause, const Member* lost);
  // The same on the word of one peer alone: it does not count as a failure.
  void InterruptUncounted(const std::string& cause);
  bool EndOrHold(const std::string& cause, const Member* lost);
  void CountFailure(const std::string& cause);
  // Pauses until an order to resume.
  void Hold(const std::string& cause, const Member* lost);
  void Fail(const std::string& cause);
  bool active() const { return state_ == RunState::kPreparing || state_ == RunState::kTraining; }

  // ---- what it shows (swarm_view.cc) ----
  std::string Reason() const;
  std::string Warning() const;
  std::string WaitingFor() const;
  // What ending the generation now undoes, to stand behind its cause; empty: nothing.
  std::string StepsUndone() const;
  void ShowStatus(bool even_if_equal);
  control::v1::RunStatus StatusMessage() const;

  // ---- connections (swarm_messages.cc) ----
  void Drop(ConnectionId connection, Status reason);
  void Lost(Member* member, const std::string& why);
  void OnHello(ConnectionId connection, const control::v1::Hello& hello);
  void Welcome(Member* member);
  void OnMember(Member* member, const control::v1::PeerMessage& message);
  void OnHeartbeat(Member* member, const control::v1::Heartbeat& heartbeat);
  void OnLeaving(Member* member, const std::string& reason);
  void OnHandingOver(Member* member, const std::string& reason);
  static std::string HandsOver(const Member& member);

  // ---- complaints (swarm_complaints.cc) ----
  void OnPlanFailed(Member* member, const control::v1::PlanFailed& failed);
  bool AllRefuse() const;
  void OnLinkBroken(Member* member, const control::v1::LinkBroken& broken);
  void DoubtedForLong();
  void Replace(Member* member, const std::string& cause);

  // ---- training (swarm_training.cc) ----
  void TryPlan();
  void BeginGeneration(PlacementPlan plan);
  void OnPlanReady(Member* member, const control::v1::PlanReady& ready);
  void PlanAgainForLans();
  void SendStepPlan(std::uint64_t step);
  std::vector<LineRate> KnownLines() const;
  void BeginSteps();
  void OnStepReady(Member* member, const control::v1::StepReady& ready);
  void MaybeReduce();
  void OnSyncDone(Member* member, const control::v1::SyncDone& done);
  void HoldOnGradient(const Member& member);
  void FinishStep();
  void SendApply(double loss, double norm, std::uint64_t labels);
  StepDecision Decide() const;
  void OnCheckpointDone(Member* member, const control::v1::CheckpointDone& done);
  void OnSaveFailed(Member* member, const control::v1::CheckpointDone& done);
  std::optional<std::uint32_t> UploaderFor(std::uint32_t stage) const;
  static std::string CannotSave(const Member& member);
  std::string WhoCannotSave() const;
  void MaybeCompleteCheckpoint(std::uint64_t step);
  void EndAfterCheckpoint();
  void EndNow(const std::string& cause);
  void Finish();

  // ---- what must be equal or fit (swarm_consistency.cc) ----
  bool LossFits(Member* member, const control::v1::StepReady& ready);
  bool LossesFit();
  bool NormFits(Member* member, double squared_norm);
  void RefuseValue(Member* member, const std::string& cause);
  void OnDisagreement(std::uint32_t stage);
  void OnApplied(Member* member, const control::v1::Applied& applied);
  bool ChecksWeights() const;
  void OnWeightsDiffer(std::uint64_t step, std::uint32_t stage, const WeightVerdict& verdict);

  // ---- artefacts that the server lost (swarm_artefacts.cc) ----
  ArtefactMap NeededByHash() const;
  void Want(const ArtefactMap& by_hash);
  void AskFor(const Member& member);
  // Whether a plan can name artefacts that peers can fetch; goes back to the checkpoint before
  // where nobody has what the newest lost.
  bool ArtefactsWhole();
  bool NobodyElseToAsk() const;
  std::string LostText() const;

  // Whether this message is of the generation in progress, from one of its members.
  bool Current(const Member& member, std::uint64_t generation) const;

  RunConfig config_;
  const ArtefactMap initial_;
  const std::string join_secret_;
  const std::uint32_t local_steps_;  // between the run's pipelines; 0: none
  std::optional<dataset::Sampler> sampler_;

  Members members_;
  SwarmPlan plan_;  // the newest
  Reaction reaction_;
  RunJournal journal_;
  const RunHistory& history_;  // of the journal

  // Lifecycle.
  RunState state_ = RunState::kWaiting;
  std::string cause_;  // why it is paused or failed
  std::optional<Ending> ending_;
  FailureBackoff backoff_;
  std::set<PeerId> refusals_;  // who called plans invalid since the last that worked
  std::set<PeerId> replaced_;  // who lost its place since the last checkpoint
  ComplaintBook complaints_;
  std::optional<Doubt> doubt_;    // about a complaint, in this generation
  control::v1::RunStatus shown_;  // last sent to the peers

  LostArtefacts lost_;

  // Of the generation.
  StepAccount account_;
  StageChoice stage_choice_;
  LineRates line_rates_;
  std::vector<control::v1::StageTiming> timings_;
  CheckpointRounds rounds_;
  bool reduced_ = false;   // Reduce of the step in progress is out
  StepDecision decision_;  // of that step
  ConsistencyChecks consistency_;
  Plausibility plausibility_;
  std::string last_difference_;  // of weights, for people; empty: never
  std::set<PeerId> repairing_;   // peers that take the majority's weights with the next plan
  std::map<PeerId, std::uint32_t> weight_repairs_;  // how often a peer did
  StepTimes step_times_;
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_SWARM_STATE_IMPL_H_
