// The SwarmState, by file:
//   swarm_state_impl.cc   events
//   swarm_view.cc         its status
//   swarm_messages.cc     messages of peers
//   swarm_training.cc     plans and checkpoints
//
// State with rules of its own lies in classes beside it: RunJournal, SwarmPlan, Lifecycle,
// MemberFaults, SwarmArtefacts, CheckpointUploads, AppliedChecks, TrainingSteps and Membership.

#ifndef SHOAL_SCHEDULER_SWARM_SWARM_STATE_IMPL_H_
#define SHOAL_SCHEDULER_SWARM_SWARM_STATE_IMPL_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/history/run_history.h"
#include "scheduler/history/stored_event.h"
#include "scheduler/swarm/applied_checks.h"
#include "scheduler/swarm/checkpoint_uploads.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/member_faults.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/membership.h"
#include "scheduler/swarm/plan_messages.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/run_journal.h"
#include "scheduler/swarm/swarm_artefacts.h"
#include "scheduler/swarm/swarm_plan.h"
#include "scheduler/swarm/swarm_state.h"
#include "scheduler/swarm/training_steps.h"

namespace shoal::scheduler {

class SwarmStateImpl final : public SwarmState, private Lifecycle::Owner {
 public:
  SwarmStateImpl(const RunConfig& config, ArtefactMap initial, std::string join_secret);

  std::vector<Action> Handle(const Event& event, TimePoint now) override;
  Status Restore(std::string_view event) override;
  RunState run_state() const override { return lifecycle_.state(); }
  RunView View(TimePoint now) const override;
  const RunConfig& config() const override { return config_; }
  ArtefactMap CurrentWeights() const override { return artefacts_.Weights(); }
  bool IsMember(const PeerId& peer) const override;

 private:
  // ---- events (swarm_state_impl.cc) ----
  void On(const PeerConnected& event) { membership_.OnConnected(event); }
  void On(const PeerMessageReceived& event);
  void On(const PeerDisconnected& event) { membership_.OnDisconnected(event); }
  void On(const AdminCommand& event);
  void On(const Tick& event);
  void On(const ArtefactsLost& event) { artefacts_.OnLost(event.hashes); }
  void On(const ArtefactHere& event) { artefacts_.OnFound(event.hash); }
  void OrderResume();

  void GenerationEnded(const std::string& reason) override;

  // ---- what it shows (swarm_view.cc) ----
  std::string Reason() const;
  std::string Warning() const;
  std::string WaitingFor() const;
  void ShowStatus(bool even_if_equal);
  control::v1::RunStatus StatusMessage() const;

  // ---- connections (swarm_messages.cc) ----
  void OnHello(ConnectionId connection, const control::v1::Hello& hello);
  void Welcome(const Member& member);
  void OnMember(Member* member, const control::v1::PeerMessage& message);

  // ---- training (swarm_training.cc) ----
  void TryPlan();
  void BeginGeneration(PlacementPlan plan);
  void OnPlanReady(Member* member, const control::v1::PlanReady& ready);
  void PlanAgainForLans();
  void OnCheckpointDone(Member* member, const control::v1::CheckpointDone& done);
  void Finish();

  // Whether this message is of the generation in progress, from one of its members.
  bool Current(const Member& member, std::uint64_t generation) const;

  RunConfig config_;
  const ArtefactMap initial_;

  Members members_;
  SwarmPlan plan_;  // the newest
  Reaction reaction_;
  RunJournal journal_;
  const RunHistory& history_;  // of the journal
  Lifecycle lifecycle_;
  Membership membership_;
  MemberFaults faults_;
  SwarmArtefacts artefacts_;
  CheckpointUploads uploads_;
  AppliedChecks applied_;
  TrainingSteps steps_;

  control::v1::RunStatus shown_;  // last sent to the peers
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_SWARM_STATE_IMPL_H_
