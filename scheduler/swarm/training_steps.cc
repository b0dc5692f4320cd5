#include "scheduler/swarm/training_steps.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "common/log.h"
#include "compression/api/codec.h"
#include "replica/methods/group_limits.h"
#include "replica/methods/replica_method.h"
#include "scheduler/config/swarm_limits.h"
#include "scheduler/steps/evaluation_rows.h"
#include "scheduler/steps/plausibility.h"
#include "scheduler/swarm/plan_messages.h"

namespace shoal::scheduler {
namespace {

constexpr std::uint32_t kAnyHidden = 1024;  // whether a codec is stateful does not depend on it

std::uint32_t LocalSteps(const RunConfig& config, std::uint32_t pipelines) {
  const auto method = replica::ParseReplicaMethod(config.replica_method);
  return method.ok() && pipelines > 1 ? method->local.steps : 0;
}

// Whether a pipeline's share of a step can grow while it is at work on it. A codec that goes by the
// place of a micro-batch in the step cannot have that moved.
bool MayAmend(const RunConfig& config) {
  const auto method = replica::ParseReplicaMethod(config.replica_method);
  const auto codec = compression::MakeCodec(config.backward, kAnyHidden);
  return method.ok() && method->traits.follows_steps && method->local.steps == 0 && codec.ok() &&
         (*codec)->stateful() == nullptr;
}

// Whether members that only follow report the norms of those that count. Momenta are scaled by what
// these lack a part of, perhaps.
bool AnyNormIsTheSame(const RunConfig& config) {
  const auto method = replica::ParseReplicaMethod(config.replica_method);
  return method.ok() && !(method->traits.follows_steps && method->traits.clips_locally);
}

void AddLost(const std::set<Position>& lost, control::v1::StepPlan* plan) {
  for (const auto& [pipeline, stage] : lost) {
    control::v1::Position* const at = plan->add_lost();
    at->set_pipeline(pipeline);
    at->set_stage(stage);
  }
}

}  // namespace

TrainingSteps::TrainingSteps(const RunConfig& config, const SwarmPlan& plan, RunJournal* journal,
                             Lifecycle* lifecycle, MemberFaults* faults, CheckpointUploads* uploads,
                             SpotChecks* spots, Reaction* reaction)
    : config_(config),
      plan_(plan),
      journal_(*journal),
      history_(journal->history()),
      lifecycle_(*lifecycle),
      faults_(*faults),
      uploads_(*uploads),
      spots_(*spots),
      reaction_(*reaction),
      amends_(MayAmend(config)),
      judges_all_(AnyNormIsTheSame(config)),
      account_(config.stages),
      stage_choice_(config.replica_method, config.stages, config.pipelines),
      line_rates_(config.pipelines, config.stages),
      values_(config, plan) {
  auto sampler = dataset::Sampler::Make(
      {config.seed, config.train_rows, config.micro_batches, config.micro_batch_rows});
  if (sampler.ok()) {
    sampler_ = std::move(sampler).value();
  } else {
    lifecycle_.Fail(sampler.status().message());
  }
}

void TrainingSteps::BeginGeneration() {
  local_steps_ = LocalSteps(config_, plan_.pipelines());
  account_.Reset(plan_.pipelines(), plan_.gaps());
  stage_choice_.Reset();
  line_rates_.Reset(plan_.pipelines());
  counting_.Begin(history_.step(), history_.homes(), plan_.Counting());
  planned_ = history_.step();
}

void TrainingSteps::OnInStep() {
  Pipelines counting = plan_.Counting();
  if (counting == counting_.newest()) return;
  journal_.Record(PipelinesCount{planned_, counting});
  counting_.From(planned_, std::move(counting));
}

void TrainingSteps::HoldPlans(bool hold) {
  holds_plans_ = hold;
  if (!hold && InProgress(history_.step()) && planned_ > history_.step()) SendStepPlans();
}

void TrainingSteps::Begin() {
  BeginStep();
  SendStepPlans();
}

void TrainingSteps::GoOn(std::uint64_t planned, std::optional<control::v1::Reduce> told) {
  planned_ = planned;
  BeginStep();
  told_ = std::move(told);
  SendStepPlans();
}

Pipelines TrainingSteps::Judged() const {
  return judges_all_ ? Pipelines() : counting_.At(history_.step());
}

void TrainingSteps::BeginStep() {
  account_.Begin(history_.step(), Judged(), reaction_.now());
  reduced_ = false;
  told_.reset();
  lost_.Begin();
  lost_follower_.reset();
}

bool TrainingSteps::MayGoOnWithout(const std::set<std::uint32_t>& pipelines) const {
  if (!InProgress(history_.step()) || lifecycle_.ending()) return false;
  if (OnlyFollow(pipelines)) return true;
  if (!amends_ || counting_.AmendmentsOf(history_.step()) >= replica::kAmendmentsMax) return false;
  // Who only follows has no part in what is done.
  if (std::ranges::all_of(pipelines, [this](std::uint32_t p) { return plan_.HasGap(p); })) {
    return true;
  }
  for (std::uint64_t step = history_.step(); step < planned_; ++step) {
    if (EvaluatesBefore(config_, step)) return false;  // some of its rows are theirs
    const bool none = std::ranges::all_of(counting_.At(step),
                                          [&](std::uint32_t p) { return pipelines.contains(p); });
    if (none) return false;
  }
  return account_.elapsed(reaction_.now()) >= kWorthKeeping;
}

bool TrainingSteps::EndsSoonerAnew(std::size_t left, std::size_t more) const {
  if (more <= left || left == 0) return false;
  const auto seconds = [this](std::size_t pipelines) {
    return times_.micro_batch_seconds() *
           std::ceil(static_cast<double>(config_.micro_batches) / static_cast<double>(pipelines));
  };
  // Whoever is ready waits, and has done no more by that.
  const double elapsed = std::chrono::duration<double>(account_.elapsed(reaction_.now())).count();
  const double done = std::min(elapsed, seconds(counting_.At(history_.step()).size()));
  return seconds(more) + kPlanInPlaceSeconds < seconds(left) - done;
}

bool TrainingSteps::OnlyFollow(const std::set<std::uint32_t>& pipelines) const {
  const bool lans = !plan_.lans().stages.empty();  // results go through a member of each
  return !lans && std::ranges::all_of(pipelines, [this](auto p) { return plan_.HasGap(p); });
}

void TrainingSteps::GoOnWithoutFollowers(const std::set<Position>& lost, const std::string& cause) {
  journal_.Record(
      PipelinesCount{planned_, counting_.newest(), 0, cause, {lost.begin(), lost.end()}});
  const bool ready = account_.all_ready();
  account_.Lose(lost);
  uploads_.GoOnWithout();
  control::v1::SchedulerMessage message;
  control::v1::StepPlan* const plan = message.mutable_step_plan();
  plan->set_generation(history_.generation());
  plan->set_step(history_.step());
  for (std::uint32_t p = 0; p < plan_.pipelines(); ++p) plan->add_pipelines();
  AddLost(lost, plan);
  reaction_.SendEach(plan_.Hosts(), message);
  if (!ready && account_.all_ready()) JudgeReady();
  if (reduced_ && account_.all_synced()) EndExchange();
}

void TrainingSteps::GoOnWithout(const std::set<Position>& lost, const std::string& cause) {
  const Pipelines left = plan_.Counting();
  journal_.Record(
      PipelinesCount{history_.step(), left, planned_, cause, {lost.begin(), lost.end()}});
  const bool some_left = counting_.Left(history_.step(), planned_, left);
  SHOAL_CHECK(some_left);  // as MayGoOnWithout says
  account_.GoOnWithout(lost, Judged());
  uploads_.GoOnWithout();
  spots_.GoOnWithout();
  reduced_ = false;
  told_.reset();
  lost_.Begin();
  lost_follower_.reset();
  for (std::uint64_t step = history_.step(); step < planned_; ++step) {
    control::v1::SchedulerMessage message;
    *message.mutable_step_plan() = PlanOf(step);
    AddLost(lost, message.mutable_step_plan());
    reaction_.SendEach(plan_.Hosts(), message);
  }
}

control::v1::StepPlan TrainingSteps::PlanOf(std::uint64_t step) const {
  return MakeStepPlan(config_, *sampler_,
                      {history_.generation(), step, plan_.pipelines(), counting_.DealingAt(step)},
                      timings_);
}

void TrainingSteps::SendStepPlans() {
  const std::uint32_t ahead = plan_.shadows().empty() ? kStepPlansAhead
                              : holds_plans_          ? 1
                                                      : kStepPlansWithShadows;
  for (std::uint64_t step = planned_; step < history_.step() + ahead; ++step) SendStepPlan(step);
}

void TrainingSteps::SendStepPlan(std::uint64_t step) {
  if (step >= config_.steps) return;
  control::v1::SchedulerMessage message;
  *message.mutable_step_plan() = PlanOf(step);
  planned_ = step + 1;
  for (const LineRate& line : line_rates_.Tell(step, KnownLines())) {
    control::v1::LineRate* told = message.mutable_step_plan()->add_lines();
    told->set_upload_bps(line.upload_bps);
    told->set_download_bps(line.download_bps);
  }
  spots_.OnStepPlan(message.step_plan());
  reaction_.SendEach(plan_.Hosts(), message);
}

std::vector<LineRate> TrainingSteps::KnownLines() const {
  const Pipelines whole = plan_.Counting();
  std::vector<LineRate> lines;
  for (std::uint32_t pipeline = 0; pipeline < plan_.pipelines(); ++pipeline) {
    for (std::uint32_t stage = 0; stage < config_.stages; ++stage) {
      const Member* member = plan_.At(pipeline, stage);
      // At a gap like another of its stage, or lines looked uneven.
      if (member == nullptr && !whole.empty()) member = plan_.At(whole.front(), stage);
      lines.push_back(member != nullptr ? member->line : LineRate{});
    }
  }
  return lines;
}

bool TrainingSteps::InProgress(std::uint64_t step) const {
  return lifecycle_.state() == RunState::kTraining && step == history_.step() &&
         step < config_.steps;
}

void TrainingSteps::OnReady(const Member& member, const control::v1::StepReady& ready) {
  if (!InProgress(ready.step()) || ready.amendment() != counting_.AmendmentsOf(ready.step())) {
    return;
  }
  const auto pipeline = static_cast<std::uint32_t>(member.pipeline);
  const auto stage = static_cast<std::uint32_t>(member.stage);
  const std::uint32_t planned =
      MicroBatchesOf(counting_.DealingAt(ready.step()), config_.micro_batches, pipeline);
  if (ready.micro_batches() != planned) {
    lifecycle_.Interrupt(
        member.LabelWithPosition() + " finished " + std::to_string(ready.micro_batches()) + " of " +
            std::to_string(planned) + " micro-batches of step " + std::to_string(history_.step()),
        {true, member.peer});
    return;
  }
  if (!std::isfinite(ready.squared_norm())) NoteLost(member);
  if (const auto misfit = values_.Loss(member, ready)) return Refuse(*misfit);
  const bool added = account_.AddReady(pipeline, stage, ready, reaction_.now());
  if (added && account_.all_ready()) JudgeReady();
}

void TrainingSteps::JudgeReady() {
  const Pipelines& counting = counting_.At(history_.step());
  const auto count = static_cast<std::uint32_t>(counting.size());
  if (counting_.AmendmentsOf(history_.step()) == 0) {
    times_.AddReady(account_.ready_after(counting), (config_.micro_batches + count - 1) / count);
  }
  if (const auto lost = account_.lost_loss(); lost && !account_.any_loss_finite()) {
    return HoldOnLoss(*plan_.At(*lost, config_.stages - 1));
  }
  if (const auto misfit = values_.Losses(account_)) Refuse(*misfit);
}

void TrainingSteps::HoldOnLoss(const Member& member) {
  lifecycle_.Hold("the loss is not finite at step " + std::to_string(history_.step()) + " (" +
                      member.LabelWithPosition() +
                      "): lower learning_rate or take more codec bits in run.toml and start the "
                      "scheduler again; or try from step " +
                      std::to_string(history_.checkpoint().step) +
                      " once more with: shoal swarm resume",
                  {false});
}

void TrainingSteps::ReduceIfReady() {
  if (lifecycle_.state() != RunState::kTraining || reduced_ || !account_.all_ready()) return;
  // The generation ends with the checkpoint that is under way: a further step would be lost.
  if (lifecycle_.EndsWith(uploads_.asked())) return;
  reduced_ = true;
  timings_ = account_.timings();
  decision_ = Decide();
  const control::v1::SchedulerMessage message = ReduceMessage();
  if (told_ && told_->SerializeAsString() != message.reduce().SerializeAsString()) {
    return lifecycle_.InterruptUncounted(
        "step " + std::to_string(history_.step()) +
        " was to be reduced otherwise before the scheduler was started again, with other settings "
        "or reports: it begins anew");
  }
  reaction_.SendEach(plan_.Hosts(), message);
}

control::v1::SchedulerMessage TrainingSteps::ReduceMessage() {
  control::v1::SchedulerMessage message;
  message.mutable_reduce()->set_generation(history_.generation());
  message.mutable_reduce()->set_step(history_.step());
  message.mutable_reduce()->set_labels(account_.labels());
  message.mutable_reduce()->set_learning_rate(LearningRate(config_, history_.step()));
  message.mutable_reduce()->set_checkpoint(decision_.checkpoint);
  message.mutable_reduce()->set_sync(decision_.sync);
  for (const std::uint32_t p : counting_.At(history_.step())) {
    message.mutable_reduce()->add_pipelines(p);
  }
  for (std::uint32_t p = 0; p < plan_.pipelines(); ++p) {
    message.mutable_reduce()->add_local_norms(account_.local_norm(p));
    message.mutable_reduce()->add_local_labels(account_.local_labels(p));
  }
  if (told_) {
    *message.mutable_reduce()->mutable_exact_stages() = told_->exact_stages();
  } else if (plan_.pipelines() > 1) {  // one alone has nothing to compress
    for (const std::uint32_t exact : stage_choice_.ExactStages(history_.step())) {
      message.mutable_reduce()->add_exact_stages(exact);
    }
  }
  return message;
}

StepDecision TrainingSteps::Decide() const {
  StepFacts facts;
  facts.applied = history_.step() + 1;
  facts.steps = config_.steps;
  facts.pipelines = plan_.pipelines();
  facts.weight_check_asked = check_weights_;
  facts.checkpoint_every = uploads_.Every();
  facts.checkpoint_asked = uploads_.asked();
  facts.checkpoints_pending = uploads_.full();
  facts.pausing = lifecycle_.ending() && !lifecycle_.EndsWith(uploads_.asked());
  facts.weight_check_every = config_.weight_check_every;
  facts.local_steps = local_steps_;
  StepDecision decision = DecideStep(facts);
  // Members may have prepared for a checkpoint, or not; the last step has one in any case.
  if (told_ && decision.sync && facts.applied < facts.steps) {
    decision.checkpoint = told_->checkpoint();
    const bool compared = decision.checkpoint && plan_.pipelines() > 1;
    decision.check_weights = decision.check_weights || compared;
  }
  return decision;
}

void TrainingSteps::OnSynced(const Member& member, const control::v1::SyncDone& done) {
  if (!InProgress(done.step()) || !reduced_ ||
      done.amendment() != counting_.AmendmentsOf(done.step())) {
    return;
  }
  const auto pipeline = static_cast<std::uint32_t>(member.pipeline);
  if (!std::isfinite(done.squared_norm())) NoteLost(member);
  const auto stage = static_cast<std::uint32_t>(member.stage);
  if (!account_.AddSynced(pipeline, stage, done.squared_norm(), reaction_.now())) return;
  stage_choice_.Add(stage, account_.ready_after(pipeline, stage), done);
  if (account_.all_synced()) EndExchange();
}

void TrainingSteps::EndExchange() {
  stage_choice_.EndStep();
  FinishStep();
}

void TrainingSteps::FinishStep() {
  const bool skips = lost_.any();
  if (const auto misfit = skips ? std::nullopt : LostByFollower()) return Refuse(*misfit);
  if (const auto misfit = skips ? std::nullopt : values_.Norms(account_, decision_.sync))
    return Refuse(*misfit);
  const std::uint64_t labels = account_.labels();
  if (labels == 0) {
    lifecycle_.Hold("step " + std::to_string(history_.step()) +
                    " has no labels: the data seems to hold only padding; prepare it again");
    return;
  }
  if (skips && history_.skipped_in_a_row() >= kSkippedStepsMax) return StopOnGradients();
  const double loss = account_.loss_sum() / static_cast<double>(labels);
  const double norm = skips ? 0 : std::sqrt(account_.squared_norm()) / static_cast<double>(labels);
  RecordHeldOut();
  SendApply(loss, norm, labels);
  times_.Add(account_.elapsed(reaction_.now()), account_.between_ready_and_synced());
  uploads_.AddStep(account_.elapsed(reaction_.now()));
  TellApplied(loss, norm);
  lost_.End();
  if (skips) {
    SkipStep(loss);
  } else {
    journal_.AddLoss(loss);
    values_.AddStep(account_, decision_.sync, loss);
  }
  if (decision_.checkpoint) uploads_.Begin();
  if (decision_.check_weights) check_weights_ = false;
  if (lifecycle_.StepDone(decision_.checkpoint)) return;
  BeginStep();
  SendStepPlans();
}

void TrainingSteps::RecordHeldOut() {
  const std::optional<double> loss = account_.held_out_loss();
  if (!loss) return;
  if (!std::isfinite(*loss)) {
    SHOAL_LOG(kWarning, "scheduler", "held_out.not_finite", {"step", history_.step()});
    return;
  }
  if (*loss < -kLossBelowZero || *loss > kLossMax) {
    SHOAL_LOG(kWarning, "scheduler", "held_out.refused", {"step", history_.step()},
              {"loss", *loss});
    return;
  }
  journal_.Record(HeldOutMeasured{history_.step(), *loss});
  SHOAL_LOG(kInfo, "scheduler", "held_out.measured", {"step", history_.step()}, {"loss", *loss});
}

void TrainingSteps::SendApply(double loss, double norm, std::uint64_t labels) {
  control::v1::SchedulerMessage message;
  control::v1::Apply* apply = message.mutable_apply();
  apply->set_generation(history_.generation());
  apply->set_step(history_.step());
  apply->set_global_norm(norm);
  apply->set_learning_rate(LearningRate(config_, history_.step()));
  apply->set_labels(labels);
  apply->set_loss(loss);
  if (const auto& held_out = history_.held_out();
      !held_out.empty() && held_out.back().step == history_.step()) {
    *apply->mutable_held_out() = ToMessage(held_out.back());
  }
  apply->set_check_weights(decision_.check_weights);
  apply->set_skip(lost_.any());
  last_apply_ = *apply;
  last_apply_->set_check_weights(false);
  for (const Member* const member : plan_.Hosts()) {
    // What is saved was made ready for it with Reduce; what asked for it since gets the next step.
    apply->set_checkpoint(decision_.checkpoint && !plan_.IsShadow(member->peer));
    reaction_.Send(*member, message);
  }
}

// Before an event has the loss.
void TrainingSteps::TellApplied(double loss, double norm) {
  StepApplied applied;
  applied.step = history_.step() + 1;
  applied.loss = loss;
  applied.seconds = std::chrono::duration<double>(account_.elapsed(reaction_.now())).count();
  applied.control_seconds = times_.control_seconds();
  applied.samples = std::uint64_t{config_.micro_batches} * config_.micro_batch_rows;
  applied.learning_rate = LearningRate(config_, history_.step());
  applied.gradient_norm = norm;
  applied.pipelines = static_cast<std::uint32_t>(counting_.At(history_.step()).size());
  applied.skipped = lost_.any();
  reaction_.Add(applied);
}

void TrainingSteps::NoteLost(const Member& member) {
  const Pipelines& counting = counting_.At(history_.step());
  if (std::ranges::count(counting, static_cast<std::uint32_t>(member.pipeline)) == 0) {
    lost_follower_ = member.peer;
    return;
  }
  lost_.Add(member.peer, member.LabelWithPosition());
}

// Who only follows has the sum of those who count, which they have found finite.
std::optional<Misfit> TrainingSteps::LostByFollower() const {
  for (const Member* const member : plan_.Hosts()) {
    if (member->peer != lost_follower_) continue;
    return Misfit{member, member->LabelWithPosition() + " only follows the others at step " +
                              std::to_string(history_.step()) +
                              " and reports a gradient that is not finite: its values are wrong"};
  }
  return std::nullopt;
}

void TrainingSteps::SkipStep(double loss) {
  const std::string cause =
      "the gradient is not finite at step " + std::to_string(history_.step()) + " (" +
      lost_.first() +
      "), which was skipped; if that goes on, lower learning_rate or take more backward codec bits "
      "in run.toml";
  SHOAL_LOG(kWarning, "scheduler", "step.skipped", {"step", history_.step()},
            {"in_a_row", history_.skipped_in_a_row() + 1}, {"cause", cause});
  journal_.AddSkipped(loss, cause);
}

const Member* TrainingSteps::WhoLosesGradients() const {
  if (counting_.At(history_.step()).size() < 2) return nullptr;
  const std::optional<PeerId> peer = lost_.Alone(kSkippedStepsMax);
  for (const Member* const member : plan_.Hosts()) {
    if (member->peer == peer) return member;
  }
  return nullptr;
}

// What only one of several pipelines has is hardly the learning rate's.
void TrainingSteps::StopOnGradients() {
  if (const Member* const member = WhoLosesGradients()) {
    return Refuse({member, member->LabelWithPosition() +
                               " has a gradient that is not finite at step " +
                               std::to_string(history_.step()) + " and had one in the " +
                               std::to_string(kSkippedStepsMax) +
                               " steps before, as no other member: its values are wrong, or "
                               "training diverges and learning_rate is too high"});
  }
  lifecycle_.Hold("the gradient is not finite at step " + std::to_string(history_.step()) + " (" +
                      lost_.first() + "), nor was it in the " + std::to_string(kSkippedStepsMax) +
                      " steps before: lower learning_rate or take more backward codec bits in "
                      "run.toml and start "
                      "the scheduler again; or try once more with: shoal swarm resume",
                  {false});
}

// The step is not applied. A spare takes the position of the member, where it is one.
void TrainingSteps::Refuse(const Misfit& misfit) {
  values_.Refused(misfit.cause);
  if (misfit.member == nullptr) return lifecycle_.Interrupt(misfit.cause, {false});
  SHOAL_LOG(kWarning, "scheduler", "value.refused", {"step", history_.step()},
            {"cause", misfit.cause});
  faults_.Misbehaved(*misfit.member, FaultKind::kValues, misfit.cause);
}

}  // namespace shoal::scheduler
