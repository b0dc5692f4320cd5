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
  consistency_.Reset();
  std::vector<std::uint32_t> uploaders;
  for (std::uint32_t stage = 0; stage < config_.stages; ++stage) {
    uploaders.push_back(UploaderFor(stage).value_or(0));
  }
  rounds_.Reset(history_.checkpoint().step, std::move(uploaders));
  repairing_.clear();
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
  if (!account_.all_ready() || LossesFit()) MaybeReduce();
}

void SwarmStateImpl::MaybeReduce() {
  if (lifecycle_.state() != RunState::kTraining || reduced_ || !account_.all_ready()) return;
  // The generation ends with the checkpoint that is under way: a further step would be lost.
  if (lifecycle_.EndsWith(rounds_.asked())) return;
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
  facts.checkpoint_asked = rounds_.asked();
  facts.checkpoints_pending = rounds_.full();
  facts.pausing = lifecycle_.ending() && !lifecycle_.EndsWith(rounds_.asked());
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
  if (decision_.checkpoint) rounds_.Begin(history_.step());
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
    const auto stage = static_cast<std::uint32_t>(member->stage);
    apply->set_upload(decision_.checkpoint &&
                      rounds_.uploader(stage) == static_cast<std::uint32_t>(member->pipeline));
    reaction_.Send(*member, message);
  }
}

void SwarmStateImpl::OnCheckpointDone(Member* member, const control::v1::CheckpointDone& done) {
  if (!rounds_.Has(done.step())) return;
  if (!done.error().empty()) return OnSaveFailed(member, done);
  member->save_error.clear();
  member->saves_failed = 0;
  const auto pipeline = static_cast<std::uint32_t>(member->pipeline);
  const auto stage = static_cast<std::uint32_t>(member->stage);
  if (rounds_.Uploads(done.step(), pipeline, stage)) {
    ArtefactMap files;
    for (const control::v1::ArtefactRef& file : done.files()) files[file.name()] = file;
    for (const std::string& part : StageParts(config_, stage)) {
      for (const std::string& name : {part, part + ".optimizer"}) {
        const auto file = files.find(name);
        if (file == files.end()) {
          lifecycle_.Interrupt(member->LabelWithPosition() + " did not upload " + name +
                               " of the checkpoint of step " + std::to_string(done.step()));
          return;
        }
        rounds_.AddFile(done.step(), name, file->second);
      }
    }
  }
  rounds_.AddReport(done.step(), pipeline, stage);
  MaybeCompleteCheckpoint(done.step());
}

// The first member of a stage that can save, if any.
std::optional<std::uint32_t> SwarmStateImpl::UploaderFor(std::uint32_t stage) const {
  for (std::uint32_t pipeline = 0; pipeline < config_.pipelines; ++pipeline) {
    const Member* member = plan_.At(pipeline, stage);
    if (member != nullptr && member->save_error.empty()) return pipeline;
  }
  return std::nullopt;
}

// A peer that cannot save costs no step: another member of its stage uploads for the group from
// now on. If there is none, a spare takes its position when it has failed twice, which costs the
// steps since the last checkpoint once; without a spare the next checkpoint tries again, and the
// status names the peer.
void SwarmStateImpl::OnSaveFailed(Member* member, const control::v1::CheckpointDone& done) {
  member->save_error = CleanText(done.error(), kReasonCharactersMax);
  ++member->saves_failed;
  SHOAL_LOG(kWarning, "scheduler", "checkpoint.not_saved", {"peer", member->LabelWithPosition()},
            {"step", done.step()}, {"error", member->save_error});
  const auto pipeline = static_cast<std::uint32_t>(member->pipeline);
  const auto stage = static_cast<std::uint32_t>(member->stage);
  if (!rounds_.Uploads(done.step(), pipeline, stage)) {
    rounds_.AddReport(done.step(), pipeline, stage);  // it fetches what it lacks another time
    return MaybeCompleteCheckpoint(done.step());
  }
  rounds_.Drop(done.step());
  const auto other = UploaderFor(stage);
  if (history_.step() >= config_.steps) {  // no step is left in which to save again
    if (other) return lifecycle_.Interrupt(WhoCannotSave());
    return lifecycle_.Hold(WhoCannotSave() + "; then continue with: shoal swarm resume");
  }
  if (!other && !member->wants_stage) {  // to wait longer for its disk would help nobody
    return lifecycle_.EndNow(member->HandsOver() + ", and cannot save: " + member->save_error);
  }
  const bool replaceable = !other && !lifecycle_.ending() && plan_.SpareCouldReplace(*member);
  if (replaceable && member->saves_failed >= kSavesFailedMax) {
    return faults_.Replace(*member, member->CannotSave() + "; a spare takes its place");
  }
  if (other) rounds_.SetUploader(stage, *other);
  if (other || replaceable) rounds_.AskAgainAfter(history_.checkpoint().step);  // at once
  lifecycle_.PostponeEnding();
  MaybeReduce();
}

std::string SwarmStateImpl::WhoCannotSave() const {
  for (const Member* member : plan_.Hosts()) {
    if (member->save_error.empty()) continue;
    return member->CannotSave() + "; the newest that is whole is of step " +
           std::to_string(history_.checkpoint().step) +
           ". Free disk space there, or let that peer leave";
  }
  return "";
}

void SwarmStateImpl::MaybeCompleteCheckpoint(std::uint64_t step) {
  const auto files = rounds_.TakeWhole(step, plan_.needed());
  if (!files) return;
  faults_.CheckpointWhole();
  journal_.StoreLosses();
  CheckpointMade made{step, {}};
  for (const auto& [name, file] : *files) made.files.push_back(file);
  journal_.Record(made);
  reaction_.Add(CheckpointComplete{step});
  if (step >= config_.steps) {
    Finish();
  } else {
    lifecycle_.CheckpointWhole(step);
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
