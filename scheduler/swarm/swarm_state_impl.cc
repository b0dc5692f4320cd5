#include "scheduler/swarm/swarm_state_impl.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/units.h"
#include "compression/replica/replica_method.h"
#include "scheduler/swarm/peer_message_check.h"

namespace shoal::scheduler {
namespace {

constexpr const char* kHowToResume = "continue with: shoal swarm resume";

std::uint32_t LocalSteps(const RunConfig& config) {
  const auto method = compression::ParseReplicaMethod(config.replica_method);
  return method.ok() && config.pipelines > 1 ? method->local.steps : 0;
}

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

SwarmStateImpl::SwarmStateImpl(const RunConfig& config, ArtefactMap initial,
                               std::string join_secret)
    : config_(config),
      initial_(std::move(initial)),
      join_secret_(std::move(join_secret)),
      config_hash_(ConfigHash(config, initial_)),
      local_steps_(LocalSteps(config)),
      account_(config.stages, config.pipelines),
      stage_choice_(config.replica_method, config.stages, config.pipelines),
      line_rates_(config.pipelines, config.stages),
      consistency_(config.pipelines),
      plausibility_(config.stages) {
  auto sampler = dataset::Sampler::Make(
      {config.seed, config.train_rows, config.micro_batches, config.micro_batch_rows});
  if (sampler.ok()) {
    sampler_ = std::move(sampler).value();
  } else {
    Fail(sampler.status().message());
  }
}

std::vector<Action> SwarmStateImpl::Handle(const Event& event, TimePoint now) {
  now_ = now;
  out_.clear();
  if (!began_) {
    began_ = true;
    Store(RunBegan{config_.run, config_hash_});
  }
  const RunState before = state_;
  std::visit([this](const auto& e) { On(e); }, event);
  TryPlan();
  if (state_ != before || std::holds_alternative<Tick>(event)) ShowStatus(state_ != before);
  return std::move(out_);
}

void SwarmStateImpl::On(const PeerConnected& event) {
  if (members_.connections() >= kConnectionsMax) {
    out_.push_back(
        Disconnect{event.connection,
                   ResourceExhausted("the scheduler serves " + std::to_string(kConnectionsMax) +
                                     " connections and takes no more; try again later")});
    return;
  }
  members_.Open(event.connection, event.peer, event.address, now_);
}

void SwarmStateImpl::On(const PeerMessageReceived& event) {
  if (members_.FindConnection(event.connection) == nullptr) return;  // dropped meanwhile
  if (Status checked = CheckPeerMessage(event.message, config_); !checked.ok()) {
    Drop(event.connection, std::move(checked));
    return;
  }
  if (event.message.has_hello()) {
    OnHello(event.connection, event.message.hello());
    return;
  }
  Member* member = members_.Of(event.connection);
  if (member == nullptr) {
    Drop(event.connection, FailedPrecondition("the first message must be a hello"));
    return;
  }
  member->last_heard = now_;
  OnMember(member, event.message);
}

void SwarmStateImpl::On(const PeerDisconnected& event) {
  Member* member = members_.Of(event.connection);
  members_.Close(event.connection);
  if (member != nullptr) Lost(member, event.reason);
}

void SwarmStateImpl::On(const AdminCommand& event) {
  switch (event.kind) {
    case AdminCommand::Kind::kStart:
      if (!started_) Store(RunStarted{});
      started_ = true;
      if (held_) OrderResume();
      break;
    case AdminCommand::Kind::kPause: OrderPause(); break;
    case AdminCommand::Kind::kResume: OrderResume(); break;
  }
}

void SwarmStateImpl::OrderPause() {
  if (state_ == RunState::kFinished || state_ == RunState::kFailed) return;
  const std::string cause = std::string("paused by the organiser; ") + kHowToResume;
  if (state_ == RunState::kTraining && step_ < config_.steps) {
    // The next step ends with a checkpoint, so that no work is lost; a second order joins the
    // first.
    if (ending_ && ending_->hold) return;
    ending_ = Ending{cause, ending_ ? ending_->from : step_, true};
    Store(RunHeld{cause});  // survives a restart before that checkpoint is whole
    return;
  }
  Hold(cause, nullptr);
}

void SwarmStateImpl::OrderResume() {
  if (ending_ && ending_->hold) {
    ending_.reset();
    Store(RunReleased{});
    for (const Member* member : PlanMembers()) {  // who wants to go still does
      if (!member->wants_stage) ending_ = Ending{HandsOver(*member), step_, false};
    }
    MaybeReduce();
  }
  failures_ = 0;
  refusals_.clear();
  replaced_.clear();
  complaints_.Clear();
  weight_repairs_.clear();
  not_before_ = now_;
  if (!held_) return;
  held_ = false;
  cause_ = "the organiser ordered to resume";
  Store(RunReleased{});
}

void SwarmStateImpl::On(const Tick&) {
  for (const ConnectionId id : members_.Silent(now_, config_.peer_timeout, kHelloTimeout)) {
    Drop(id, DeadlineExceeded("nothing was heard of it for " +
                              FormatDuration(members_.Of(id) != nullptr ? config_.peer_timeout
                                                                        : kHelloTimeout)));
  }
  for (const PeerId& peer : members_.ForgetAway(now_, kAwayLimit, kAbsentMax)) {
    round_trips_.Forget(peer);
  }
  DoubtedForLong();
}

bool SwarmStateImpl::Enter(RunEvent event) {
  const auto next = NextState(state_, event);
  if (next) state_ = *next;
  return next.has_value();
}

void SwarmStateImpl::EndGeneration(const std::string& cause, const Member* lost) {
  const bool was_active = active();
  if (!Enter(RunEvent::kInterrupted)) return;
  cause_ = cause + StepsUndone();
  ending_.reset();
  if (!was_active) return;
  control::v1::SchedulerMessage message;
  message.mutable_abort()->set_generation(generation_);
  message.mutable_abort()->set_reason(cause_);
  for (const Member* member : PlanMembers()) {
    if (member != lost && member->connected) Send(*member, message);
  }
  StoreLosses();
  ready_.clear();
  pending_.clear();
  doubt_.reset();
  step_seconds_ = 0;
  last_step_seconds_.clear();
}

// Whether it is to try again: an order to pause that came before holds the run.
bool SwarmStateImpl::EndOrHold(const std::string& cause, const Member* lost) {
  if (!active()) return false;
  const bool ordered = ending_ && ending_->hold;
  EndGeneration(cause, lost);
  if (ordered) {
    Hold(cause + "; a pause was ordered before that: " + kHowToResume, nullptr);
  }
  return !ordered;
}

void SwarmStateImpl::Interrupt(const std::string& cause, const Member* lost) {
  if (EndOrHold(cause, lost)) CountFailure(cause);
}

void SwarmStateImpl::InterruptUncounted(const std::string& cause) {
  if (EndOrHold(cause, nullptr)) not_before_ = now_ + kBackoffFirst;
}

void SwarmStateImpl::CountFailure(const std::string& cause) {
  if (step_ > progress_) {
    progress_ = step_;
    failures_ = 0;
  }
  ++failures_;
  not_before_ = now_ + std::min(kBackoffMax, kBackoffFirst * (1 << std::min(failures_ - 1, 5u)));
  if (failures_ >= kFailuresMax) {
    Hold(cause + "; this was interruption " + std::to_string(failures_) +
             " in a row without progress, so the run stays paused: mend the cause, then " +
             kHowToResume,
         nullptr);
  }
}

void SwarmStateImpl::Hold(const std::string& cause, const Member* lost) {
  if (state_ == RunState::kFinished || state_ == RunState::kFailed) return;
  EndGeneration(cause, lost);
  held_ = true;
  Store(RunHeld{cause_});
}

void SwarmStateImpl::Fail(const std::string& cause) {
  if (active()) EndGeneration(cause, nullptr);
  if (Enter(RunEvent::kImpossible)) {
    cause_ = cause + "; correct run.toml and start shoal-scheduler again";
  }
}

std::string SwarmStateImpl::StepsUndone() const {
  if (step_ <= checkpoint_step_) return "";
  const std::uint64_t steps = step_ - checkpoint_step_;
  return "; " + (steps == 1 ? "one step" : std::to_string(steps) + " steps") + " since " +
         (checkpoint_step_ == 0 ? "the start"
                                : "the checkpoint of step " + std::to_string(checkpoint_step_)) +
         (steps == 1 ? " is" : " are") + " trained again";
}

std::string SwarmStateImpl::WaitingFor() const {
  if (!lost_.empty()) return LostText();
  const std::size_t here = members_.candidates();
  if (here >= needed() && too_small_) {
    std::string text =
        "the peers that are here have too little memory for all places: parameters "
        "and optimizer of a stage need";
    for (std::size_t s = 0; s < config_.stage_bytes.size(); ++s) {
      text += (s == 0 ? " " : ", ") + FormatBytes(config_.stage_bytes[s]);
    }
    return text +
           "; waiting for a peer with more, or take more stages or [replica] method = "
           "\"qsdp\"";
  }
  if (here >= needed()) return "it continues in a moment";
  std::string text = "waiting for " + std::to_string(needed() - here) +
                     (needed() - here == 1 ? " more peer (" : " more peers (") +
                     std::to_string(here) + " of " + std::to_string(needed()) + " are here)";
  constexpr int kNamed = 4;
  int named = 0;
  for (const auto& pipeline : plan_) {
    for (const PeerId& peer : pipeline) {
      const Member* member = members_.Find(peer);
      if (member == nullptr || (member->connected && member->wants_stage)) continue;
      if (++named > kNamed) continue;
      text += (named == 1 ? ", missing: " : ", ") + member->LabelWithPlace();
    }
  }
  return text;
}

std::string SwarmStateImpl::Reason() const {
  switch (state_) {
    case RunState::kWaiting:
      if (members_.candidates() >= needed() && !started_ && !config_.auto_start) {
        return "enough peers are here (" + std::to_string(members_.candidates()) +
               "); start the run with: shoal swarm start";
      }
      return WaitingFor();
    case RunState::kPreparing:
      return std::to_string(ready_.size()) + " of " + std::to_string(needed()) +
             " peers have their layers and links";
    case RunState::kTraining:
      if (!ending_ && !WhoCannotSave().empty()) return WhoCannotSave();
      if (!ending_) return doubt_ ? doubt_->cause + "; the run goes on" : Warning();
      return (ending_->hold ? "pausing" : ending_->cause + ",") +
             std::string(" as soon as the next checkpoint is whole") +
             (WhoCannotSave().empty() ? "" : "; " + WhoCannotSave());
    case RunState::kPaused: return held_ ? cause_ : cause_ + "; " + WaitingFor();
    case RunState::kFailed: return cause_;
    case RunState::kFinished: return "";
  }
  return "";
}

std::string SwarmStateImpl::Warning() const {
  return config_.synthetic ? "" : FlatLossText(losses_);
}

control::v1::RunStatus SwarmStateImpl::StatusMessage() const {
  control::v1::RunStatus status;
  status.set_state(std::string(RunStateName(state_)));
  status.set_reason(Reason());
  status.set_step(step_);
  status.set_steps(config_.steps);
  status.set_loss(losses_.empty() ? 0 : losses_.back());
  status.set_peers(static_cast<std::uint32_t>(members_.connected()));
  status.set_peers_needed(needed());
  return status;
}

void SwarmStateImpl::ShowStatus(bool even_if_equal) {
  const control::v1::RunStatus status = StatusMessage();
  if (!even_if_equal && status.SerializeAsString() == shown_.SerializeAsString()) return;
  shown_ = status;
  control::v1::SchedulerMessage message;
  *message.mutable_run_status() = status;
  for (const auto& [peer, member] : members_.all()) {
    if (member.connected) Send(member, message);
  }
}

// ---- history ----

void SwarmStateImpl::Store(const StoredEvent& event) {
  out_.push_back(Persist{EncodeEvent(event)});
}

void SwarmStateImpl::StoreLosses() {
  if (losses_stored_ >= losses_.size()) return;
  const auto first = losses_.begin() + static_cast<std::ptrdiff_t>(losses_stored_);
  Store(LossesKnown{losses_stored_, {first, losses_.end()}});
  losses_stored_ = losses_.size();
}

Status SwarmStateImpl::Restore(std::string_view event) {
  SHOAL_ASSIGN_OR_RETURN(const StoredEvent stored, DecodeEvent(event));
  if (!began_ && !std::holds_alternative<RunBegan>(stored)) {
    return DataLoss("the event log does not begin with its run");
  }
  return std::visit([this](const auto& e) { return Replay(e); }, stored);
}

Status SwarmStateImpl::Replay(const RunBegan& event) {
  if (began_) return DataLoss("the event log holds two runs");
  if (event.config_hash != config_hash_) {
    return FailedPrecondition(
        "model, data, seed, cuts or micro-batches differ from those that run " + event.run.ToHex() +
        " began with; undo the change in run.toml, or name another directory for a new run; "
        "--forget-history sets this run's history and artefacts aside");
  }
  began_ = true;
  config_.run = event.run;
  return Status::Ok();
}

Status SwarmStateImpl::Replay(const RunStarted&) {
  started_ = true;
  return Status::Ok();
}

Status SwarmStateImpl::Replay(const PlanMade& event) {
  if (event.resume_step > losses_.size()) return DataLoss("a plan resumes at an unknown step");
  generation_ = event.generation;
  step_ = event.resume_step;
  losses_.resize(step_);
  losses_stored_ = step_;
  if (Enter(RunEvent::kInterrupted) && !held_) cause_ = "the scheduler was started again";
  return Status::Ok();
}

Status SwarmStateImpl::Replay(const LossesKnown& event) {
  if (event.first_step != losses_.size()) return DataLoss("losses of some steps are missing");
  losses_.insert(losses_.end(), event.losses.begin(), event.losses.end());
  losses_stored_ = step_ = losses_.size();
  return Status::Ok();
}

Status SwarmStateImpl::Replay(const CheckpointMade& event) {
  if (event.step > losses_.size()) return DataLoss("a checkpoint is of an unknown step");
  // One of an earlier step: the run went back to it.
  const bool newer = event.step > checkpoint_step_;
  older_step_ = newer ? checkpoint_step_ : 0;
  older_checkpoint_ = newer ? std::exchange(checkpoint_, {}) : ArtefactMap{};
  checkpoint_step_ = event.step;
  checkpoint_.clear();
  for (const control::v1::ArtefactRef& file : event.files) checkpoint_[file.name()] = file;
  return Status::Ok();
}

Status SwarmStateImpl::Replay(const RunHeld& event) {
  Enter(RunEvent::kInterrupted);
  held_ = true;
  cause_ = event.reason;
  return Status::Ok();
}

Status SwarmStateImpl::Replay(const RunReleased&) {
  held_ = false;
  cause_ = "the scheduler was started again";
  return Status::Ok();
}

Status SwarmStateImpl::Replay(const RunFinished& event) {
  // With more steps in run.toml than before, the run goes on from its last checkpoint.
  if (event.steps >= config_.steps) Enter(RunEvent::kCompleted);
  return Status::Ok();
}

RunView SwarmStateImpl::View(TimePoint now) const {
  RunView view;
  view.state = state_;
  view.reason = Reason();
  view.generation = generation_;
  view.step = step_;
  view.steps = config_.steps;
  view.checkpoint_step = checkpoint_step_;
  view.losses = losses_;
  view.loss = losses_.empty() ? 0 : losses_.back();
  view.step_seconds = step_seconds_;
  view.last_step_seconds.assign(last_step_seconds_.begin(), last_step_seconds_.end());
  view.seconds_in_control = seconds_in_control_;
  if (step_seconds_ > 0) {
    view.samples_per_second =
        static_cast<double>(config_.micro_batches) * config_.micro_batch_rows / step_seconds_;
  }
  for (const auto& [peer, member] : members_.all()) {
    MemberView shown;
    shown.peer = peer;
    shown.name = member.name;
    shown.device = member.device;
    shown.address = member.address;
    shown.state = member.connected ? member.state : "away";
    shown.connected = member.connected;
    shown.wants_stage = member.wants_stage;
    shown.pipeline = member.pipeline;
    shown.stage = member.stage;
    shown.last_heard_s = std::max(0.0, Seconds(now - member.last_heard));
    shown.status_json = member.status_json;
    view.members.push_back(std::move(shown));
  }
  view.m_checks = consistency_.m_checks();
  view.m_mismatches = consistency_.m_mismatches();
  view.weight_checks = consistency_.weight_checks();
  view.weight_mismatches = consistency_.weight_mismatches();
  view.last_difference = last_difference_;
  view.refused_values = plausibility_.refused();
  view.last_refused = plausibility_.last_refused();
  view.warning = Warning();
  view.timings = timings_;
  view.lans = lans_.stages;
  return view;
}

ArtefactMap SwarmStateImpl::CurrentWeights() const {
  if (checkpoint_step_ > 0) return checkpoint_;
  ArtefactMap weights = initial_;
  weights.erase("data");
  return weights;
}

bool SwarmStateImpl::IsMember(const PeerId& peer) const { return members_.Find(peer) != nullptr; }

std::unique_ptr<SwarmState> NewSwarmState(const RunConfig& config,
                                          std::map<std::string, control::v1::ArtefactRef> initial,
                                          std::string join_secret) {
  return std::make_unique<SwarmStateImpl>(config, std::move(initial), std::move(join_secret));
}

}  // namespace shoal::scheduler
