// The step protocol of stage_runner.h: link-up, micro-batches, reduce, apply, watchdog.

#include "pipeline/runner/stage_runner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "common/log.h"
#include "common/units.h"
#include "pipeline/core/generation.h"
#include "pipeline/core/lifecycle.h"
#include "pipeline/core/link_progress.h"
#include "pipeline/runner/applying_steps.h"
#include "pipeline/runner/model_facts.h"
#include "pipeline/runner/pipeline_work.h"
#include "pipeline/runner/runner_checks.h"
#include "pipeline/runner/runner_codecs.h"
#include "pipeline/runner/step_plans.h"
#include "pipeline/runner/step_report.h"
#include "replica/group_links.h"
#include "replica/methods/replica_method.h"
#include "replica/reduction_shares.h"
#include "replica/replica_step.h"
#include "replica/state/state_transfer.h"
#include "replica/step_registry.h"

namespace shoal::pipeline {
namespace {

constexpr int kWatchdogTicks = 4;  // per step stall

class Runner final : public StageRunner {
 public:
  Runner(const RunnerConfig& config, const Dependencies& dependencies, RunnerCodecs codecs)
      : config_(config),
        resources_(dependencies),
        links_(dependencies.hub, config.run, config.generation),
        codecs_(std::move(codecs)),
        generation_(dependencies.control, std::bind_front(&Runner::OnFailure, this),
                    config.timeouts),
        activity_(&dependencies.control->clock()),
        mediator_(dependencies.mediator),
        notices_(dependencies.control),
        plans_(config_),
        applying_(config.resume_step) {
    for (const std::string& text : codecs_.on_host) NoteOnHost(text);
    FillMember();
  }
  ~Runner() override { Leave(); }

  void Start(const LinkTargets& targets) override;
  void OnStepPlan(StepPlan plan) override;
  void OnSpotOrder(SpotOrder order) override {
    SHOAL_ASSERT_ON(*resources_.control);
    if (work_) work_->spot_checks().OnOrder(std::move(order));
  }
  void OnReduce(const replica::ReduceOrder& order) override;
  void OnApply(const replica::ApplyOrder& order) override;
  void Settle(std::function<void(Result<std::uint64_t>)> done) override;
  void OnFinished() override;
  bool synced() const override {
    SHOAL_ASSERT_ON(*resources_.control);
    return state_ == RunnerState::kSynced;
  }
  bool goes_on() const override {
    SHOAL_ASSERT_ON(*resources_.control);
    return !failed() && GoesOnAlone(state_) && !undecided();
  }
  std::optional<StepInProgress> in_progress() const override {
    SHOAL_ASSERT_ON(*resources_.control);
    if (!goes_on() || !applying_.settled()) return std::nullopt;
    return StepInProgress{*applying_.settled(), plans_.planned()};
  }
  std::optional<replica::MissingValues> missing_state() const override {
    SHOAL_ASSERT_ON(*resources_.control);
    return transfer_ ? transfer_->missing() : config_.missing;
  }
  RunnerStats stats() const override;
  std::vector<net::LinkStats> link_stats() const override;

 private:
  bool failed() const { return generation_.ended(); }
  bool follows() const { return config_.HasGap(config_.pipeline); }
  // Whether its pipeline is broken, and the scheduler has not said what becomes of the step.
  bool undecided() const { return work_ && work_->broken() && !follows(); }
  bool Go(RunnerEvent event, const char* order);
  void Fail(const Status& status, const PeerId* peer = nullptr) { generation_.Fail(status, peer); }
  void OnFailure(const Status& status, const PeerId* peer);
  void FillMember();
  void Leave();
  template <typename Function>
  void EachBoundary(const Function& function) const {
    if (work_) work_->EachBoundary(function);
  }
  void ResetModel();
  Status MakeReplicaStep(const ModelFacts& facts);
  void MakeStateTransfer(const ModelFacts& facts);
  void NoteOnHost(const std::string& text) {
    SHOAL_LOG(kWarning, "pipeline", "device.on_host", {"text", text});
    on_host_.push_back(text);
  }
  std::unique_ptr<PipelineWork> MakeWork(const LinkTargets& targets,
                                         std::unique_ptr<PipelineWork> before = nullptr);
  void Retire();
  void OnPipelineFailed(const Status& status, const PeerId* peer);
  void MaybeUp();
  void MaybeStartStep();
  void OnAmendedPlan(StepPlan plan);
  bool OnLost(const std::vector<Position>& lost);
  void ExtendStep(StepPlan plan, bool begins_to_follow);
  void StartStep();
  bool OnPeerLost(const Status& status, const PeerId& peer);
  void TellLost(const Status& status, const PeerId& peer, bool halted);
  // Whether others may go on with the step where a peer is lost, and this one with them.
  bool Outlives() const { return outlives_ && config_.pipelines > 1 && GoesOnAlone(state_); }
  void OnMicroBatchesDone();
  void ReportReady(double squared_norm);
  void Reduced(double squared_norm);
  void ApplyModel(const replica::ApplyOrder& order);
  void OnModelApplied(std::uint64_t step, const Status& status);
  void TellSettled();
  void CommitBoundaries(std::uint64_t step);
  void ReportApplied();
  void CheckProgress();
  std::string Awaited(const PeerId** peer) const;

  RunnerConfig config_;  // pipelines get gaps
  const RunnerResources resources_;
  const net::GenerationLinks links_;
  const RunnerCodecs codecs_;
  std::vector<std::string> on_host_;
  Generation generation_;
  TransferStats transfers_;
  ComputeStats computed_;
  ActivityAccount activity_;
  replica::Member member_;
  Mediator* const mediator_;
  TaskScope notices_;  // outlives a failure: OnFailed goes through it
  RunnerState state_ = RunnerState::kNew;
  bool model_clean_ = false;  // gradients zeroed
  StepPlans plans_;
  StepPlan plan_;            // of the running or last step
  std::uint64_t step_ = 0;   // running or last
  bool local_norm_ = false;  // is told with the end of the micro-batches
  bool outlives_ = false;    // other pipelines, by its replica method
  ApplyingSteps applying_;
  std::function<void(Result<std::uint64_t>)> settled_;
  LinkProgress moved_;
  std::uint64_t in_flight_bytes_ = 0, pending_bytes_ = 0;  // PipelineWork::SetUp

  // Last, in this order: their callbacks use what is above, and the replica step uses the group.
  std::unique_ptr<replica::GroupLinks> group_;
  std::unique_ptr<replica::ReplicaStep> replica_;
  std::unique_ptr<replica::StateTransfer> transfer_;  // null: nobody lacks state
  std::unique_ptr<PipelineWork> work_;
};

bool Runner::Go(RunnerEvent event, const char* order) {
  const std::optional<RunnerState> next = NextState(state_, event);
  if (!next) {
    Fail(FailedPrecondition(std::string(order) + " came while " +
                            std::string(RunnerStateName(state_))));
    return false;
  }
  state_ = *next;
  generation_.Progress();
  if (const std::optional<Activity> activity = ActivityOf(state_)) activity_.Become(*activity);
  return true;
}

void Runner::OnFinished() {
  SHOAL_ASSERT_ON(*resources_.control);
  activity_.Close();
  generation_.End();
  if (work_) work_->End();
}

void Runner::Settle(std::function<void(Result<std::uint64_t>)> done) {
  SHOAL_ASSERT_ON(*resources_.control);
  if (!failed()) OnFinished();
  if (replica_ != nullptr) replica_->Abandon();
  settled_ = std::move(done);
  TellSettled();
}

void Runner::TellSettled() {
  if (!settled_ || applying_.model_at_work()) return;
  notices_.Post("runner.settled", [this] {
    if (settled_ && !applying_.model_at_work()) std::exchange(settled_, nullptr)(applying_.held());
  });
}

void Runner::OnFailure(const Status& status, const PeerId* peer) {
  activity_.Close();
  if (work_) work_->End();
  LogFailure(config_, step_, status);
  const std::optional<PeerId> who = peer != nullptr ? std::optional(*peer) : std::nullopt;
  notices_.Post("runner.failed",
                [this, status, who] { mediator_->OnFailed(status, who ? &*who : nullptr); });
}

std::unique_ptr<PipelineWork> Runner::MakeWork(const LinkTargets& targets,
                                               std::unique_ptr<PipelineWork> before) {
  PipelineWork::Handlers handlers;
  handlers.on_up = [this] { MaybeUp(); };
  handlers.on_final_gradients = [this](std::size_t parts) {
    replica_->OnFinalGradients(step_, parts);
  };
  handlers.on_done = [this] { OnMicroBatchesDone(); };
  handlers.on_spot_checked = [this](const SpotResult& result) {
    notices_.Post("runner.spot_checked", [this, result] {
      if (!failed()) mediator_->OnSpotChecked(result);
    });
  };
  handlers.on_failed = std::bind_front(&Runner::OnPipelineFailed, this);
  return std::make_unique<PipelineWork>(
      PipelineWork::Parts{&config_, &resources_, &codecs_, &links_, &plan_, &transfers_, &computed_,
                          &activity_, member_.mark},
      std::move(handlers), targets.previous, targets.next, std::move(before));
}

// What is left of it: the pipeline lacks a stage. What it computed of the step counts for nothing,
// and what its boundaries hold of it is never committed. It may be at work right now.
void Runner::Retire() {
  if (work_->broken()) return;
  work_->End();
  work_ = MakeWork({}, std::move(work_));
  work_->SetUp(in_flight_bytes_, pending_bytes_, replica_->gate());
  transfers_.staged_bytes = transfers_.prefetch_bytes = 0;
  if (state_ == RunnerState::kRunning) activity_.Become(Activity::kStep);
  applying_.ForgoBoundaries();
  ReportApplied();
}

// Where a neighbour is lost others may go on, and this peer follows them.
void Runner::OnPipelineFailed(const Status& status, const PeerId* peer) {
  const bool lost =
      status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDeadlineExceeded;
  const bool outlives = peer != nullptr && lost && !work_->broken() && Outlives();
  if (!outlives) return Fail(status, peer);
  TellLost(status, *peer, true);
  Retire();
}

void Runner::Start(const LinkTargets& targets) {
  SHOAL_ASSERT_ON(*resources_.control);
  if (!Go(RunnerEvent::kStart, "Start")) return;
  if (Status status = CheckTargets(config_, targets); !status.ok()) return Fail(status);
  if (resources_.kept != nullptr) resources_.kept->At(config_.resume_step);
  ResetModel();
  work_ = MakeWork(targets);
  if (config_.pipelines > 1 || !targets.shared.empty()) {
    group_ = std::make_unique<replica::GroupLinks>(&member_, links_, targets.group, targets.shared,
                                                   [this] { MaybeUp(); });
  }
  work_->Open();
  if (group_) group_->Open();
  generation_.Every(config_.timeouts.step_stall / kWatchdogTicks, [this] { CheckProgress(); });
  generation_.Every(OperationWatch::kLookEvery, [this] { work_->CheckOperations(); });
}

void Runner::FillMember() {
  member_.config = config_;  // the part of it that a member has
  member_.control = resources_.control;
  member_.compute = resources_.compute;
  member_.codec = resources_.codec;
  member_.model = resources_.model;
  member_.home = codecs_.home;
  if (resources_.kept != nullptr) member_.errors = resources_.kept->errors();
  member_.progress = [this] { generation_.Progress(); };
  member_.computing = [this](std::optional<model::Pass> pass) {
    activity_.Become(pass ? ActivityOf(*pass) : Activity::kExchange);
  };
  member_.lost = std::bind_front(&Runner::OnPeerLost, this);
  member_.fail = [this](const Status& status, const PeerId* peer) { Fail(status, peer); };
  member_.ended = [this] { return failed(); };
}

void Runner::Leave() {
  generation_.scope().Cancel();
  if (work_) work_->End();
  if (resources_.kept == nullptr || replica_ == nullptr || !applying_.settled()) return;
  resources_.kept->At(*applying_.settled());
  replica_->KeepErrors(resources_.kept->errors());
  EachBoundary([this](Boundary* boundary) { boundary->Keep(resources_.kept); });
}

void Runner::ResetModel() {
  auto reset = [model = resources_.model, rows = config_.micro_batch_rows,
                tokens = config_.row_tokens] {
    model->ZeroGradients();
    return FactsOf(*model, rows, tokens);
  };
  generation_.scope().Run(
      resources_.compute, "model.reset", std::move(reset), [this](const ModelFacts& facts) {
        // Beside what the model keeps: the activation kept for a resend, the gradient's buffer.
        const std::uint64_t values =
            std::uint64_t{config_.micro_batch_rows} * config_.row_tokens * config_.hidden;
        in_flight_bytes_ = facts.micro_batch_bytes + 2 * sizeof(float) * values;
        pending_bytes_ = facts.pending_weights_bytes;
        if (Status status = MakeReplicaStep(facts); !status.ok()) return Fail(status);
        model_clean_ = true;
        MaybeUp();
      });
}

Status Runner::MakeReplicaStep(const ModelFacts& facts) {
  SHOAL_ASSIGN_OR_RETURN(replica::ReplicaContext context,
                         ReplicaContextOf(config_, facts, &member_, group_.get()));
  local_norm_ = context.method.traits.clips_locally;
  outlives_ = context.method.traits.follows_steps;
  SHOAL_ASSIGN_OR_RETURN(replica_, replica::NewReplicaStep(std::move(context)));
  if (group_ && replica_->on_host() && !codecs_.home->on_host()) {
    NoteOnHost(ExchangeOnHostText(config_, facts));
  }
  MakeStateTransfer(facts);
  member_.stats.shard_bytes = replica_->StateBytes();
  work_->SetUp(in_flight_bytes_, pending_bytes_, replica_->gate());
  return Status::Ok();
}

void Runner::MakeStateTransfer(const ModelFacts& facts) {
  if (config_.holders.empty() || !group_ || group_->state_group() == nullptr) return;
  replica::StateTransfer::Options options = TransferOptionsOf(config_, facts);
  options.steps_held = [this] { return applying_.settled(); };
  options.peer = [this](std::size_t member) {
    return &group_->peer(*group_->state_group(), member);
  };
  options.on_complete = [this] {
    notices_.Post("runner.caught_up", [this] {
      if (!failed() && applying_.held().ok()) mediator_->OnCaughtUp(*applying_.held());
    });
  };
  transfer_ =
      std::make_unique<replica::StateTransfer>(&member_, group_->state_group(), std::move(options));
}

void Runner::MaybeUp() {
  if (failed() || state_ != RunnerState::kOpening || !model_clean_) return;
  if ((group_ && !group_->up()) || !work_->up()) return;
  Go(RunnerEvent::kLinksUp, "link-up");
  if (transfer_) transfer_->Start();
  notices_.Post("runner.ready", [this] {
    if (!failed()) mediator_->OnReady();
  });
  MaybeStartStep();
}

void Runner::OnStepPlan(StepPlan plan) {
  SHOAL_ASSERT_ON(*resources_.control);
  if (failed()) return;
  if (state_ == RunnerState::kNew) return Fail(FailedPrecondition("a plan before Start"));
  if (plan.amendment > 0 || !plan.lost.empty()) return OnAmendedPlan(std::move(plan));
  if (Status status = plans_.Add(plan); !status.ok()) return Fail(status);
  EachBoundary([&](Boundary* boundary) { boundary->PlanPrefetch(plan); });
  MaybeStartStep();
}

void Runner::OnAmendedPlan(StepPlan plan) {
  if (!GoesOnAlone(state_)) return Fail(FailedPrecondition("a plan was amended before link-up"));
  if (Status status = CheckLost(config_, plan); !status.ok()) return Fail(status);
  const bool begins_to_follow = OnLost(plan.lost);
  if (plan.amendment == 0) return;  // they only followed
  if (!plans_.Has(plan.step)) return ExtendStep(std::move(plan), begins_to_follow);
  EachBoundary([&](Boundary* boundary) { boundary->ExtendPlan(plan); });
  if (Status status = plans_.Amend(std::move(plan)); !status.ok()) return Fail(status);
  MaybeStartStep();
}

// True: this peer's pipeline has a gap from now on, and had none before.
bool Runner::OnLost(const std::vector<Position>& lost) {
  const bool followed = follows();
  std::vector<std::uint32_t> of_group;
  for (const Position& at : lost) {
    if (!config_.HasGap(at.pipeline)) config_.with_gaps.push_back(at.pipeline);
    if (group_) group_->Leave(at.pipeline, at.stage);
    if (at.stage == config_.stage) of_group.push_back(at.pipeline);
  }
  if (transfer_) transfer_->Leave(of_group);
  if (followed || !follows()) return false;
  Retire();
  return true;
}

void Runner::ExtendStep(StepPlan plan, bool begins_to_follow) {
  if (Status s = CheckAmendment(config_, plan_, plan); !s.ok()) return Fail(s);
  if (!Go(RunnerEvent::kAmended, "more micro-batches")) return;
  plan_.micro_batches = std::move(plan.micro_batches);
  plan_.amendment = member_.amendment = plan.amendment;
  plan_.counting = member_.counting = std::move(plan.counting);
  if (Status status = replica_->Reopen(); !status.ok()) return Fail(status);
  if (!begins_to_follow) return work_->ExtendStep();
  member_.mark = std::make_shared<replica::GradientMark>();  // that of the former is theirs
  // What it computed is in its gradients, also of tasks that are under way.
  auto drop = [model = resources_.model] { return model->ZeroGradients(), true; };
  generation_.scope().Run(resources_.compute, "gradients.drop", std::move(drop),
                          [this](bool) { StartStep(); });
}

void Runner::StartStep() {
  if (Status status = work_->StartStep(); !status.ok()) Fail(status);
}

// The scheduler hears of it, and says who has left.
bool Runner::OnPeerLost(const Status& status, const PeerId& peer) {
  if (!Outlives()) return false;
  TellLost(status, peer, false);
  return true;
}

void Runner::TellLost(const Status& status, const PeerId& peer, bool halted) {
  notices_.Post("runner.peer_lost", [this, status, peer, halted] {
    if (!failed()) mediator_->OnPeerLost(status, peer, halted);
  });
}

void Runner::MaybeStartStep() {
  if (failed() || undecided() || state_ != RunnerState::kWaiting || plans_.empty()) return;
  if (!Go(RunnerEvent::kPlan, "a step plan")) return;
  plan_ = plans_.Take();
  step_ = plan_.step;
  member_.mark->Clear();
  member_.counting = plan_.counting;
  member_.amendment = plan_.amendment;
  if (!plan_.group_lines.empty()) member_.group_shares = replica::SharesByRates(plan_.group_lines);
  if (!plan_.shared_lines.empty())
    member_.shared_shares = replica::SharesByRates(plan_.shared_lines);
  StartStep();
}

void Runner::OnMicroBatchesDone() {
  if (!local_norm_) return ReportReady(0);
  auto norm = [model = resources_.model] { return model->SquaredGradientNorm(1.0); };
  generation_.scope().Run(resources_.compute, "gradients.local_norm", std::move(norm),
                          [this, of = plan_.amendment](double squared_norm) {
                            // There is more to compute, or nothing that counts.
                            if (of != plan_.amendment || undecided()) return;
                            // Others clip by it. What is lost is 0 to them, and skips the step.
                            if (!std::isfinite(squared_norm)) member_.mark->Set();
                            ReportReady(std::isfinite(squared_norm) ? squared_norm : 0);
                          });
}

void Runner::ReportReady(double squared_norm) {
  if (!Go(RunnerEvent::kMicroBatchesDone, "the end of the micro-batches")) return;
  const StepReady ready = ReadyOf(plan_, squared_norm, work_->compute(), work_->evaluation(),
                                  work_->previous(), work_->next(), config_.spot_checks);
  notices_.Post("runner.step_ready", [this, ready] {
    if (!failed()) mediator_->OnStepReady(ready);
  });
  work_->spot_checks().SetIdle(true);
}

void Runner::OnReduce(const replica::ReduceOrder& order) {
  SHOAL_ASSERT_ON(*resources_.control);
  if (failed()) return;
  if (Status status = CheckReduce(config_, order, step_, local_norm_); !status.ok())
    return Fail(status);
  if (!Go(RunnerEvent::kReduce, "Reduce")) return;
  if (std::ranges::count(order.pipelines, config_.pipeline) == 0) {
    EachBoundary([](Boundary* boundary) { boundary->DropStaged(); });
  }
  replica_->Reduce(order, [this](Result<double> squared_norm) {
    if (failed()) return;
    if (!squared_norm.ok()) return Fail(squared_norm.status());
    Reduced(*squared_norm);
  });
}

void Runner::Reduced(double squared_norm) {
  if (!Go(RunnerEvent::kReduced, "the end of the exchange")) return;
  if (member_.mark->lost()) squared_norm = std::numeric_limits<double>::quiet_NaN();
  notices_.Post("runner.sync_done", [this, step = step_, by = plan_.amendment, squared_norm] {
    if (!failed()) mediator_->OnSyncDone(step, by, squared_norm);
  });
}

void Runner::OnApply(const replica::ApplyOrder& order) {
  SHOAL_ASSERT_ON(*resources_.control);
  // The group has agreed on the step: others apply it.
  if (failed() && state_ != RunnerState::kSynced) return;
  if (Status status = CheckApply(order, step_); !status.ok()) return Fail(status);
  if (!failed() && !Go(RunnerEvent::kApply, "Apply")) return;
  state_ = RunnerState::kApplying;
  work_->spot_checks().OnApply();
  if (follows()) work_->DropBefore(order.step);
  applying_.Begin(order.step);
  ApplyModel(order);
  CommitBoundaries(order.step);
}

void Runner::ApplyModel(const replica::ApplyOrder& order) {
  applying_.BeginModel();
  replica_->Apply(order, [this, step = order.step](const Status& status) {
    applying_.EndModel(step, status);
    TellSettled();
    OnModelApplied(step, status);
  });
}

void Runner::OnModelApplied(std::uint64_t step, const Status& status) {
  if (failed()) return;
  if (!status.ok()) return Fail(status.WithContext("optimizer"));
  mediator_->OnModelApplied(step);
  if (transfer_) transfer_->OnApplied();
  if (!Go(RunnerEvent::kApplied, "the end of Apply")) return;
  ReportApplied();
  MaybeStartStep();
}

void Runner::CommitBoundaries(std::uint64_t step) {
  const auto committed = [this, step](const BoundaryChecksum& end) {
    applying_.AddBoundary(step, end);
    generation_.Progress();
    ReportApplied();
  };
  EachBoundary([&](Boundary* end) {
    const std::size_t ends = end->Commit(step, committed);
    if (!work_->broken()) applying_.Await(ends);
  });
}

void Runner::ReportApplied() {
  while (const std::optional<AppliedStep> done = applying_.TakeDone()) {
    notices_.Post("runner.applied", [this, done] {
      if (!failed()) mediator_->OnApplied(done->step, done->boundaries);
    });
  }
}

RunnerStats Runner::stats() const {
  SHOAL_ASSERT_ON(*resources_.control);
  RunnerStats stats;
  static_cast<TransferStats&>(stats) = transfers_;
  static_cast<ComputeStats&>(stats) = computed_;
  static_cast<replica::ReplicaStats&>(stats) = member_.stats;
  stats.time = activity_.used();
  stats.codec_device_ms = codecs_.home->device_ms();
  stats.on_host = on_host_;
  stats.state_bytes = transfer_ ? transfer_->bytes_here() : 0;
  stats.state_bytes_wanted = transfer_ ? transfer_->bytes_wanted() : 0;
  EachBoundary([&](const Boundary* end) { stats.boundaries.push_back(end->stats()); });
  return stats;
}

std::vector<net::LinkStats> Runner::link_stats() const {
  SHOAL_ASSERT_ON(*resources_.control);
  std::vector<net::LinkStats> stats = group_ ? group_->link_stats() : std::vector<net::LinkStats>();
  EachBoundary([&](const Boundary* end) { stats.push_back(end->link_stats()); });
  return stats;
}

void Runner::CheckProgress() {
  // The scheduler, where it is awaited, watches all peers.
  Generation& pipeline = work_->generation();
  const bool awaits_scheduler = AwaitsScheduler(state_) || undecided();
  if (moved_.Moved(link_stats()) || awaits_scheduler) generation_.Progress();
  const TimePoint moved = std::max(generation_.last_progress(), pipeline.last_progress());
  const Duration idle = resources_.control->clock().Now() - moved;
  // Where an operation usually takes longer than that, no step stalls by it.
  if (idle < std::max(config_.timeouts.step_stall, 2 * work_->longest())) return;
  const PeerId* peer = nullptr;
  const std::string awaited = Awaited(&peer);
  Generation& stalled = state_ == RunnerState::kRunning ? pipeline : generation_;
  stalled.Fail(DeadlineExceeded(StallText(idle, state_, step_, awaited)), peer);
}

std::string Runner::Awaited(const PeerId** peer) const {
  *peer = nullptr;
  if (state_ == RunnerState::kOpening) {
    return AwaitedAtLinkUp(work_->previous(), work_->next(), group_.get(), peer);
  }
  const bool runs = state_ == RunnerState::kRunning;
  if (runs && work_->evaluation().active()) return work_->evaluation().Awaited(peer);
  std::string awaited = runs && replica_->gate() == nullptr ? "" : replica_->Awaited(peer);
  if (!awaited.empty()) return awaited;
  if (runs) return work_->compute().Awaited(peer);
  return state_ == RunnerState::kReducing ? "this peer's model"
                                          : "this peer's optimizer or delta store";
}

}  // namespace

Result<std::unique_ptr<StageRunner>> NewStageRunner(const RunnerConfig& config,
                                                    const StageRunner::Dependencies& dependencies) {
  SHOAL_RETURN_IF_ERROR(CheckRunnerConfig(config));
  SHOAL_ASSIGN_OR_RETURN(RunnerCodecs codecs, MakeRunnerCodecs(config, dependencies.home));
  SHOAL_CHECK(dependencies.mediator != nullptr);
  SHOAL_RETURN_IF_ERROR(
      CheckRunnerResources(config, dependencies, *codecs.forward, *codecs.backward));
  return std::unique_ptr<StageRunner>(
      std::make_unique<Runner>(config, dependencies, std::move(codecs)));
}

}  // namespace shoal::pipeline
