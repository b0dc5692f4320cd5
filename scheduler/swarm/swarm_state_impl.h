// The SwarmState: which part of it takes which event, in which order. Each part has state and rules
// of its own, and knows only the parts above it:
//   Reaction           the time of the event, and the actions so far
//   RunJournal         the run's history, and what of it is stored
//   Members            who attends, by key and by connection
//   SwarmPlan          who hosts what
//   Lifecycle          the run's state, and what ends a generation
//   Membership         connections, and who is lost
//   MemberFaults       complaints, and who loses its position
//   SwarmArtefacts     what the run hands out, and what of it is lost
//   CheckpointUploads  who saves
//   ClosingCheckpoint  who saves what a broken generation made
//   HeldSteps          what becomes of that
//   AppliedChecks      what must be equal after a step
//   SpotChecks         what is computed again
//   TrainingSteps      the steps
//   BrokenPipelines    who leaves a step
//   SwarmView          what the run shows

#ifndef SHOAL_SCHEDULER_SWARM_SWARM_STATE_IMPL_H_
#define SHOAL_SCHEDULER_SWARM_SWARM_STATE_IMPL_H_

#include <string>
#include <string_view>
#include <vector>

#include "scheduler/history/artefact_map.h"
#include "scheduler/swarm/applied_checks.h"
#include "scheduler/swarm/broken_pipelines.h"
#include "scheduler/swarm/checkpoint_uploads.h"
#include "scheduler/swarm/closing_checkpoint.h"
#include "scheduler/swarm/held_steps.h"
#include "scheduler/swarm/lifecycle.h"
#include "scheduler/swarm/member_faults.h"
#include "scheduler/swarm/members.h"
#include "scheduler/swarm/membership.h"
#include "scheduler/swarm/newcomers.h"
#include "scheduler/swarm/reaction.h"
#include "scheduler/swarm/run_journal.h"
#include "scheduler/swarm/spot_checks.h"
#include "scheduler/swarm/swarm_artefacts.h"
#include "scheduler/swarm/swarm_plan.h"
#include "scheduler/swarm/swarm_state.h"
#include "scheduler/swarm/swarm_view.h"
#include "scheduler/swarm/training_steps.h"

namespace shoal::scheduler {

class SwarmStateImpl final : public SwarmState, private Lifecycle::Owner {
 public:
  SwarmStateImpl(const RunConfig& config, ArtefactMap initial);

  std::vector<Action> Handle(const Event& event, TimePoint now) override;
  Status Restore(std::string_view event, TimePoint at) override;
  RunState run_state() const override { return lifecycle_.state(); }
  RunView View(TimePoint now) const override { return view_.At(now); }
  const RunConfig& config() const override { return config_; }
  ArtefactMap CurrentWeights() const override { return artefacts_.Weights(); }
  std::vector<control::v1::ArtefactRef> NeededArtefacts() const override;
  bool IsMember(const PeerId& peer) const override { return members_.Find(peer) != nullptr; }

 private:
  void On(const PeerConnected& event) { membership_.OnConnected(event); }
  void On(const PeerMessageReceived& event);
  void On(const PeerDisconnected& event) { membership_.OnDisconnected(event); }
  void On(const AdminCommand& event);
  void On(const PeerKicked& event) { membership_.OnKicked(event); }
  void On(const PeerReleased& event) { faults_.Release(event.peer); }
  void On(const Tick& event);
  void On(const ArtefactsLost& event) { artefacts_.OnLost(event.hashes); }
  void On(const ArtefactHere& event);
  void On(const ArtefactNotKept& event) { uploads_.OnNotKept(event.hash, event.reason); }

  void OnHello(ConnectionId connection, const control::v1::Hello& hello);
  void Welcome(const Member& member);
  void OnMember(Member* member, const control::v1::PeerMessage& message);
  // A message of the generation in progress, from a member of its plan.
  void OnPlanMember(Member* member, const control::v1::PeerMessage& message);
  void OnPlanReady(const Member& member, const control::v1::PlanReady& ready);
  void OnOffered(Member* member, const control::v1::ArtefactsOffered& offered);
  void OnCheckpointWhole(std::uint64_t step);
  void OrderResume();

  void TryPlan();
  std::optional<Regrouped> PlanInPlace();
  std::optional<PlacementPlan> PlanFromCheckpoint();
  void BeginGeneration(Regrouped plan, bool in_place);
  void SendPlan(bool in_place);
  void GoOn(const HeldSteps::InProgress& at);
  void OnApplied(const Member& member, const control::v1::Applied& applied);
  void OnCaughtUp(const Member& member, const control::v1::CaughtUp& caught_up);
  void OnInStep(const Member& member);
  StepsFate KeepSteps(const Keep& keep) override {
    plan_.Ended(reaction_.now());
    if (steps_.last_apply()) held_.NoteApply(*steps_.last_apply());
    if (!keep.steps) uploads_.DropAll();
    if (keep.without) uploads_.Distrust({*keep.without});
    return held_.Begin(keep, steps_.times().seconds());
  }
  bool GoOnWithout(const PeerId& peer, const std::string& cause) override {
    return broken_.Take(peer, cause);
  }
  bool CannotGoOn(const PeerId& peer, bool halted) override {
    return broken_.CannotGoOn(peer, halted);
  }
  bool MayGoOnWithout(const PeerId& peer) const override { return broken_.MayGoOnWithout(peer); }
  void GenerationEnded(const std::string& reason) override;
  void Finish();
  void ShowStatus(bool even_if_equal);

  RunConfig config_;
  const ArtefactMap initial_;

  Reaction reaction_;
  RunJournal journal_;
  const RunHistory& history_;  // of the journal
  Members members_;
  SwarmPlan plan_;
  Lifecycle lifecycle_;
  Newcomers newcomers_;
  Membership membership_;
  MemberFaults faults_;
  SwarmArtefacts artefacts_;
  CheckpointUploads uploads_;
  ClosingCheckpoint closing_;
  HeldSteps held_;
  AppliedChecks applied_;
  SpotChecks spots_;
  TrainingSteps steps_;
  BrokenPipelines broken_;
  const SwarmView view_;
  std::optional<TimePoint> too_few_since_;  // for a plan of all pipelines
  control::v1::RunStatus shown_;            // last sent to the peers
};

}  // namespace shoal::scheduler

#endif  // SHOAL_SCHEDULER_SWARM_SWARM_STATE_IMPL_H_
