// Plans, steps and checkpoints.

#include <algorithm>
#include <cmath>

#include "common/log.h"
#include "common/text.h"
#include "scheduler/swarm/peer_message_check.h"
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
  stage_choice_.Reset();
  line_rates_.Reset();
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
  if (lifecycle_.Enter(RunEvent::kAllReady)) BeginSteps();
}

// LANs are constant for a generation, and a stage knows its own when it is loaded.
void SwarmStateImpl::PlanAgainForLans() {
  SHOAL_LOG(kInfo, "scheduler", "plan.lans", {"generation", history_.generation()});
  lifecycle_.PlanAgain(
      "the links are measured, and some peers share a LAN: they get a plan that says so");
  plan_.PlanAgainForLans();
}

void SwarmStateImpl::BeginSteps() {
  faults_.PlanWorked();
  account_.Begin(history_.step(), reaction_.now());
  reduced_ = false;
  for (std::uint64_t step = history_.step(); step < history_.step() + kStepPlansAhead; ++step)
    SendStepPlan(step);
}

void SwarmStateImpl::SendStepPlan(std::uint64_t step) {
  if (step >= config_.steps) return;
  control::v1::SchedulerMessage message;
  *message.mutable_step_plan() =
      MakeStepPlan(config_, *sampler_, history_.generation(), step, timings_);
  for (const LineRate& line : line_rates_.Tell(step, KnownLines())) {
    control::v1::LineRate* told = message.mutable_step_plan()->add_lines();
    told->set_upload_bps(line.upload_bps);
    told->set_download_bps(line.download_bps);
  }
  reaction_.SendEach(plan_.Hosts(), message);
}

std::vector<LineRate> SwarmStateImpl::KnownLines() const {
  std::vector<LineRate> lines;
  for (std::uint32_t pipeline = 0; pipeline < config_.pipelines; ++pipeline) {
    for (std::uint32_t stage = 0; stage < config_.stages; ++stage) {
      const Member* const member = plan_.At(pipeline, stage);
      lines.push_back(member != nullptr ? member->line : LineRate{});
    }
  }
  return lines;
}

void SwarmStateImpl::OnStepReady(Member* member, const control::v1::StepReady& ready) {
  if (lifecycle_.state() != RunState::kTraining || ready.step() != history_.step() ||
      history_.step() >= config_.steps)
    return;
  const auto pipeline = static_cast<std::uint32_t>(member->pipeline);
  const auto stage = static_cast<std::uint32_t>(member->stage);
  if (ready.micro_batches() != MicroBatchesOf(config_, pipeline)) {
    lifecycle_.Interrupt(member->LabelWithPosition() + " finished " +
                         std::to_string(ready.micro_batches()) + " of " +
                         std::to_string(MicroBatchesOf(config_, pipeline)) +
                         " micro-batches of step " + std::to_string(history_.step()));
    return;
  }
  if (!std::isfinite(ready.loss_sum()) && stage + 1 == config_.stages) {
    lifecycle_.Hold(
        "the loss is not finite at step " + std::to_string(history_.step()) + " (" +
        member->LabelWithPosition() +
        "): lower learning_rate or take more codec bits in run.toml and start the scheduler "
        "again; or try from step " +
        std::to_string(history_.checkpoint().step) + " once more with: shoal swarm resume");
    return;
  }
  if (!std::isfinite(ready.squared_norm())) return HoldOnGradient(*member);
  if (!LossFits(member, ready) || !account_.AddReady(pipeline, stage, ready, reaction_.now()))
    return;
  if (account_.all_ready()) CheckLosses();
}

void SwarmStateImpl::MaybeReduce() {
  if (lifecycle_.state() != RunState::kTraining || reduced_ || !account_.all_ready()) return;
  // The generation ends with the checkpoint that is under way: a further step would be lost.
  if (lifecycle_.EndsWith(uploads_.asked())) return;
  reduced_ = true;
  timings_ = account_.timings();
  control::v1::SchedulerMessage message;
  message.mutable_reduce()->set_generation(history_.generation());
  message.mutable_reduce()->set_step(history_.step());
  message.mutable_reduce()->set_labels(account_.labels());
  message.mutable_reduce()->set_learning_rate(LearningRate(config_, history_.step()));
  decision_ = Decide();
  message.mutable_reduce()->set_checkpoint(decision_.checkpoint);
  message.mutable_reduce()->set_sync(decision_.sync);
  for (std::uint32_t p = 0; p < config_.pipelines; ++p) {
    message.mutable_reduce()->add_pipelines(p);
    message.mutable_reduce()->add_local_norms(account_.local_norm(p));
    message.mutable_reduce()->add_local_labels(account_.local_labels(p));
  }
  for (const std::uint32_t exact : stage_choice_.ExactStages(history_.step())) {
    message.mutable_reduce()->add_exact_stages(exact);
  }
  reaction_.SendEach(plan_.Hosts(), message);
}

void SwarmStateImpl::HoldOnGradient(const Member& member) {
  lifecycle_.Hold(
      "the gradient is not finite at step " + std::to_string(history_.step()) + " (" +
      member.LabelWithPosition() +
      "): lower learning_rate or take more backward codec bits in run.toml and start the "
      "scheduler again; or try once more with: shoal swarm resume");
}

void SwarmStateImpl::OnSyncDone(Member* member, const control::v1::SyncDone& done) {
  if (lifecycle_.state() != RunState::kTraining || done.step() != history_.step() || !reduced_)
    return;
  if (!std::isfinite(done.squared_norm())) return HoldOnGradient(*member);
  if (!NormFits(member, done.squared_norm())) return;
  const auto pipeline = static_cast<std::uint32_t>(member->pipeline);
  const auto stage = static_cast<std::uint32_t>(member->stage);
  if (!account_.AddSynced(pipeline, stage, done.squared_norm(), reaction_.now())) return;
  stage_choice_.Add(stage, account_.ready_after(pipeline, stage), done);
  if (!account_.all_synced()) return;
  stage_choice_.EndStep();
  FinishStep();
}

StepDecision SwarmStateImpl::Decide() const {
  StepFacts facts;
  facts.applied = history_.step() + 1;
  facts.steps = config_.steps;
  facts.checkpoint_every = config_.checkpoint_every;
  facts.checkpoint_asked = uploads_.asked();
  facts.checkpoints_pending = uploads_.full();
  facts.pausing = lifecycle_.ending() && !lifecycle_.EndsWith(uploads_.asked());
  facts.local_steps = local_steps_;
  return DecideStep(facts);
}

void SwarmStateImpl::FinishStep() {
  if (const auto stage = account_.disagreeing_stage()) {
    return OnDisagreement(*stage);
  }
  const std::uint64_t labels = account_.labels();
  if (labels == 0) {
    lifecycle_.Hold("step " + std::to_string(history_.step()) +
                    " has no labels: the data seems to hold only padding; prepare it again");
    return;
  }
  const double loss = account_.loss_sum() / static_cast<double>(labels);
  const double norm = std::sqrt(account_.squared_norm()) / static_cast<double>(labels);
  SendApply(loss, norm, labels);
  step_times_.Add(account_.elapsed(reaction_.now()), account_.between_ready_and_synced());
  journal_.AddLoss(loss);
  plausibility_.AddLoss(loss);
  for (std::uint32_t stage = 0; stage < config_.stages; ++stage) {
    plausibility_.AddNorm(stage, decision_.sync, account_.squared_norm_of(stage));
  }
  if (decision_.checkpoint) uploads_.Begin();
  account_.Begin(history_.step(), reaction_.now());
  reduced_ = false;
  SendStepPlan(history_.step() - 1 + kStepPlansAhead);
}

void SwarmStateImpl::SendApply(double loss, double norm, std::uint64_t labels) {
  control::v1::SchedulerMessage message;
  control::v1::Apply* apply = message.mutable_apply();
  apply->set_generation(history_.generation());
  apply->set_step(history_.step());
  apply->set_global_norm(norm);
  apply->set_learning_rate(LearningRate(config_, history_.step()));
  apply->set_labels(labels);
  apply->set_loss(loss);
  // What is saved was made ready for it with Reduce; what asked for it since gets the next step.
  apply->set_checkpoint(decision_.checkpoint);
  apply->set_check_weights(ChecksWeights());
  for (const Member* member : plan_.Hosts()) {
    apply->set_upload(decision_.checkpoint && uploads_.Uploads(*member));
    reaction_.Send(*member, message);
  }
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
