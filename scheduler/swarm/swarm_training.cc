// Plans, and the end of a run.

#include "common/log.h"
#include "scheduler/swarm/swarm_state_impl.h"

namespace shoal::scheduler {

bool SwarmStateImpl::Current(const Member& member, std::uint64_t generation) const {
  return lifecycle_.active() && generation == history_.generation() && member.placed();
}

void SwarmStateImpl::TryPlan() {
  if (!lifecycle_.MayPlan()) return;
  if (history_.checkpoint().step >= config_.steps) {
    Finish();
    return;
  }
  if (!artefacts_.MakeWhole()) return;
  if (auto plan = plan_.Propose()) BeginGeneration(*std::move(plan));
}

void SwarmStateImpl::BeginGeneration(PlacementPlan plan) {
  if (!history_.started()) journal_.Record(RunStarted{});
  plan_.Adopt(std::move(plan));
  journal_.StoreLosses();
  journal_.Record(PlanMade{history_.generation() + 1, history_.checkpoint().step});
  applied_.BeginGeneration();
  uploads_.BeginGeneration();
  steps_.BeginGeneration();
  const bool entered = lifecycle_.Enter(RunEvent::kPlanned);
  SHOAL_CHECK(entered);
  reaction_.Add(PlanOut{plan_.positions()});
  const control::v1::Plan common = CommonPlan(config_, history_.generation(), history_.step(),
                                              plan_.positions(), plan_.lans(), members_);
  const ArtefactMap weights = artefacts_.Weights();
  for (const auto& [peer, member] : members_.all()) {
    if (!member.connected) continue;
    control::v1::SchedulerMessage message;
    *message.mutable_plan() = common;
    if (member.placed()) {
      const auto stage = static_cast<std::uint32_t>(member.stage);
      for (auto& artefact : StageArtefacts(config_, stage, weights, initial_)) {
        *message.mutable_plan()->add_artefacts() = std::move(artefact);
      }
    }
    reaction_.Send(member, std::move(message));
  }
}

void SwarmStateImpl::OnPlanReady(Member* member, const control::v1::PlanReady& ready) {
  if (lifecycle_.state() != RunState::kPreparing) return;
  plan_.AddReady(*member, ready);
  if (plan_.ready() < plan_.needed()) return;
  if (plan_.LansMoved()) return PlanAgainForLans();
  if (!lifecycle_.Enter(RunEvent::kAllReady)) return;
  faults_.PlanWorked();
  steps_.Begin();
}

// LANs are constant for a generation, and a stage knows its own when it is loaded.
void SwarmStateImpl::PlanAgainForLans() {
  SHOAL_LOG(kInfo, "scheduler", "plan.lans", {"generation", history_.generation()});
  lifecycle_.PlanAgain(
      "the links are measured, and some peers share a LAN: they get a plan that says so");
  plan_.PlanAgainForLans();
}

void SwarmStateImpl::OnCheckpointDone(Member* member, const control::v1::CheckpointDone& done) {
  if (!uploads_.OnDone(member, done)) return;
  faults_.CheckpointWhole();
  if (done.step() >= config_.steps) {
    Finish();
  } else {
    lifecycle_.CheckpointWhole(done.step());
  }
}

void SwarmStateImpl::Finish() {
  if (!lifecycle_.Complete()) return;
  control::v1::SchedulerMessage message;
  message.mutable_finished()->set_generation(history_.generation());
  message.mutable_finished()->set_steps(history_.checkpoint().step);
  for (const auto& [peer, member] : members_.all()) {
    if (member.connected) reaction_.Send(member, message);
  }
}

}  // namespace shoal::scheduler
